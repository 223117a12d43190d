"""The clients' models of a run, and what the journals beside them say."""

from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.journal import Journal
from furlkit.reports.runs import File, read_files, two_runs


def client_models(folder: Path) -> list[File]:
    """Checkpoints of local-train, one of each client and round.

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
    return list({(f.facts["round"], f.facts["client"]): f for f in models}.values())


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
