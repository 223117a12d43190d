"""plot updates: each client's decision at the start of the rounds."""

from collections import Counter
from pathlib import Path
from typing import Any

from furlkit.catalogue import UPDATES
from furlkit.errors import InputError
from furlkit.files.clients import client_order
from furlkit.files.container.header import short
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import is_number
from furlkit.reports.runs import File, objective_of
from furlkit.reports.summary import Choices
from furlkit.reports.text import counted
from furlkit.stages.plot.journals import client_models, events, one_phase
from furlkit.stages.plot.picture import Picture, figure, picture

# Updates without a decision leave no line in a journal.
PLAIN = ("replace", "keep", "continue", "own")


@picture
def run(folder: Path, objective: str | None, frame: Frame) -> Picture:
    """Draw the share of the local model that clients kept, and the distances."""
    models = one_phase(folder, _deciding(client_models(folder)), objective)
    update = _update(folder, models)
    found = sorted((_decision(model) for model in models), key=lambda each: each[:2])
    clients = [
        Choices.of(client, [each[1:] for each in found if each[0] == client])
        for client in sorted({each[0] for each in found}, key=client_order)
    ]
    mu = models[-1].options.get("mu")
    mu = float(mu) if is_number(mu) else None
    words = Counter(word for each in clients for word in each.words)
    rounds = {int(r) for each in clients for r in each.rounds}
    text = (
        f"{update} of {counted(len(clients), 'client')} in "
        f"{counted(len(rounds), 'round')}: "
    )
    text += ", ".join(f"{word} {words[word]}" for word in ("took", "mixed", "kept"))
    return (
        lambda: figure("updates:draw_updates")(clients, mu, frame),
        f"{text}{_distances(clients, mu)}",
        {"update": update, "mu": mu, "clients": [each.to_json() for each in clients]},
    )


def _deciding(models: list[File]) -> list[File]:
    """Drop phases without decisions, if other phases remain."""
    phases = {objective_of(m) for m in models if _name(m) not in PLAIN}
    return [m for m in models if objective_of(m) in phases] or models


def _name(model: File) -> str:
    return str(model.options.get("update", "replace"))


def _update(folder: Path, models: list[File]) -> str:
    """Update of a run, which must involve decisions."""
    names = sorted({_name(model) for model in models})
    if len(names) > 1:
        raise InputError(
            f"{folder}: has clients of --update {' and '.join(names)}; give the folder "
            "of a single run"
        )
    if names[0] in PLAIN:
        known = ", ".join(name for name in UPDATES if name not in PLAIN)
        raise InputError(
            f"{folder}: clients were trained with --update {names[0]}, which decides "
            f"nothing; expected one of {known}"
        )
    return names[0]


def _decision(model: File) -> tuple[int, int, float, float | None]:
    """Client, round, share of the local model, and distance if recorded."""
    journal, lines = events(model, "update")
    own: Any = lines[-1].get("own")
    gap: Any = lines[-1].get("distance")
    if not is_number(own) or not 0 <= own <= 1 or not (gap is None or is_number(gap)):
        raise InputError(
            f"{journal}: the update has the share {short(own)} and the distance "
            f"{short(gap)}, expected numbers; train this client again"
        )
    return model.facts["client"], model.facts["round"], own, gap


def _distances(clients: list[Choices], mu: float | None) -> str:
    every = [gap for each in clients for gap in each.distances if gap is not None]
    if not every:
        return ""
    bound = "" if mu is None else f", mu {mu:.4g}"
    return f"; distances {min(every):.4g} to {max(every):.4g}{bound}"
