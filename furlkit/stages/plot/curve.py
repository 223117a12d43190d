"""plot curve: scores over rounds."""

from furlkit.errors import UsageError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.metrics import read_metrics
from furlkit.reports.figures.lines import draw_lines
from furlkit.reports.metrics import Score, is_share, read_score, show
from furlkit.reports.summary import Line, grouped, summarise
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Paths, Picture, Series, labelled, picture


@picture
def run(files: Paths, series: Series, value: str, title: str) -> Picture:
    """Draw a value over rounds, one line for each series and protocol."""
    lines = _lines(labelled("curve", files, series), value)
    percent = is_share(value)
    ends = "; ".join(
        f"{line.label} {show(line.mean[-1], percent)} after round {line.rounds[-1]}"
        for line in lines
    )
    return Picture(
        lambda: draw_lines(lines, plain(value), percent, plain(title)),
        f"{value} of {ends}",
        {"lines": [line.to_json() for line in lines]},
    )


def _lines(series: Series, value: str) -> list[Line]:
    """A line for each label and protocol, labels in the order they were given."""
    # The same result given twice in a series counts once.
    found: dict[tuple[str, str], dict[str, Score]] = {}
    for label, paths in series:
        for path in paths:
            metrics = read_metrics(path)
            score = read_score(path, metrics, value)
            scores = found.setdefault((plain(label), score.protocol), {})
            scores.setdefault(canonical(metrics), score)
    labels = [plain(label) for label, _ in series]
    order = sorted(found, key=lambda key: (labels.index(key[0]), key[1]))
    single = len({protocol for _, protocol in found}) == 1
    return [
        _line(
            label if label and single else f"{label}, {protocol}".removeprefix(", "),
            list(found[label, protocol].values()),
        )
        for label, protocol in order
    ]


def _line(label: str, scores: list[Score]) -> Line:
    """Means over the files of each round; the models must have one role."""
    first = scores[0]
    for score in scores:
        if score.role != first.role:
            raise UsageError(
                f"{score.path}: scores {with_article(score.role)} model, {first.path} "
                f"{with_article(first.role)} model; give them to plot as two --series"
            )
    rounds = grouped(scores, lambda score: score.round)
    order = sorted(rounds)
    values = [summarise(score.value for score in rounds[r]) for r in order]
    return Line.of(label, order, order, values)
