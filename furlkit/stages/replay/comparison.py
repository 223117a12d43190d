"""Compare a file with the file's replay.

Equal bytes are the best result. If bytes differ, tensors or scores are compared: another
version of furlkit may write a different header with equal numbers.
"""

import filecmp
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.files.container.read import Container
from furlkit.files.journal import DECISIVE, Journal
from furlkit.files.metrics import read_metrics
from furlkit.stages.replay.chain import header_of

SAME = "same bytes"
# The entries of a metrics file about the conditions of the measurement.
CONDITIONS = (
    *("options", "seed", "data", "inputs", "checkpoint", "version", "cpu_seconds"),
    "content",
)


def compared(old: Path, new: Path, scores: bool) -> str:
    """Describe the agreement of two files, with versions and machine if they differ."""
    if filecmp.cmp(old, new, shallow=False):
        return SAME
    found = _scores(old, new) if scores else _tensors(old, new)
    return f"{found}{_versions(old, new)}"


def _tensors(old: Path, new: Path) -> str:
    one, other = Container(old), Container(new)
    theirs, ours = one.tensors(), other.tensors()
    names = sorted(theirs.keys() | ours.keys())
    unlike = [name for name in names if not _same(theirs.get(name), ours.get(name))]
    if unlike:
        return f"differs in {len(unlike)} of {len(names)} tensors, {unlike[0]} first"
    entries = vars(one.header), vars(other.header)
    keys = [k for k in entries[0] if k not in ("content", "check")]
    keys = [key for key in keys if entries[0][key] != entries[1][key]]
    return f"same tensors; its header has other {', '.join(keys)}"


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return False
    alike = (one.dtype, one.shape) == (other.dtype, other.shape)
    return alike and one.tobytes() == other.tobytes()


def _scores(old: Path, new: Path) -> str:
    one, other = read_metrics(old), read_metrics(new)
    theirs, ours = (dict(_values(each)) for each in (one, other))
    names = sorted(theirs.keys() | ours.keys(), key=lambda name: name != "accuracy")
    unlike = [name for name in names if theirs.get(name) != ours.get(name)]
    if not unlike:
        keys = [k for k in CONDITIONS[:-1] if one.get(k) != other.get(k)]
        return f"same numbers; it has other {', '.join(keys)}"
    then, now = (each.get(unlike[0]) for each in (theirs, ours))
    apart = ""
    if isinstance(then, int | float) and isinstance(now, int | float):
        apart = f", {abs(then - now):.3g} apart"
    return (
        f"differs in {len(unlike)} of {len(names)} values: {unlike[0]} is {then}, now "
        f"{now}{apart}"
    )


def _values(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Measured values by name, like `domains.svhn.accuracy`."""
    measured = {k: v for k, v in document.items() if k not in CONDITIONS}
    stack = [("", measured)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict | list):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            stack += [(f"{name}.{key}".lstrip("."), each) for key, each in inner]
        else:
            yield name, value


def _versions(old: Path, new: Path) -> str:
    """Differences in versions, instruction set and code of plugins between two files."""
    machines = [Journal(path).machine() for path in (old, new)]
    then, now = map(_plugins, (old, new))
    names = [*then, *now]
    if all(machines):
        then, now = machines[0] | then, machines[1] | now
        names += DECISIVE
    changed = [
        f"{name} {then.get(name, 'none')}, now {now.get(name, 'none')}"
        for name in dict.fromkeys(names)
        if then.get(name) != now.get(name)
    ]
    if not all(machines):
        changed.append("the versions and the machine of the first are not recorded")
    return f" ({'; '.join(changed)})" if changed else " (same versions and machine)"


def _plugins(path: Path) -> dict[str, str]:
    """Version and beginning of the hash of each plugin, by the option in the header."""
    options = header_of(path).options.items()
    found = {k: str(v).split() for k, v in options if k.startswith("plugin ")}
    return {
        k: f"{' '.join(words[:-1])} {words[-1]:.12}"
        for k, words in found.items()
        if words
    }
