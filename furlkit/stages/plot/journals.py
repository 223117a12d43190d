"""The clients' models of a run, and what the journals beside them say."""

from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.journal import Journal
from furlkit.reports.runs import File, objective_of, read_files, two_runs


def client_models(folder: Path) -> list[File]:
    """Checkpoints of local-train, one of each client and round of each phase.

    Of several copies of a file, one with a journal beside it is taken.
    """
    files = read_files([folder])
    if mixed := two_runs(files):
        raise InputError(mixed)
    models = [f for f in files if (f.stage, f.kind) == ("local-train", "checkpoint")]
    if not models:
        raise InputError(
            f"{folder}: has no checkpoint of local-train; give the folder of a run, with "
            "its clients' models and their journals"
        )
    models.sort(key=lambda file: Journal(file.path).path.exists())
    return list({_place(file): file for file in models}.values())


def _place(model: File) -> tuple[str, int, ClientId]:
    return objective_of(model), model.facts["round"], model.facts["client"]


def one_phase(folder: Path, models: list[File], objective: str | None) -> list[File]:
    """The models of an objective, which must be named where the run has several."""
    phases = sorted({objective_of(model) for model in models})
    if objective is None and len(phases) > 1:
        raise InputError(
            f"{folder}: has phases of --objective {' and '.join(phases)}; choose one "
            "with --objective"
        )
    chosen = [m for m in models if objective in (None, objective_of(m))]
    if not chosen:
        raise InputError(
            f"{folder}: has no clients of --objective {objective}; they have "
            f"{', '.join(phases)}"
        )
    return chosen


def events(model: File, event: str) -> tuple[Path, list[dict[str, Any]]]:
    """The lines about one kind of event in the journal beside a model, and its path."""
    journal = Journal(model.path)
    lines = [line for line in journal.read() if line.get("event") == event]
    if not lines:
        found = f"has no {event} in it" if journal.path.exists() else "no such file"
        raise InputError(
            f"{journal.path}: {found}; local-train writes about {model.path.name} there, "
            "so copy both files"
        )
    return journal.path, lines
