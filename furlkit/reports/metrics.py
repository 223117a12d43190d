"""Numbers in metrics files, by name, with the round of the model."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import InputError
from furlkit.reports.text import word

MOST_ROUNDS = 10**9  # A larger round was not written by a training.


class Score(NamedTuple):
    """One number of one metrics file."""

    path: Path
    protocol: str
    role: str
    round: int
    value: float


def read_score(path: Path, metrics: dict[str, Any], name: str) -> Score:
    """The number `name` of a metrics file, and which model it belongs to."""
    protocol, role = word(metrics.get("protocol")), word(facts_of(metrics).get("role"))
    round_ = round_of(path, metrics)
    return Score(path, protocol, role, round_, number(path, metrics, name))


def scored(metrics: dict[str, Any]) -> dict[str, Any]:
    """The description of the checkpoint that was scored, empty if there is none."""
    checkpoint = metrics.get("checkpoint")
    return checkpoint if isinstance(checkpoint, dict) else {}


def facts_of(metrics: dict[str, Any]) -> dict[str, Any]:
    """The facts of the checkpoint that was scored, empty if there are none."""
    facts = scored(metrics).get("facts")
    return facts if isinstance(facts, dict) else {}


def round_of(path: Path, metrics: dict[str, Any]) -> int:
    """The round of the model that was scored."""
    round_ = facts_of(metrics).get("round")
    if type(round_) is not int or not 0 <= round_ <= MOST_ROUNDS:
        raise InputError(
            f"{path}: does not name the round of the model it scored; re-create it with "
            "furlkit evaluate"
        )
    return round_


def number(path: Path, metrics: dict[str, Any], name: str) -> float:
    """The number of this name; dots lead into nested values, like `drift.rank`."""
    value: Any = metrics
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if is_number(value):
        return float(value)
    there = [key for key, value in sorted(metrics.items()) if is_number(value)]
    raise InputError(
        f"{path}: has no number {name!r}; it has {', '.join(there) or 'none'}"
    )


def is_number(value: Any) -> bool:
    """Whether a value of a JSON document is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer may be too large for a float; NaN compares false.
    return abs(value) <= sys.float_info.max


def is_share(name: str) -> bool:
    """Whether a value is shown in percent: accuracies are."""
    return name.endswith("accuracy")


def show(value: float, percent: bool) -> str:
    """A number for people, with its unit."""
    return f"{100 * value:.2f} %" if percent else f"{value:.4g}"
