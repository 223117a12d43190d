"""Facts about a run for the page, read from headers, metrics and journals."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.catalogue import COMMANDS, methods_used
from furlkit.errors import FurlkitError, InputError
from furlkit.files.clients import ClientId, client_order, is_client
from furlkit.files.container.header import Header
from furlkit.files.container.read import Container
from furlkit.files.journal import (
    COLLAPSED_RANK,
    COLLAPSED_SPREAD,
    Journal,
    described,
    seconds_of,
)
from furlkit.files.metrics import as_metrics, read_json
from furlkit.files.opening import LONGEST_LIST, read_bytes
from furlkit.files.partition import read_partition
from furlkit.files.receipts import NOTED
from furlkit.reports.conditions import stale_files
from furlkit.reports.explain import class_names
from furlkit.reports.ledger import RECEIVED, SENT, ledger_of
from furlkit.reports.metrics import facts_of, is_number, protocol_of
from furlkit.reports.outgoing import paragraphs
from furlkit.reports.runs import File, files_below, objective_of, read_files
from furlkit.reports.summary import Upload, grouped
from furlkit.reports.text import counted, lookup, plain

Metrics = tuple[Path, dict[str, Any]]
# Numbers that evaluate drift and angles measure without labels.
MEASURES = ("alignment", "uniformity", "effective_rank", "mean_cka", "angles.mean")
# First columns of the CSV tables of compare.
COMPARED = (["value", "label"], ["claim", "higher"])
# Families that make a command a separate stage in the text about methods.
CHOICES = ("scheme", "objective", "rule", "teacher", "kind")
MOST_RESULTS = 50  # Tables of compare.


class Problem(NamedTuple):
    """A problem of a run; `level` is "error" or "warning"."""

    level: str
    kind: str
    text: str


class Planned(NamedTuple):
    """Plan of a run and the states of the steps, read by the stage.

    `group` is equal for runs that differ only in the seed.
    """

    recipe: str
    settings: dict[str, Any]
    commands: dict[str, str]
    steps: int
    done: int
    problems: tuple[Problem, ...]
    group: str


class Scored(NamedTuple):
    """Accuracy of a run's model; `images` is the number of test images."""

    name: str
    round: int
    value: float
    images: int
    epsilon: float | None
    path: Path


class Training(NamedTuple):
    """Training of a client in a round, from the upload and the journal."""

    client: ClientId
    round: int
    objective: str
    examples: int | None
    loss: float | None
    seconds: float
    rank: float | None
    spread: float | None
    own: float | None


class Traffic(NamedTuple):
    """Files of a kind that a client sent or received, over all rounds."""

    client: ClientId
    direction: str
    kind: str
    files: int
    size: int


class Split(NamedTuple):
    """Partition: images of each client (row) by class (column)."""

    content: str
    scheme: str
    classes: list[str]
    counts: list[list[int]]
    sizes: list[int]
    public: int


class Outgoing(NamedTuple):
    """A kind of file that left the clients, with the description of an example."""

    kind: str
    example: str
    texts: tuple[tuple[str, str], ...]


class Stage(NamedTuple):
    """A command of a run: recorded options, and methods as pairs of family and name."""

    command: str
    options: dict[str, Any]
    methods: tuple[tuple[str, str], ...]


class Result(NamedTuple):
    """A table that compare printed: heading and cells."""

    path: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Run:
    """Facts about a run; `name` is shown on the page."""

    folder: Path
    name: str
    planned: Planned | None
    problems: tuple[Problem, ...] = ()
    scores: tuple[Scored, ...] = ()
    trainings: tuple[Training, ...] = ()
    uploads: tuple[Upload, ...] = ()
    measures: tuple[tuple[str, int, float], ...] = ()
    split: Split | None = None
    traffic: tuple[Traffic, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    results: tuple[Result, ...] = ()
    versions: tuple[str, ...] = ()
    last: tuple[str, str] | None = None
    epsilon: float | None = None
    hashes: tuple[tuple[str, str], ...] = ()
    methods: dict[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """Equal for runs that differ only in the seed."""
        return self.planned.group if self.planned else str(self.folder)

    @property
    def clients(self) -> list[ClientId]:
        """Clients that have trained or sent a file."""
        known = {t.client for t in self.trainings} | {t.client for t in self.traffic}
        return sorted(known, key=client_order)

    @property
    def rounds(self) -> int:
        """Last round of a training or a score."""
        trained = (training.round for training in self.trainings)
        return max((*trained, *(score.round for score in self.scores)), default=0)


def collect(
    folder: Path, name: str, planned: Planned | None, kept: Sequence[Path] = ()
) -> Run:
    """Read the files of a run; broken files become problems.

    `kept`: records, and folders of records, that complete the headers of files.
    """
    with console.collected() as warned:
        others = _runs_below(folder)
        files = read_files([folder, *kept])
        files = [file for file in files if others.isdisjoint(file.path.parents)]
        metrics, results = _documents(folder)
        metrics = [each for each in metrics if others.isdisjoint(each[0].parents)]
        ledger = ledger_of(files)
        models = [
            f for f in files if (f.stage, f.kind) == ("local-train", "checkpoint")
        ]
        read = [_training(model) for model in models]
    trainings = tuple(sorted((t for t, _ in read), key=_place))
    uploads = tuple(each for _, found in metrics for each in _uploads(found))
    found = [Problem("warning", "files", text) for text in warned]
    found += _problems(trainings, uploads, metrics)
    places: dict[Path, list[Header]] = {}
    for file in files:
        places.setdefault(file.path.parent, []).append(file)
    for path in stale_files(metrics, places):
        text = f"{path}: has the score of a model that was replaced; evaluate again"
        found.append(Problem("warning", "stale score", text))
    splits = [file for file in files if file.kind == "partition"]
    last, scores = _last(files), tuple(_scores(metrics))
    epsilon = _epsilon(last, scores)
    found += _unprotected(last, epsilon)
    return Run(
        folder,
        name,
        planned,
        problems=(*(planned.problems if planned else ()), *found),
        scores=scores,
        trainings=trainings,
        uploads=uploads,
        measures=tuple(_measures(metrics)),
        split=_split(splits),
        traffic=tuple(_traffic(ledger.transfers)),
        outgoing=tuple(_outgoing(ledger.transfers)),
        results=results,
        versions=tuple(sorted({v for _, v in read if v})),
        last=(str(last[-1].path), last[-1].content) if last else None,
        epsilon=epsilon,
        hashes=tuple(_hashes(files, folder)),
        methods=_methods(files, metrics),
    )


def _runs_below(folder: Path) -> set[Path]:
    """Folders of further planned runs, of which the page has sections of their own."""
    found = {path.parents[1] for path in folder.glob(f"**/{NOTED}")}
    return found - {folder}


def _place(training: Training) -> tuple:
    return training.objective, client_order(training.client), training.round


# --- headers and journals -------------------------------------------------------------


def _training(model: File) -> tuple[Training, str]:
    """A client's training, and the versions of furlkit and libraries."""
    lines = Journal(model.path).read()
    by_event = grouped(lines, lambda line: str(line.get("event")))
    epoch = (by_event.get("epoch") or [{}])[-1]
    update = (by_event.get("update") or [{}])[-1]
    start = (by_event.get("start") or [{}])[-1]
    facts, numbers = model.facts, {**epoch, "own": update.get("own")}
    examples = facts.get("examples")
    training = Training(
        facts["client"],
        facts["round"],
        objective_of(model),
        examples if type(examples) is int else None,
        _number(facts.get("loss")),
        seconds_of(lines),
        *(_number(numbers.get(k)) for k in ("effective_rank", "spread", "own")),
    )
    return training, plain(described(start))


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _split(files: Sequence[File]) -> Split | None:
    for file in files:
        try:
            found = read_partition(file.path)
        except FurlkitError:
            continue
        names = class_names(found)
        sizes, public = found.sizes.tolist(), len(found.public)
        counts = found.histogram.tolist()
        return Split(found.content, found.facts.scheme, names, counts, sizes, public)
    return None


def _traffic(transfers: Iterable[Any]) -> Iterator[Traffic]:
    known = [t for t in transfers if t.file]
    groups = grouped(known, lambda t: (t.client, t.direction, t.file.kind))
    for (client, way, kind), found in groups.items():
        size = sum(t.file.size for t in found)
        yield Traffic(client, way, kind, len(found), size)


def _outgoing(transfers: Iterable[Any]) -> Iterator[Outgoing]:
    """Describe the first file of each kind that clients sent."""
    sent = (t.file for t in transfers if t.direction == SENT and t.file)
    for kind, files in grouped(sent, lambda file: file.kind).items():
        opened, size = Container(files[0].path), files[0].size
        texts = tuple(paragraphs(opened.header, opened.entries, size))
        yield Outgoing(kind, files[0].path.name, texts)


def _last(files: Iterable[File]) -> list[File]:
    """The global models of the last round, by path."""
    models = [f for f in files if f.kind == "checkpoint"]
    models = [f for f in models if f.facts.get("role") == "global"]
    numbered = [f for f in models if type(f.facts.get("round")) is int]
    end = max((f.facts["round"] for f in numbered), default=0)
    return sorted(
        (f for f in numbered if f.facts["round"] == end), key=lambda f: str(f.path)
    )


def _epsilon(last: Sequence[File], scores: Iterable[Scored]) -> float | None:
    """Epsilon of the last global model; of the scored models if no model is there.

    Of several models of the last round, the largest epsilon.
    """
    known = (s.epsilon for s in scores)
    if last:
        known = (_epsilon_of(model) for model in last)
    return max((each for each in known if each is not None), default=None)


def _epsilon_of(model: File) -> float | None:
    return _number(lookup(model.facts, "privacy.epsilon"))


def _unprotected(last: Sequence[File], epsilon: float | None) -> Iterator[Problem]:
    """Name models without noise beside a model with noise."""
    for model in last if epsilon is not None else ():
        if _epsilon_of(model) is None:
            text = (
                f"{model.path}: has no noise and no guarantee of privacy; epsilon "
                f"{epsilon:.6g} is of another model of round {model.facts['round']}"
            )
            yield Problem("warning", "privacy", text)


def _hashes(files: Iterable[File], folder: Path) -> Iterator[tuple[str, str]]:
    """Files that are not written by clients, with content hashes."""
    for file in files:
        if file.facts.get("client") is None:
            yield file.path.relative_to(folder).as_posix(), file.content


def _methods(files: Sequence[File], metrics: Iterable[Metrics]) -> dict[str, Any]:
    """Methods and options of each stage, the architecture and the protocols.

    A stage with another objective, rule or teacher is another stage. The options are of
    the last file, the methods of every file: round 1 has no dictionary yet.
    """
    stages: dict[tuple[str, ...], Stage] = {}
    architecture: dict[str, Any] = {}
    for file in files:
        roles = [*file.inputs, *(k for k, v in file.facts.items() if v is not None)]
        used = [(f, m.name) for f, m in methods_used(file.stage, file.options, roles)]
        if file.stage not in COMMANDS:
            continue
        place = (file.stage, *(name for family, name in used if family in CHOICES))
        before = stages[place].methods if place in stages else ()
        methods = tuple(dict.fromkeys((*before, *used)))
        stages[place] = Stage(file.stage, file.options, methods)
        known = file.facts.get("architecture")
        architecture = known if isinstance(known, dict) else architecture
    protocols = sorted({str(found.get("protocol")) for _, found in metrics})
    order = [*COMMANDS]
    found = sorted(stages.values(), key=lambda stage: order.index(stage.command))
    return {"stages": found, "architecture": architecture, "protocols": protocols}


# --- documents ------------------------------------------------------------------------


def _documents(folder: Path) -> tuple[list[Metrics], tuple[Result, ...]]:
    """Metrics files and the tables of compare below a folder."""
    metrics: list[Metrics] = []
    results: list[Result] = []
    for path in files_below(folder, (".json", ".csv")):
        name = path.relative_to(folder).as_posix()
        if name.startswith("plan/"):
            continue
        try:
            if path.suffix == ".csv":
                results += _csv_table(name, path)
                continue
            document = read_json(path)
            results += _json_tables(name, document)
            if isinstance(document, dict) and document.get("kind") == "metrics":
                metrics.append((path, as_metrics(path, document)))
        except InputError as error:
            console.warn(f"{error}; left out")
    return metrics, tuple(results[:MOST_RESULTS])


def _csv_table(name: str, path: Path) -> Iterator[Result]:
    text = read_bytes(path, LONGEST_LIST).decode(errors="replace")
    try:
        rows = tuple(tuple(row) for row in csv.reader(StringIO(text)) if row)
    except csv.Error:
        return
    if rows and any(list(rows[0][: len(first)]) == first for first in COMPARED):
        width = len(rows[0])
        yield Result(name, tuple(row for row in rows if len(row) == width))


def _json_tables(name: str, document: Any) -> Iterator[Result]:
    """Tables of `compare --json`: rows of scores, or claims."""
    if not isinstance(document, dict):
        return
    columns: dict[str, tuple[str, ...]] = {
        "rows": ("label", "n", "mean", "std", "published", "difference.estimate",
                 "difference.low", "difference.high"),
        "claims": ("claim", "paper", "difference.estimate", "difference.low",
                   "difference.high", "difference.n", "verdict"),
    }  # fmt: skip
    for key, names in columns.items():
        rows = document.get(key)
        known = key == "claims" or "reference" in document
        if not known or not isinstance(rows, list):
            continue
        cells = tuple(tuple(_text(lookup(row, n)) for n in names) for row in rows)
        heading = tuple(n.removeprefix("difference.") for n in names)
        yield Result(name, (heading, *cells))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _scores(metrics: Sequence[Metrics]) -> Iterator[Scored]:
    """Accuracies of global and personal models, in the order of the rounds."""
    found = []
    for path, document in metrics:
        facts, value = facts_of(document), document.get("accuracy")
        shared = facts.get("role") == "global" or document.get("protocol") == "personal"
        if shared and is_number(value) and type(facts.get("round")) is int:
            found.append((path, document, facts["round"], value))
    places = grouped(found, lambda each: (protocol_of(each[1]), each[2]))
    several = {protocol for (protocol, _), same in places.items() if len(same) > 1}
    for path, document, number, value in sorted(found, key=lambda e: (e[2], e[0])):
        name = plain(protocol_of(document))
        name = f"{plain(path.stem)} ({name})" if name in several else name
        images = document.get("test_examples")
        epsilon = lookup(facts_of(document), "privacy.epsilon")
        images = images if type(images) is int else 0
        yield Scored(name, number, float(value), images, _number(epsilon), path)


def _uploads(document: dict[str, Any]) -> Iterator[Upload]:
    """Uploads in a report of aggregate."""
    clients, number = document.get("clients"), document.get("round")
    if document.get("protocol") != "uploads" or not isinstance(clients, list):
        return
    if not isinstance(number, int):
        return
    for each in clients:
        known = each if isinstance(each, dict) else {}
        norm = _number(known.get("norm"))
        if norm is not None and is_client(known.get("client")):
            angle, moved = _number(known.get("angle")), _number(known.get("moved"))
            odd = bool(known.get("reasons"))
            yield Upload(known["client"], number, norm, angle, moved, odd)


def _measures(metrics: Iterable[Metrics]) -> Iterator[tuple[str, int, float]]:
    """Name, round and value of the measures without labels."""
    for _, document in metrics:
        number = document.get("round", facts_of(document).get("round"))
        if document.get("protocol") not in ("drift", "angles") or number is None:
            continue
        for name in MEASURES if type(number) is int else ():
            value = lookup(document, name)
            if is_number(value):
                words = name.replace("_", " ").replace(".mean", "")
                yield words.replace("cka", "CKA"), number, float(value)


# --- problems -------------------------------------------------------------------------


def _problems(
    trainings: Sequence[Training], uploads: Sequence[Upload], metrics: Sequence[Metrics]
) -> Iterator[Problem]:
    yield from _outliers(uploads)
    yield from _collapses(trainings)
    by_name = grouped(_scores(metrics), lambda score: score.name)
    for name, scores in by_name.items():
        first, last = scores[0], scores[-1]
        if first.round == 0 and last.round > 0 and last.value < first.value:
            text = (
                f"{name} accuracy {100 * last.value:.2f} % in round {last.round} is below "
                f"{100 * first.value:.2f} % of the untrained network"
            )
            yield Problem("warning", "score", text)


def _outliers(uploads: Iterable[Upload]) -> Iterator[Problem]:
    odd = [upload for upload in uploads if upload.stands_out]
    for client, found in grouped(odd, lambda upload: upload.client).items():
        rounds = ", ".join(str(upload.round) for upload in found[:10])
        rounds += ", ..." if len(found) > 10 else ""
        text = f"the upload of client {client} stands out in round {rounds}"
        yield Problem("warning", "outlier", text)


def _collapses(trainings: Iterable[Training]) -> Iterator[Problem]:
    def collapsed(training: Training) -> bool:
        rank, spread = training.rank, training.spread
        low = rank is not None and rank < COLLAPSED_RANK
        return low or (spread is not None and spread < COLLAPSED_SPREAD)

    found = [training for training in trainings if collapsed(training)]
    for client, same in grouped(found, lambda training: training.client).items():
        first = min(training.round for training in same)
        text = (
            f"the representation of client {client} has collapsed in "
            f"{counted(len(same), 'round')}, first in round {first}"
        )
        yield Problem("error", "collapse", text)


def totals(run: Run) -> tuple[int, int]:
    """Bytes that the clients of a run sent and received."""
    sent = sum(t.size for t in run.traffic if t.direction == SENT)
    return sent, sum(t.size for t in run.traffic if t.direction == RECEIVED)
