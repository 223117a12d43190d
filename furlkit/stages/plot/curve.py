"""plot curve: scores over rounds."""

from furlkit.files.container.header import with_article
from furlkit.reports.conditions import Measured, check_alike, measured
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import (
    Score,
    Value,
    check_same,
    files_of,
    protocol_of,
    read_once,
    read_score,
)
from furlkit.reports.summary import Line, grouped, summarise
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture


@picture
def run(
    series: Series,
    value: str,
    protocol: str,
    allow_different: tuple[str, ...],
    frame: Frame,
) -> Picture:
    """Draw a value over rounds, a line for each series and protocol."""
    files = tuple((label, files_of(paths, protocol, False)) for label, paths in series)
    found = _scores(files, value, allow_different)
    protocols = dict.fromkeys(protocol for _, protocol in found)
    lines = []
    for (label, protocol), scores in found.items():
        both = ", ".join(filter(None, (label, protocol)))
        lines.append(_line(label if label and len(protocols) == 1 else both, scores))
    shown = Value(plain(value), tuple(protocols))
    ends = "; ".join(
        f"{line.label} {shown.show(line.mean[-1], unit=' %')} after round {line.rounds[-1]}"
        for line in lines
    )
    return (
        lambda: figure("lines:draw_lines")(lines, shown, frame),
        f"{value} of {ends}",
        {"lines": [line.to_json() for line in lines]},
    )


def _scores(
    series: Series, value: str, allowed: tuple[str, ...]
) -> dict[tuple[str, str], list[Score]]:
    """Scores by label and protocol, labels in the given order."""
    found: dict[tuple[str, str], list[Score]] = {}
    conditions: list[Measured] = []
    for label, given in grouped(series, lambda each: plain(each[0])).items():
        read = read_once(path for _, paths in given for path in paths)
        conditions += [measured(label, p, protocol_of(m), m) for p, m in read]
        scores = [read_score(path, metrics, value) for path, metrics in read]
        by_protocol = grouped(scores, lambda score: score.protocol)
        found |= {(label, name): by_protocol[name] for name in sorted(by_protocol)}
    for alike in grouped(conditions, lambda each: each.protocol).values():
        check_alike(alike, allowed)
    return found


def _line(label: str, scores: list[Score]) -> Line:
    """Means over the files of each round; the models must have equal roles."""
    check_same((f"of {with_article(score.role)} model", score.path) for score in scores)
    rounds = grouped(sorted(scores, key=lambda s: s.round), lambda s: s.round)
    values = [summarise(s.value for s in group) for group in rounds.values()]
    return Line.of(label, list(rounds), list(rounds), values)
