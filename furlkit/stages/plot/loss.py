"""plot loss: the training loss over the rounds, and the effect of aggregation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import short
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import Value, check_labels, is_number
from furlkit.reports.runs import File, planned_epochs
from furlkit.reports.summary import Line, summarise
from furlkit.reports.text import plain
from furlkit.stages.plot.journals import client_models, events, one_phase
from furlkit.stages.plot.picture import Picture, Series, figure, picture, runs_of
from furlkit.weights import OWN

# Losses of a run's clients, by round and by epoch of the round.
Losses = dict[tuple[int, int], list[float]]


@picture
def run(
    series: Series, term: str | None, objective: str | None, log: bool, frame: Frame
) -> Picture:
    """Draw losses over the local epochs of all rounds."""
    check_labels([label for label, _ in series])
    lines, data = [], []
    for label, folders in runs_of(series):
        runs = {folder: _read_run(folder, term, objective) for folder in folders}
        line, clients = _line(label, runs)
        lines.append(line)
        more = {"epochs": line.x, "clients": clients, "aggregation": line.jumps}
        data.append(line.to_json(**more))
    what = "sum of all terms" if term is None else plain(term)
    value = Value(f"training loss, {what}")
    least = min(line.mean.min() for line in lines)
    if log and least <= 0:
        raise UsageError(
            f"--log: a loss goes down to {least:.4g}; a logarithmic axis needs losses "
            "above 0"
        )
    return (
        lambda: figure("lines:draw_loss")(lines, value, frame, log),
        "; ".join(map(_describe, lines)),
        {"term": term, "lines": data},
    )


def _line(label: str, runs: dict[Path, Losses]) -> tuple[Line, list[int]]:
    """Means over clients, then over runs, and the number of clients of each point.

    Epochs are numbered through the rounds; the deviation is over the clients.
    """
    (first, mine), *others = runs.items()
    for folder in [folder for folder, run in others if run.keys() != mine.keys()][:1]:
        console.warn(
            f"--series {label}: {folder} has other rounds or epochs than {first}; each "
            "mean covers the runs with a value"
        )
    places = sorted({place for losses in runs.values() for place in losses})
    groups = [[run[place] for run in runs.values() if place in run] for place in places]
    means = [summarise(summarise(losses).mean for losses in group) for group in groups]
    clients = [summarise(np.concatenate(group)) for group in groups]
    epochs = range(1, len(places) + 1)
    line = Line.of(plain(label), epochs, [round_ for round_, _ in places], means)
    deviations = np.array([each.std or 0.0 for each in clients])
    return replace(line, std=deviations), [each.n for each in clients]


def _read_run(folder: Path, term: str | None, objective: str | None) -> Losses:
    """Losses of the clients in a folder, which must contain every round."""
    models = one_phase(folder, client_models(folder), objective)
    rounds = {model.facts["round"] for model in models}
    missing = set(range(1, max(rounds))) - rounds
    if missing:
        raise InputError(
            f"{folder}: has client models of round {max(rounds)}, but not of round "
            f"{min(missing)}; copy the files of every round"
        )
    losses: Losses = {}
    for model in models:
        for epoch, loss in _journal(model, term).items():
            losses.setdefault((model.facts["round"], epoch), []).append(loss)
    return losses


def _journal(model: File, term: str | None) -> dict[int, float]:
    """Loss of each epoch, from the journal of a model.

    Epochs of a client's personal model, trained after the shared model, are skipped.
    """
    journal, found = events(model, "epoch")
    entries = [line for line in found if not line.get("own")]
    # Two simultaneous jobs wrote the epochs twice.
    losses = dict(_epoch(journal, entry, term) for entry in entries)
    planned = planned_epochs(model.options) or 0
    if max(losses) < planned:
        console.warn(
            f"{journal}: is incomplete and ends with epoch {max(losses)} of "
            f"{planned}; only these epochs are drawn"
        )
    return losses


def _epoch(path: Path, entry: dict[str, Any], term: str | None) -> tuple[int, float]:
    """Number and loss of an epoch; the loss is the sum of the terms, or one term.

    Losses of a client's personal model, trained beside the shared model, are skipped.
    """
    epoch: Any = entry.get("epoch")
    losses: Any = entry.get("losses")
    terms = losses if isinstance(losses, dict) else {}
    if terms and term is not None and term not in terms:
        there = plain(", ".join(sorted(terms)))
        raise InputError(
            f"{path}: has no term '{term}' in epoch {short(epoch)}; expected {there}"
        )
    sent = [value for name, value in terms.items() if not name.startswith(OWN)]
    chosen: list[Any] = sent if term is None else [terms.get(term)]
    fit = type(epoch) is int and epoch > 0 and chosen and all(map(is_number, chosen))
    if not fit:
        raise InputError(
            f"{path}: epoch {short(epoch)} has the losses {short(losses)}, expected "
            "finite numbers; copy the file again, or train this client again"
        )
    return epoch, float(sum(chosen))


def _describe(line: Line) -> str:
    end = f"{line.label} {line.mean[-1]:.4g} after".lstrip()
    if not len(line.jumps):
        return f"{end} its only round"
    jump = f"{line.jumps.mean():+.3g}"
    return f"{end} round {line.rounds[-1]}, aggregation {jump} on average"
