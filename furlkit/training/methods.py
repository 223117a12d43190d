"""What can be chosen by name in training: objectives, and what a client starts from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from furlkit.errors import UsageError
from furlkit.objectives import autoencoder, rotation, simclr, supervised
from furlkit.updates import keep as keeping
from furlkit.updates import replace as replacing


@dataclass(frozen=True)
class Objective:
    """A step, the head it trains, the options it reads, and whether it sees labels.

    The step of one with `negatives` takes a dictionary as `z_dict`.
    """

    step: Callable[..., tuple[dict[str, Tensor], Tensor]]
    head: str
    options: dict[str, Any] = field(default_factory=dict)
    labels: bool = False
    negatives: bool = False


OBJECTIVES = {
    "simclr": Objective(
        simclr.step, "projector", {"temperature": 0.5, "form": "full"}, negatives=True
    ),
    "rotation": Objective(rotation.step, "rotation"),
    "autoencoder": Objective(autoencoder.step, "decoder"),
    "supervised": Objective(supervised.step, "classifier", labels=True),
}
UPDATES = {"replace": replacing.replace, "keep": keeping.keep}


def settings_of(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """An objective's options: those given, or its defaults where they are None."""
    known = {k: v for k, v in given.items() if v is not None}
    for option in known.keys() - OBJECTIVES[name].options.keys():
        raise UsageError(f"--{option} means nothing to --objective {name}")
    return {**OBJECTIVES[name].options, **known}
