"""Client models of a run, and the events in the journals of the models."""

from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.journal import Journal
from furlkit.reports.runs import File, objective_of, read_files, two_runs


def client_models(folder: Path) -> list[File]:
    """Checkpoints of local-train, by phase, round and client.

    Among several copies of a file, a copy with a journal is preferred.
    """
    files = read_files([folder])
    if mixed := two_runs(files):
        raise InputError(mixed)
    models = [f for f in files if (f.stage, f.kind) == ("local-train", "checkpoint")]
    if not models:
        raise InputError(
            f"{folder}: has no checkpoint of local-train; give the folder of a run, with "
            "client models and journals"
        )
    models.sort(key=lambda file: Journal(file.path).path.exists())
    return list({_place(file): file for file in models}.values())


def _place(model: File) -> tuple[str, int, ClientId]:
    return objective_of(model), model.facts["round"], model.facts["client"]


def one_phase(folder: Path, models: list[File], objective: str | None) -> list[File]:
    """Models of an objective, which must be named if the run has several."""
    phases = sorted({objective_of(model) for model in models})
    if objective is None and len(phases) > 1:
        raise InputError(
            f"{folder}: has phases of --objective {' and '.join(phases)}; choose a "
            "phase with --objective"
        )
    chosen = [m for m in models if objective in (None, objective_of(m))]
    if not chosen:
        raise InputError(
            f"{folder}: has no clients of --objective {objective}; expected "
            f"{', '.join(phases)}"
        )
    return chosen


def events(model: File, event: str) -> tuple[Path, list[dict[str, Any]]]:
    """Path of a model's journal, and the lines about an event."""
    journal = Journal(model.path)
    lines = [line for line in journal.read() if line.get("event") == event]
    if not lines:
        found = f"has no {event} in it" if journal.path.exists() else "no such file"
        raise InputError(
            f"{journal.path}: {found}; local-train writes this journal of "
            f"{model.path.name}; copy both files"
        )
    return journal.path, lines
