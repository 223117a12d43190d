"""plot leakage: scores of models over the success of attacks on shared files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from furlkit.catalogue import AUDITS
from furlkit.errors import UsageError
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import Value, read_all, read_one
from furlkit.reports.results import Results
from furlkit.reports.summary import Measure, grouped
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture

Pair = tuple[Results, Results]  # Results of audits, and scores of models.


@picture
def run(
    series: Series, value: str, allow_different: tuple[str, ...], frame: Frame
) -> Picture:
    """Draw a line for each LINE of labels LINE:POINT, with a mark for each POINT."""
    found = [_divided(label, paths) for label, paths in series]
    attacks = read_all(
        [attack for attack, _ in found], "auc", None, allow_different=allow_different
    )
    scores = read_all(
        [score for _, score in found], value, None, allow_different=allow_different
    )
    pairs = [*zip(attacks, scores, strict=True)]
    lines = {
        plain(label): [_measure(pair) for pair in points]
        for label, points in grouped(pairs, lambda pair: pair[0].group).items()
    }
    protocols = dict.fromkeys(plain(each.protocol) for each in scores)
    shown = Value(plain(value), tuple(protocols))
    text = "; ".join(
        f"{label + ' ' if label else ''}{point.label}: {shown.show(point.y.mean)} at AUC "
        f"{point.x.mean:.3f}"
        for label, points in lines.items()
        for point in points
    )
    data = [{"label": k, "points": [p.to_json() for p in v]} for k, v in lines.items()]
    return (
        lambda: figure("leakage:draw_leakage")(lines, shown, frame),
        f"{shown.name} of {text}",
        {"value": value, "lines": data},
    )


def _divided(label: str, paths: Sequence[Path]) -> Pair:
    """Divide the files of a point into audits and scores."""
    line, _, point = label.rpartition(":")
    kinds = grouped(paths, _is_audit)
    for kind, name, command in (
        (True, "audit", "audit"), (False, "score", "evaluate")
    ):  # fmt: skip
        if kind not in kinds:
            raise UsageError(
                f"--series {label}: has no {name}; give files of furlkit audit and of "
                f"furlkit evaluate (run furlkit {command})"
            )
    attack, score = (
        Results(line, point, (), (), tuple(kinds[kind])) for kind in (True, False)
    )
    return attack, score


def _is_audit(path: Path) -> bool:
    protocol: Any = read_one(path).get("protocol")
    return isinstance(protocol, str) and protocol in AUDITS


def _measure(pair: Pair) -> Measure:
    attack, score = pair
    return Measure(plain(attack.label), attack.summary, score.summary)
