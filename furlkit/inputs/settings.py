"""Flat option values from the command line, sorted into dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from furlkit.runtime import Runtime

T = TypeVar("T")
# Options read by the command line itself.
READ_BEFORE = frozenset({"preset", "json", "quiet", "verbose", "strict", "force"})


@dataclass(frozen=True, kw_only=True)
class Computing:
    """Options of every stage that computes on the device."""

    runtime: Runtime
    dry_run: bool
    force: bool
    recorded: dict[str, Any]

    @property
    def resolved(self) -> dict[str, Any]:
        """Options that decide the bytes of the output, for provenance."""
        return {**self.recorded, **self.runtime.resolved_options()}


def fill(cls: type[T], values: Mapping[str, Any]) -> T:
    """Fill a dataclass from flat values; the fields are options, by name.

    A field with a dataclass type is filled from the flat values too; an optional field
    is None if the value of the dataclass's first field is None. A value without a field
    is a bug in furlkit.
    """
    taken: set[str] = set()
    filled = _fill(cls, values, taken)
    if unread := values.keys() - taken - READ_BEFORE:
        names = ", ".join(sorted(unread))
        raise TypeError(f"{cls.__qualname__}: no field reads {names}")
    return filled


def _fill(cls: type[T], values: Mapping[str, Any], taken: set[str]) -> T:
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        taken.add(field.name)
        part, optional = _part(hints[field.name])
        if part is not None and not isinstance(values.get(field.name), part):
            names = [inner.name for inner in fields(part)]
            if optional and values.get(names[0]) is None:
                taken.update(names)
                given[field.name] = None
            else:
                given[field.name] = _fill(part, values, taken)
        elif field.name in values:
            given[field.name] = values[field.name]
    return cls(**given)


def _part(hint: Any) -> tuple[type | None, bool]:
    """Dataclass in a field's type, if any, and whether the field may be None."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    found = [kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)]
    return (found[0] if found else None), type(None) in kinds
