"""Facts: the part of a header that later stages read, as a frozen dataclass a kind."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from furlkit.errors import InputError
from furlkit.files.header import Header

T = TypeVar("T")


@dataclass(frozen=True)
class Provenance:
    """How a file came to be: the stage, its resolved options, its seed, its inputs."""

    stage: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)

    def header(self, kind: str, facts: Any) -> Header:
        """The header of a file made so; facts that are None are left out."""
        known = {k: v for k, v in asdict(facts).items() if v is not None}
        return Header(kind, self.stage, self.options, self.seed, self.inputs, known)


def understand(
    path: Path, header: Header, make: Callable[..., T], counts: tuple[str, ...] = ()
) -> T:
    """Build the facts of one kind from a header; `counts` must be whole and >= 0."""
    for name in counts:
        value = header.facts.get(name, 0)
        if type(value) is not int or value < 0:
            raise InputError(f"{path}: header fact {name!r} is {value!r}, not a count")
    try:
        return make(**header.facts)
    except TypeError as error:
        raise InputError(
            f"{path}: its facts do not fit a {header.kind} file: {error}"
        ) from error
