"""aggregate --state: the memory of a rule, read from the last round and rewritten."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import Rule
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import open_checkpoint
from furlkit.files.container.header import short
from furlkit.files.container.layout import Entry, place
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import Container
from furlkit.files.server import open_server
from furlkit.weights import is_batchnorm_statistic

REMEDY = "pass the file that --state-out wrote together with that model"


def check_usage(rule: Rule, values: Mapping[str, Any]) -> None:
    """Refuse options of the state for a rule without memory, and the reverse."""
    for flag in ("state", "state_out"):
        if values[flag] and not rule.state:
            name = flag.replace("_", "-")
            raise UsageError(f"--{name} does not apply to --rule {rule.name}")
    if rule.state and not values["state_out"]:
        raise UsageError(
            f"--rule {rule.name}: remembers from round to round; give --state-out FILE"
        )


def state_entries(slots: Iterable[str], model: Iterable[Entry]) -> list[Entry]:
    """Tensors of the state in file order: one per slot and trained tensor."""
    weights = weights_of(model)
    return place(
        Entry(f"{slot}.{entry.name}", entry.dtype, entry.shape)
        for slot in slots
        for entry in weights
    )


def weights_of(model: Iterable[Entry]) -> list[Entry]:
    """The trained tensors of a model: floats other than BatchNorm's statistics."""
    floats = (entry for entry in model if entry.dtype.kind == "f")
    return [entry for entry in floats if not is_batchnorm_statistic(entry.name)]


def open_state(
    path: Path | None, rule: Rule, parent: Path | None, entries: Iterable[Entry]
) -> Container | None:
    """Open the state written together with the model of --parent."""
    if path is None or parent is None:
        _name_forgotten(rule, parent)
        return None
    opened, facts = open_server(path)
    _, known = open_checkpoint(parent)
    if facts.rule != rule.name:
        raise InputError(
            f"{path}: is the state of --rule {short(facts.rule)}; this is --rule "
            f"{rule.name}"
        )
    if facts.round != known.round:
        raise InputError(
            f"{path}: is the state after round {facts.round}; {parent} is the model "
            f"after round {known.round}; {REMEDY}"
        )
    if facts.architecture != known.architecture:
        raise InputError(
            f"{path}: architecture is {short(facts.architecture)}, {parent} has "
            f"{short(known.architecture)}; {REMEDY}"
        )
    if known.state != opened.content:
        raise InputError(f"{path}: {parent} was made with another state; {REMEDY}")
    _check_tensors(opened, entries)
    return opened


def _name_forgotten(rule: Rule, parent: Path | None) -> None:
    """Warn if the parent was made with a state and --state is missing."""
    if rule.state and parent and open_checkpoint(parent)[1].state:
        console.warn(
            f"{parent}: was made with a state of the server; without --state, --rule "
            f"{rule.name} starts anew"
        )


def _check_tensors(opened: Container, entries: Iterable[Entry]) -> None:
    """Refuse a state with other tensors than the uploads."""
    expected = list(entries)
    for entry in expected:
        opened.expect(entry.name, entry.dtype.name, *entry.shape)
    if odd := {e.name for e in opened.entries} - {e.name for e in expected}:
        raise InputError(
            f"{opened.path}: has {min(odd)}, which the uploads lack; clients must send "
            "equal parts in every round"
        )


class OldState:
    """Pieces of the previous round's state, by the name of a tensor."""

    def __init__(self, opened: Container):
        self._opened, self._files = opened, Lockstep([opened])
        self._read: set[str] = set()

    def __enter__(self) -> "OldState":
        self._files.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.__exit__()

    def __call__(self, name: str) -> Iterator[np.ndarray]:
        """Yield the pieces of a tensor, with the length of the uploads' pieces."""
        self._read.add(name)
        entry = self._opened.entry(name)
        return self._files.combine(entry, lambda column: next(column).copy())

    def check(self) -> None:
        """Compare the file with the seal, including tensors that the rule skipped."""
        for entry in self._opened.entries:
            if entry.name not in self._read:
                self._files.skip(entry)
        self._files.finish()
