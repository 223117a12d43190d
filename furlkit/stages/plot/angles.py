"""plot angles: angles between the representations of two models, by round."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.container.header import canonical, short
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import (
    check_same,
    files_of,
    is_number,
    read_once,
    round_of,
)
from furlkit.reports.summary import Box
from furlkit.reports.text import lookup, plain, word
from furlkit.stages.plot.picture import Picture, Series, figure, picture

LARGEST = 180 + 1e-6  # Degrees; float32 results may slightly exceed 180.


@picture
def run(series: Series, frame: Frame) -> Picture:
    """Draw a box for each file, rounds side by side, a panel for each series."""
    panels = [(plain(label), _boxes(paths)) for label, paths in series]
    ends = "; ".join(_end(label, boxes) for label, boxes in panels)
    data = [
        {"label": label, "boxes": [b._asdict() for b in bs]} for label, bs in panels
    ]
    return (
        lambda: figure("angles:draw_angles")(panels, frame),
        f"median angle {ends}",
        {"panels": data},
    )


def _boxes(paths: tuple[Path, ...]) -> list[Box]:
    """Box of each result, by round and seed, in any order of the files."""
    found: dict[tuple[int, int, str], Box] = {}
    read = read_once(files_of(paths, "angles", last=False))
    for path, metrics in read:
        box, seed = _box(path, metrics), lookup(metrics, "checkpoint.seed")
        seed = seed if isinstance(seed, int) else -1
        found[box.round, seed, canonical(metrics)] = box
    check_same((f"of layer {word(m.get('layer'))}", path) for path, m in read)
    return [found[key] for key in sorted(found)]


def _box(path: Path, metrics: dict[str, Any]) -> Box:
    protocol = metrics.get("protocol")
    if protocol != "angles":
        raise InputError(
            f"{path}: expected the protocol angles, found {short(protocol)}; create it "
            "with furlkit evaluate angles"
        )
    if "round" in metrics and metrics["round"] is None:
        raise InputError(
            f"{path}: compares models of several rounds, and has no place on the axis; "
            "compare models of a single round"
        )
    quartiles = lookup(metrics, "angles.quartiles")
    whiskers = lookup(metrics, "angles.whiskers")
    five: list[Any] = []
    with suppress(TypeError, ValueError):
        (low, high), (q1, median, q3) = whiskers, quartiles
        five = [low, q1, median, q3, high]
    fit = five and all(is_number(angle) and 0 <= angle <= LARGEST for angle in five)
    if not fit or sorted(five) != five:
        raise InputError(
            f"{path}: expected rising angles in degrees, found quartiles "
            f"{short(quartiles)} and whiskers {short(whiskers)}; re-create it with "
            "furlkit evaluate angles"
        )
    return Box(round_of(path, metrics), *map(float, five))


def _end(label: str, boxes: list[Box]) -> str:
    last = boxes[-1].round
    medians = ", ".join(f"{box.median:.1f}" for box in boxes if box.round == last)
    return f"{label} {medians} degrees after round {last}".lstrip()
