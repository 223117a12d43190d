"""plot angles: how far the representations of two models are apart, by round."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, short
from furlkit.files.metrics import read_metrics
from furlkit.inputs.paths import check_output as check_inputs
from furlkit.reports.figures.angles import Box, draw_angles
from furlkit.reports.figures.style import check_output, finish
from furlkit.reports.metrics import is_number, round_of, scored
from furlkit.reports.text import plain, word

LARGEST = 180 + 1e-6  # Degrees; what was made from float32 may end a bit above.


@dataclass(frozen=True)
class Options:
    """`series` are labels with metrics files of evaluate angles, one panel each."""

    series: tuple[tuple[str, tuple[Path, ...]], ...]
    output: Path
    title: str = ""
    dry_run: bool = False


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw a box for each file, rounds side by side, one panel per series."""
    check_output(options.output)
    files = [path for _, paths in options.series for path in paths]
    if not files:
        raise UsageError(
            "plot angles: give metrics files, which evaluate angles writes"
        )
    check_inputs(options.output, files)
    panels = [(plain(label), _boxes(paths)) for label, paths in options.series if paths]
    ends = "; ".join(_end(label, boxes) for label, boxes in panels)
    data = [{"label": label, "boxes": list(map(asdict, b))} for label, b in panels]
    return finish(
        lambda: draw_angles(panels, plain(options.title)), options.output,
        options.dry_run, f"median angle {ends}", {"panels": data},
    )  # fmt: skip


def _boxes(paths: tuple[Path, ...]) -> list[Box]:
    """A box for each result, by round and seed, whatever the order of the files.

    The same result given twice counts once.
    """
    found: dict[tuple[int, int, str], Box] = {}
    layers: dict[str, Path] = {}
    for path in paths:
        metrics = read_metrics(path)
        box = _box(path, metrics)
        layers.setdefault(word(metrics.get("layer")), path)
        seed = scored(metrics).get("seed")
        seed = seed if isinstance(seed, int) else -1
        found[box.round, seed, canonical(metrics)] = box
    if len(layers) > 1:
        (one, first), (other, second) = list(layers.items())[:2]
        raise UsageError(
            f"{second}: has the angles of {other}, {first} those of {one}; give them "
            "to plot as two --series"
        )
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
            f"{path}: compares models of several rounds, so it has no place on the axis; "
            "compare models of one round"
        )
    found = metrics.get("angles")
    angles: dict[str, Any] = found if isinstance(found, dict) else {}
    quartiles, whiskers = (
        angles[name] if isinstance(angles.get(name), list) else []
        for name in ("quartiles", "whiskers")
    )
    five = [*whiskers[:1], *quartiles, *whiskers[1:]]
    fit = len(quartiles) == 3 and len(whiskers) == 2
    fit = fit and all(is_number(angle) and 0 <= angle <= LARGEST for angle in five)
    if not fit or sorted(five) != five:
        raise InputError(
            f"{path}: expected rising angles in degrees, found quartiles "
            f"{short(angles.get('quartiles'))} and whiskers {short(angles.get('whiskers'))}; re-create it with "
            "furlkit evaluate angles"
        )
    return Box(round_of(path, metrics), *map(float, five))


def _end(label: str, boxes: list[Box]) -> str:
    last = boxes[-1].round
    medians = ", ".join(f"{box.median:.1f}" for box in boxes if box.round == last)
    return f"{label} {medians} degrees after round {last}".lstrip()
