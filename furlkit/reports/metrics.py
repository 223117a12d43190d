"""Numbers of metrics files as pictures need them: by name, with the model's round."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import InputError
from furlkit.reports.text import word

# A number that nobody trains for cannot be drawn either.
MOST_ROUNDS = 10**9


class Score(NamedTuple):
    """One number of one metrics file."""

    path: Path
    label: str
    protocol: str
    role: str
    round: int
    value: float


def read_score(path: Path, label: str, metrics: dict[str, Any], name: str) -> Score:
    """The number `name` of a metrics file, and which model it is of."""
    round_ = round_of(path, metrics)
    protocol, role = word(metrics.get("protocol")), word(facts_of(metrics).get("role"))
    return Score(path, label, protocol, role, round_, number(path, metrics, name))


def scored(metrics: dict[str, Any]) -> dict[str, Any]:
    """What a metrics file says of the checkpoint it scored, if anything."""
    checkpoint = metrics.get("checkpoint")
    return checkpoint if isinstance(checkpoint, dict) else {}


def facts_of(metrics: dict[str, Any]) -> dict[str, Any]:
    """The facts of the checkpoint that a metrics file scored, if it has any."""
    facts = scored(metrics).get("facts")
    return facts if isinstance(facts, dict) else {}


def round_of(path: Path, metrics: dict[str, Any]) -> int:
    """The round of the model that was scored."""
    round_ = facts_of(metrics).get("round")
    if type(round_) is not int or not 0 <= round_ <= MOST_ROUNDS:
        raise InputError(
            f"{path}: says nothing of the round of the model it scored; "
            "make it anew with furlkit evaluate"
        )
    return round_


def number(path: Path, metrics: dict[str, Any], name: str) -> float:
    """The number of this name; one inside another is named with a dot."""
    value: Any = metrics
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if is_number(value):
        return float(value)
    there = [key for key, value in sorted(metrics.items()) if is_number(value)]
    raise InputError(
        f"{path}: has no number {name!r} to draw; it has {', '.join(there) or 'none'}"
    )


def is_number(value: Any) -> bool:
    """Whether a value of a JSON document is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer may be too large to become a float, and NaN is at most nothing.
    return abs(value) <= sys.float_info.max


def is_share(name: str) -> bool:
    """Shares of a whole are drawn in percent, everything else as it stands."""
    return name.endswith("accuracy")
