"""plot loss: the training loss through the rounds, and what aggregation does to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import console
from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.header import short
from furlkit.files.container.read import Container
from furlkit.files.journal import Journal
from furlkit.reports.figures.loss import Loss, draw_loss
from furlkit.reports.figures.style import check_output, save
from furlkit.reports.metrics import is_number
from furlkit.reports.runs import check_runs, files_below, listed, planned_epochs
from furlkit.reports.text import plain

# The losses of a run's clients, by round and by epoch of that round.
Losses = dict[tuple[int, int], list[float]]


@dataclass(frozen=True)
class Options:
    """`series` are labels with the folders of runs, several where there are seeds."""

    series: tuple[tuple[str, tuple[Path, ...]], ...]
    output: Path
    term: str | None = None
    title: str = ""
    dry_run: bool = False


class Trained(NamedTuple):
    """A client's model of a round; `epochs` is how long it should have trained."""

    round: int
    client: int
    path: Path
    content: str
    epochs: int | None


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw losses over the local epochs of all rounds."""
    check_output(options.output)
    check_runs(options.series)
    losses = [_loss(label, runs, options.term) for label, runs in options.series]
    if not options.dry_run:
        what = "sum of all terms" if options.term is None else plain(options.term)
        figure = draw_loss(losses, f"training loss, {what}", plain(options.title))
        save(figure, options.output)
    would = "would draw " if options.dry_run else ""
    line = f"{would}{options.output}: {'; '.join(map(_words, losses))}"
    lines = [_listed(loss) for loss in losses]
    return line, {"output": str(options.output), "term": options.term, "lines": lines}


def _loss(label: str, folders: tuple[Path, ...], term: str | None) -> Loss:
    """Means over clients, then over runs; round r starts where round r - 1 ended."""
    runs = {folder: _read_run(folder, term) for folder in folders}
    _warn_of_differences(label, runs)
    places = sorted({place for losses in runs.values() for place in losses})
    longest = dict(places)  # Sorted, so the last epoch of a round is what stays.
    start = {r: sum(n for k, n in longest.items() if k < r) for r in longest}
    # Sorted values have one mean, to the last bit, whatever the order of the runs.
    groups = [[np.sort(run[p]) for run in runs.values() if p in run] for p in places]
    every = [np.sort(np.concatenate(group)) for group in groups]
    return Loss(
        plain(label),
        rounds=np.array([round_ for round_, _ in places]),
        epochs=np.array([start[round_] + epoch for round_, epoch in places]),
        mean=np.array([np.sort([x.mean() for x in group]).mean() for group in groups]),
        std=np.array([each.std(ddof=1) if len(each) > 1 else 0 for each in every]),
        clients=np.array([len(each) for each in every]),
        runs=np.array([len(group) for group in groups]),
    )


def _warn_of_differences(label: str, runs: dict[Path, Losses]) -> None:
    (first, mine), *others = runs.items()
    for folder, losses in others:
        if losses.keys() != mine.keys():
            console.warn(
                f"--series {label}: {folder} has other rounds or epochs than {first}; "
                "means are of the runs that have them, so some jumps are between runs"
            )
            return


def _read_run(folder: Path, term: str | None) -> Losses:
    """The losses of all clients below a folder."""
    models = _models(folder)
    _check_rounds(folder, models)
    losses: Losses = {}
    for model in models:
        for epoch, loss in _journal(model, term).items():
            losses.setdefault((model.round, epoch), []).append(loss)
    return losses


def _models(folder: Path) -> list[Trained]:
    """What local-train made, by round and client; a copy of a file is the same one."""
    found: dict[tuple[int, int], Trained] = {}
    for model in sorted(_trained(folder)):
        known = found.setdefault((model.round, model.client), model)
        if known.content != model.content:
            raise InputError(
                f"{known.path} and {model.path}: are both of client {model.client} in "
                f"round {model.round}; are these files of several runs? Give each as a "
                "RUN of its own"
            )
        if not Journal(known.path).path.exists():
            found[model.round, model.client] = model
    return list(found.values())


def _trained(folder: Path) -> Iterator[Trained]:
    for path in files_below(folder):
        try:
            header = Container(path).header
        except FurlkitError as error:
            console.warn(f"{plain(str(error))}; left out")
            continue
        if header.stage == "local-train" and header.kind == "checkpoint":
            round_, client = (_fact(path, header.facts, n) for n in ("round", "client"))
            epochs = planned_epochs(header.options)
            yield Trained(round_, client, path, header.content, epochs)


def _fact(path: Path, facts: dict[str, Any], name: str) -> int:
    value = facts.get(name)
    if type(value) is not int or value < 0:
        raise InputError(
            f"{path}: was made by local-train, but its {name} is {short(value)}"
        )
    return value


def _check_rounds(folder: Path, models: Sequence[Trained]) -> None:
    """Without one of the rounds nobody knows where the next begins."""
    rounds = {model.round for model in models}
    if not rounds:
        raise InputError(
            f"{folder}: has no checkpoint of local-train; give the folder of a run, with "
            "its clients' models and their journals"
        )
    missing = set(range(1, max(rounds))) - rounds
    if missing:
        raise InputError(
            f"{folder}: has clients' models of round {max(rounds)}, but none of round "
            f"{min(missing)}; every round is wanted, so copy those files too"
        )


def _journal(model: Trained, term: str | None) -> dict[int, float]:
    """The loss of each epoch, from the journal beside a model."""
    journal = Journal(model.path)
    entries = [line for line in journal.read() if line.get("event") == "epoch"]
    if not entries:
        found = "has no epoch in it" if journal.path.exists() else "no such file"
        raise InputError(
            f"{journal.path}: {found}; the losses of {model.path.name} were wanted: "
            "local-train writes them there, beside the checkpoint, so copy both"
        )
    # Two jobs that did the same work at once have written the same epochs twice.
    losses = dict(_epoch(journal.path, entry, term) for entry in entries)
    last = max(losses)
    if model.epochs is not None and last < model.epochs:
        console.warn(
            f"{journal.path}: was cut short, it ends with epoch {last} of "
            f"{model.epochs}; only what is there is drawn"
        )
    return losses


def _epoch(path: Path, entry: dict[str, Any], term: str | None) -> tuple[int, float]:
    """Number and loss of one epoch; the loss that was minimised is the sum of terms."""
    epoch, terms = entry.get("epoch"), entry.get("losses")
    if type(epoch) is not int or epoch < 1 or not isinstance(terms, dict) or not terms:
        raise InputError(
            f"{path}: its epoch {short(epoch)} has the losses {short(terms)}; was it "
            "edited? Copy it again"
        )
    if term is not None and term not in terms:
        there = plain(", ".join(sorted(terms)))
        raise InputError(
            f"{path}: has no term '{term}' in epoch {epoch}; it has {there}"
        )
    chosen = terms if term is None else {term: terms[term]}
    for name, value in chosen.items():
        if not is_number(value):
            raise InputError(
                f"{path}: its loss {plain(name)} in epoch {epoch} is {short(value)}, a "
                "finite number was wanted; copy it again, or train this client anew"
            )
    return epoch, float(sum(chosen.values()))


def _words(loss: Loss) -> str:
    end = f"{loss.label} {loss.mean[-1]:.4g} after".lstrip()
    if not len(loss.ends):
        return f"{end} its only round"
    jump = f"aggregation {loss.jumps.mean():+.3g} on average"
    return f"{end} round {loss.rounds[-1]}, {jump}"


def _listed(loss: Loss) -> dict[str, Any]:
    """A line as JSON has it, with the jump after each round but the last."""
    return {**listed(loss), "aggregation": loss.jumps.tolist()}
