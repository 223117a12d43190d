"""Facts: the part of a header that later stages read; a dataclass for each kind."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from furlkit.errors import InputError
from furlkit.files.container.header import Header, short, with_article

T = TypeVar("T")


@dataclass(frozen=True)
class Provenance:
    """How a file was made: the stage, its resolved options, its seed, its inputs."""

    stage: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)

    def header(self, kind: str, facts: Any) -> Header:
        """The header of such a file; facts that are None are left out."""
        known = {k: v for k, v in vars(facts).items() if v is not None}
        return Header(kind, self.stage, self.options, self.seed, self.inputs, known)


def understand(
    path: Path, header: Header, make: type[T], counts: tuple[str, ...] = ()
) -> T:
    """Build the facts of one kind from a header; `counts` must be whole and >= 0."""
    for name in counts:
        value = header.facts.get(name, 0)
        if type(value) is not int or value < 0:
            raise InputError(
                f"{path}: header fact {name!r} is {short(value)}; expected a count"
            )
    try:
        facts = make(**header.facts)
    except TypeError as error:
        raise InputError(
            f"{path}: its facts do not fit {with_article(header.kind)} file: {error}"
        ) from error
    for name, kind in get_type_hints(make).items():
        if not _fits(getattr(facts, name), kind):
            expected = kind.__name__ if type(kind) is type else str(kind)
            raise InputError(
                f"{path}: header fact {name!r} is {short(getattr(facts, name))}; "
                f"expected {expected}"
            )
    return facts


def check_fingerprint(path: Path, fingerprint: dict[str, Any]) -> None:
    """A dataset's fingerprint has a count of examples, and hashes that may be unknown."""
    examples = fingerprint.get("examples")
    if type(examples) is not int or examples < 0:
        raise InputError(
            f"{path}: does not say how many images its dataset has; re-create it"
        )
    for name, value in fingerprint.items():
        if name != "examples" and not isinstance(value, str | None):
            raise InputError(
                f"{path}: the hash of its dataset's {short(name)} is {short(value)}; "
                "re-create it"
            )


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value from JSON is of an annotated type: int, list[str], int | None."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return isinstance(value, list) and all(_fits(v, inner[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if inner:
        return any(_fits(value, choice) for choice in inner)
    return type(value) is kind or (kind is float and type(value) is int)
