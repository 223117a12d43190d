"""Sections of the page, from the facts about runs."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import __version__
from furlkit.catalogue import Paper
from furlkit.files.clients import client_order
from furlkit.reports.differences import t_interval, wilson
from furlkit.reports.ledger import SENT
from furlkit.reports.page.collect import Run, Scored, Training, totals
from furlkit.reports.page.html import (
    Cell,
    Table,
    details,
    element,
    paragraph,
    section,
    table,
    text,
)
from furlkit.reports.page.methods import bibtex, citation, methods_text
from furlkit.reports.page.svg import Series, bars, heat_map, line_chart
from furlkit.reports.summary import grouped, summarise
from furlkit.reports.text import byte_size, counted, flatten, plain, short_hash

MOST_LINES = 50  # Clients drawn as lines; above, quantiles.
MOST_GROUPS = 6  # Groups of runs with charts of clients.


class Page(NamedTuple):
    """HTML of the page, and the tables for CSV files."""

    html: str
    tables: tuple[Table, ...]


class Extra(NamedTuple):
    """Further content: sheets of images by title (PNG), and audits by file name."""

    sheets: tuple[tuple[str, bytes], ...] = ()
    audits: tuple[tuple[str, dict[str, Any]], ...] = ()
    refresh: int | None = None


def build(runs: Sequence[Run], extra: Extra) -> Page:
    """Return the page of some runs; equal runs give equal bytes."""
    tables: list[Table] = []

    def shown(given: Table) -> str:
        if not given.rows:
            return ""
        tables.append(given)
        return table(given)

    parts = {
        "problems": ("Problems", _problems(runs, shown)),
        "runs": ("Runs", _runs(runs, shown)),
        "curves": ("Curves", _curves(runs, shown)),
        "clients": ("Clients", _clients(runs, shown)),
        "outgoing": ("What left each site", _outgoing(runs, extra, shown)),
        "images": ("Images as the network sees them", _images(extra)),
        "tables": ("Tables and claims", _results(runs, shown)),
        "provenance": ("Provenance", _provenance(runs, shown)),
        "methods": ("Methods", _methods(runs)),
    }
    made = {key: section(key, title, found) for key, (title, found) in parts.items()}
    links = "".join(
        element("a", text(parts[key][0]), href=f"#{key}") for key in made if made[key]
    )
    body = _heading(runs) + element("nav", links) + "".join(made.values())
    return Page(_document(body, runs, extra.refresh), tuple(tables))


def _document(body: str, runs: Sequence[Run], refresh: int | None) -> str:
    package = files("furlkit.reports.page")
    style, script = (package.joinpath(f"page.{k}").read_text() for k in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The browser loads nothing, and runs no other script.
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'"
    )
    again = f'<meta http-equiv="refresh" content="{refresh}">\n' if refresh else ""
    title = text(", ".join(run.name for run in runs[:3]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{again}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>furlkit: {title}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n{body}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _heading(runs: Sequence[Run]) -> str:
    planned = [run.planned for run in runs if run.planned]
    done, steps = (sum(getattr(p, key) for p in planned) for key in ("done", "steps"))
    recipes = sorted({p.recipe for p in planned})
    facts = [counted(len(runs), "run"), *recipes]
    facts += [f"{done:,} of {steps:,} steps done"] if planned else []
    title = element("h1", text(common_name([run.name for run in runs])))
    return element("header", title + paragraph(" · ".join(facts), "note"))


def common_name(names: Sequence[str]) -> str:
    """Return the name of runs: the common beginning, without a seed's number."""
    if len(names) == 1:
        return names[0]
    pairs = zip(min(names), max(names), strict=False)
    start = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if all(name[len(start) :].isdecimal() for name in names):
        start = start.rstrip("/-_. 0123456789").removesuffix("seed").rstrip("/-_. ")
    else:
        start = start.rpartition("/")[0]
    return start or counted(len(names), "run")


# --- problems and runs ----------------------------------------------------------------


def _problems(runs: Sequence[Run], shown: Any) -> Iterator[str]:
    found = [(run, problem) for run in runs for problem in run.problems]
    if not found:
        unplanned = not all(run.planned for run in runs)
        steps = " Without a plan, the states of steps are unknown." if unplanned else ""
        yield paragraph(f"None found.{steps}", "good")
        return
    same = grouped(found, lambda each: each[1])
    order = sorted(same, key=lambda problem: problem.level != "error")
    rows = [(p.level, p.kind, p.text, _names(r for r, _ in same[p])) for p in order]
    columns = ("level", "kind", "problem", "run")
    tones = [problem.level for problem in order]
    content = shown(Table("problems", "", columns, rows, tones))
    yield element("div", content, class_="problems")


def _names(runs: Iterable[Run]) -> str:
    names = [*dict.fromkeys(run.name for run in runs)]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def _runs(runs: Sequence[Run], shown: Any) -> Iterator[str]:
    names = [*dict.fromkeys(score.name for run in runs for score in run.scores)]
    columns = ("run", *(f"{n} (%)" for n in names), "sent", "received",
               "training time", "epsilon", "rounds", "clients", "steps")  # fmt: skip
    rows = [_run_row(run, names) for run in runs]
    groups = grouped(runs, lambda run: run.group)
    rows += [_mean_row(same, names) for same in groups.values() if len(same) > 1]
    yield shown(Table("runs", "", columns, rows))
    yield paragraph(
        "Scores of the last round with 95 % intervals: of one run, Wilson's over the "
        "test images; of several seeds, Student's over the seeds.",
        "note",
    )


def _run_row(run: Run, names: Sequence[str]) -> tuple:
    plan, (sent, received) = run.planned, totals(run)
    steps = Cell(plan.done, f"{plan.done:,} of {plan.steps:,}") if plan else None
    last = {score.name: score for score in run.scores}
    scores = (_score(last[name]) if name in last else None for name in names)
    seconds = sum(training.seconds for training in run.trainings)
    return (
        run.name, *scores, _bytes(sent), _bytes(received),
        Cell(seconds, _duration(seconds)), run.epsilon,
        run.rounds, len(run.clients), steps,
    )  # fmt: skip


def _mean_row(runs: Sequence[Run], names: Sequence[str]) -> tuple:
    cells: list[Cell | None] = []
    for name in names:
        ends = [{s.name: s for s in run.scores}.get(name) for run in runs]
        values = [end.value for end in ends if end]
        cells.append(_mean(values) if values else None)
    label = f"{common_name([run.name for run in runs])}: mean of {len(runs)} seeds"
    return (label, *cells, *[None] * 7)


def _mean(values: Sequence[float]) -> Cell:
    _, low, high, _ = found = t_interval(values)
    mean = found.estimate
    if low is None or high is None:
        return Cell(100 * mean, f"{100 * mean:.2f}")
    return Cell(100 * mean, f"{100 * mean:.2f} ± {50 * (high - low):.2f}")


def _score(score: Scored) -> Cell:
    value = 100 * score.value
    if not score.images or not 0 <= score.value <= 1:
        return Cell(value, f"{value:.2f}")
    low, high = wilson(score.value, score.images)
    return Cell(value, f"{value:.2f} ({100 * low:.1f} to {100 * high:.1f})")


def _bytes(size: int) -> Cell:
    return Cell(size, byte_size(size))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02.0f} s" if minutes else f"{rest:.1f} s"


# --- curves ---------------------------------------------------------------------------


def _labels(runs: Sequence[Run]) -> dict[str, str]:
    """Label of each group of runs; empty for a single group."""
    groups = grouped(runs, lambda run: run.group)
    if len(groups) == 1:
        return dict.fromkeys(groups, "")
    return {k: common_name([run.name for run in same]) for k, same in groups.items()}


def _curves(runs: Sequence[Run], shown: Any) -> Iterator[str]:
    labels = _labels(runs)
    names = [*dict.fromkeys(score.name for run in runs for score in run.scores)]
    lines = {name: _score_lines(runs, labels, name) for name in names}
    if len(labels) == 1 and 1 < len(names) <= 4:
        together = [each._replace(label=n) for n, (each, *_) in lines.items()]
        charts = [line_chart("accuracy (%)", together, _band_note(runs))]
    else:
        charts = [
            line_chart(f"{n} accuracy (%)", lines[n], _band_note(runs)) for n in names
        ]
    note = "mean of clients; band: one standard deviation"
    for key, title in (("loss", "training loss"), ("rank", "effective rank")):
        charts.append(line_chart(title, _training_lines(runs, labels, key), note))
    yield element("div", "".join(charts), class_="grid") if any(charts) else ""
    if not names:
        yield paragraph("No scores; furlkit evaluate writes them.", "note")
    rows = [(r.name, s.name, s.round, s.value) for r in runs for s in r.scores]
    scores = Table("scores", "", ("run", "score", "round", "accuracy"), rows)
    if content := shown(scores):
        yield details("Scores of all rounds", content)


def _band_note(runs: Sequence[Run]) -> str:
    several = any(len(s) > 1 for s in grouped(runs, lambda run: run.group).values())
    return "band: one standard deviation of the seeds" if several else ""


def _summed(label: str, found: Iterable[tuple[float, float]]) -> Series:
    """Mean and standard deviation at each x."""
    groups = sorted(grouped(found, lambda each: each[0]).items())
    stats = [summarise(y for _, y in same) for _, same in groups]
    low = [s.mean - (s.std or 0) for s in stats]
    high = [s.mean + (s.std or 0) for s in stats]
    bands = ((low, high),) if any(s.std for s in stats) else ()
    return Series(label, [x for x, _ in groups], [s.mean for s in stats], bands)


def _score_lines(
    runs: Sequence[Run], labels: dict[str, str], name: str
) -> list[Series]:
    found = []
    for group, same in grouped(runs, lambda run: run.group).items():
        scores = (s for run in same for s in run.scores if s.name == name)
        points = [(score.round, 100 * score.value) for score in scores]
        found.append(_summed(labels[group] or name, points))
    return found


def _training_lines(
    runs: Sequence[Run], labels: dict[str, str], key: str
) -> list[Series]:
    found = []
    for group, same in grouped(runs, lambda run: run.group).items():
        every = chain.from_iterable(run.trainings for run in same)
        known = [t for t in every if getattr(t, key) is not None]
        for objective, trainings in grouped(known, lambda t: t.objective).items():
            label = ", ".join(filter(None, (labels[group], plain(objective))))
            points = [(t.round, getattr(t, key)) for t in trainings]
            found.append(_summed(label, points))
    return found


# --- clients --------------------------------------------------------------------------


def _clients(runs: Sequence[Run], shown: Any) -> Iterator[str]:
    labels = _labels(runs)
    groups = [*grouped(runs, lambda run: run.group).items()]
    for group, same in groups[:MOST_GROUPS]:
        charts = [*_client_charts(same)]
        if charts:
            yield element("h3", text(labels[group])) if labels[group] else ""
            yield element("div", "".join(charts), class_="grid")
    if groups[MOST_GROUPS:]:
        yield paragraph(f"Charts of the first {MOST_GROUPS} groups of runs.", "note")
    columns = ("run", "client", "images", "rounds", "last loss", "mean norm",
               "rounds as outlier", "mean share kept", "sent", "training time")  # fmt: skip
    rows = [row for run in runs for row in _client_rows(run, len(runs) > 1)]
    yield shown(Table("clients", "", columns, rows))
    if not any(run.uploads for run in runs) and rows:
        yield paragraph(
            "No norms of uploads; furlkit aggregate --report writes them. No drift; "
            "furlkit evaluate drift measures it."
            if not any(run.measures for run in runs)
            else "No norms of uploads; furlkit aggregate --report writes them.",
            "note",
        )


def _client_charts(runs: Sequence[Run]) -> Iterator[str]:
    first = runs[0]
    if split := first.split:
        names = [str(client) for client in range(len(split.sizes))]
        which = f" ({first.name})" if len(runs) > 1 else ""
        title = f"images by client and class: {plain(split.scheme)}{which}"
        yield heat_map(title, names, split.classes, split.counts)
    trainings = [t for run in runs for t in run.trainings]
    for objective, same in grouped(trainings, lambda t: t.objective).items():
        points = [(t.client, t.round, t.loss) for t in same if t.loss is not None]
        yield _by_client(f"loss of each client, {plain(objective)}", points, len(runs))
    uploads = [u for run in runs for u in run.uploads]
    norms = [(u.client, u.round, u.norm) for u in uploads]
    yield _by_client("norm of each upload", norms, len(runs))
    own = [(t.client, t.round, t.own) for t in trainings if t.own is not None]
    yield _by_client("share of the client's model kept by the update", own, len(runs))
    measures = [m for run in runs for m in run.measures]
    for name, found in grouped(measures, lambda m: m[0]).items():
        values = [(float(number), value) for _, number, value in found]
        yield line_chart(f"drift: {name}", [_summed(name, values)])


def _by_client(title: str, points: Sequence[tuple], runs: int) -> str:
    """Return a line for each client; quantiles for many clients or several runs."""
    clients = sorted({client for client, _, _ in points}, key=client_order)
    if len(clients) > MOST_LINES or runs > 1:
        who = "clients and seeds" if runs > 1 else "clients"
        note = f"median, quartiles, minimum and maximum of {len(clients)} {who}"
        return line_chart(title, _quantiles(points), note)
    by_client = grouped(sorted(points, key=lambda p: p[1]), lambda p: p[0])
    lines = [
        Series(
            f"client {c}", [p[1] for p in by_client[c]], [p[2] for p in by_client[c]]
        )
        for c in clients
    ]
    return line_chart(title, lines)


def _quantiles(points: Sequence[tuple]) -> list[Series]:
    rounds = sorted(grouped(points, lambda p: p[1]).items())
    if not rounds:
        return []
    q = np.array([np.quantile([p[2] for p in same], [0, 0.25, 0.5, 0.75, 1])
                  for _, same in rounds]).T.tolist()  # fmt: skip
    bands = ((q[0], q[4]), (q[1], q[3]))
    return [Series("median", [number for number, _ in rounds], q[2], bands)]


def _client_rows(run: Run, several: bool) -> Iterator[tuple]:
    trained = grouped(run.trainings, lambda t: t.client)
    uploads = grouped(run.uploads, lambda u: u.client)
    traffic = grouped(run.traffic, lambda t: t.client)
    for client in run.clients:
        mine: list[Training] = trained.get(client, [])
        last = max(mine, key=lambda t: t.round, default=None)
        norms = [u.norm for u in uploads.get(client, [])]
        kept = [t.own for t in mine if t.own is not None]
        sent = sum(t.size for t in traffic.get(client, []) if t.direction == SENT)
        seconds = sum(t.seconds for t in mine)
        yield (
            run.name if several else None,
            client,
            last.examples if last else None,
            len(mine),
            last.loss if last else None,
            summarise(norms).mean if norms else None,
            sum(u.stands_out for u in uploads[client]) if norms else None,
            summarise(kept).mean if kept else None,
            _bytes(sent),
            Cell(seconds, _duration(seconds)),
        )


# --- what left the sites --------------------------------------------------------------


def _outgoing(runs: Sequence[Run], extra: Extra, shown: Any) -> Iterator[str]:
    rows = []
    for run in runs:
        by_kind = grouped(run.traffic, lambda t: (t.direction, t.kind))
        for (way, kind), same in sorted(by_kind.items(), reverse=True):
            files, size = sum(t.files for t in same), sum(t.size for t in same)
            name = run.name if len(runs) > 1 else None
            each = _bytes(round(size / files))
            rows.append((name, way, kind, len(same), files, _bytes(size), each))
    columns = (
        "run",
        "direction",
        "kind",
        "clients",
        "files",
        "bytes",
        "bytes per file",
    )
    yield shown(Table("traffic", "", columns, rows))
    one = runs[0]
    if len(runs) == 1:
        sizes = [(c, _sent_by(one, c) / 1e6) for c in one.clients]
        names, values = [str(c) for c, _ in sizes], [v for _, v in sizes]
        if len(set(values)) > 1:
            yield bars("megabytes sent by each client", names, values, "MB")
    described = {o.kind: o for run in runs for o in reversed(run.outgoing)}
    for kind, found in described.items():
        items = "".join(
            element("dt", text(title)) + element("dd", text(words))
            for title, words in found.texts
        )
        summary = (
            f"{kind}: what the files tell, and what papers recovered from such files"
        )
        yield details(summary, element("dl", items))
    for name, document in extra.audits:
        cells = [
            pair for pair in flatten(document) if pair[0] not in ("content", "kind")
        ]
        yield shown(
            Table(f"audit-{name}", f"audit: {name}", ("number", "value"), cells)
        )


def _sent_by(run: Run, client: Any) -> int:
    mine = (t for t in run.traffic if t.client == client and t.direction == SENT)
    return sum(t.size for t in mine)


def _images(extra: Extra) -> Iterator[str]:
    figures = "".join(_sheet(title, png) for title, png in extra.sheets)
    yield element("div", figures, class_="sheets") if figures else ""


def _sheet(title: str, png: bytes) -> str:
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    image = f'<img alt="{text(title)}" src="{source}">'
    return element("figure", element("figcaption", text(title)) + image)


# --- results, provenance, methods -----------------------------------------------------


def _results(runs: Sequence[Run], shown: Any) -> Iterator[str]:
    for run in runs:
        for result in run.results:
            heading, *rows = result.rows
            cells = [[_numeric(cell) for cell in row] for row in rows]
            name = f"{run.name}/{result.path}" if len(runs) > 1 else result.path
            yield shown(Table(f"result-{name}", name, heading, cells))


def _numeric(cell: str) -> Any:
    try:
        number = float(cell)
    except ValueError:
        return cell or None
    return Cell(number, f"{number:.4g}")


def _provenance(runs: Sequence[Run], shown: Any) -> Iterator[str]:
    for run in runs:
        parts = [*_run_provenance(run, shown)]
        content = "".join(parts)
        yield details(run.name, content) if len(runs) > 1 else content


def _run_provenance(run: Run, shown: Any) -> Iterator[str]:
    if run.last:
        path, content = run.last
        lines = f"furlkit replay {plain(path)}\nfurlkit replay {plain(path)} --run"
        yield paragraph(f"Last global model: {path}, content {content}", "hash")
        yield element("pre", text_lines(lines))
    if run.versions:
        yield paragraph(f"Versions: {'; '.join(run.versions)}")
    if plan := run.planned:
        commands = [(stage, line) for stage, line in plan.commands.items()]
        name = f"commands-{run.name}"
        yield shown(
            Table(name, "Commands of the recipe", ("stage", "command"), commands)
        )
        settings = [*flatten({k: v for k, v in plan.settings.items() if v != ""})]
        content = shown(
            Table(f"settings-{run.name}", "", ("setting", "value"), settings)
        )
        yield details("Settings", content)
    hashes = [(path, Cell(h, short_hash(h))) for path, h in run.hashes]
    content = shown(Table(f"hashes-{run.name}", "", ("file", "content"), hashes))
    yield details("Content hashes", content) if content else ""


def text_lines(lines: str) -> str:
    """Escape text of several lines."""
    return "\n".join(map(text, lines.split("\n")))


def _methods(runs: Sequence[Run]) -> Iterator[str]:
    first = [same[0] for same in grouped(runs, lambda run: run.group).values()]
    labels = _labels(runs)
    papers: dict[Paper, None] = {}
    for run in first[:MOST_GROUPS]:
        found = methods_text(run)
        label = f"{labels[run.group]}: " if labels[run.group] else ""
        yield paragraph(label + " ".join(found.sentences)) if found.sentences else ""
        cited = "".join(element("li", _reference(paper)) for paper in found.papers)
        yield element("ol", cited) if cited else ""
        papers |= dict.fromkeys(found.papers)
    if papers:
        entries = "\n\n".join(bibtex(paper) for paper in papers)
        yield details("BibTeX", element("pre", text_lines(entries)))
    yield paragraph(f"Made by furlkit {__version__}.", "note")


def _reference(paper: Paper) -> str:
    link = element("a", text(paper.url.partition("//")[2]), href=paper.url)
    return f"{text(citation(paper))} {link}"


def csv_name(name: str) -> str:
    """Return a file name for a table."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    return f"{Path(safe).name[:100]}.csv"
