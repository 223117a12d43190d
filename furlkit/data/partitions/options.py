"""The options of all partition schemes, and their checks."""

import math
from dataclasses import dataclass, fields
from pathlib import Path

from furlkit.errors import UsageError

MINIMUM = {
    "clients": 1,
    "classes_per_client": 1,
    "class_copies": 1,
    "shards_per_client": 1,
    "min_size": 0,
    "redraws": 0,
}


@dataclass(frozen=True)
class SchemeOptions:
    """A scheme and its options; each field has the name of its flag.

    concentration       alpha of `dirichlet`, beta of `dirichlet-client` and `domains`
    cap_at_mean         `dirichlet`: a client at the mean size gets no further class
    even_share, decay   delta and gamma of `volume`
    min_size            draw again while a client has fewer examples
    public_client       this client's examples become the public part; it keeps its
                        number and has no examples
    """

    scheme: str = "iid"
    clients: int = 5
    classes_per_client: int | None = None
    class_copies: int = 1
    ordered_classes: bool = False
    concentration: float | None = None
    cap_at_mean: bool = False
    even_share: float = 0.1
    decay: float = 0.9
    shards_per_client: int = 2
    split_file: Path | None = None
    with_replacement: bool = False
    min_size: int = 1
    redraws: int = 100
    public_fraction: float | None = None
    public_count: int | None = None
    public_client: int | None = None


def check_options(options: SchemeOptions, reads: tuple[str, ...]) -> None:
    """Raise UsageError for values out of range and options the scheme does not read."""
    for field in fields(options):
        if field.name not in reads and getattr(options, field.name) != field.default:
            raise UsageError(
                f"{flag(field.name)} means nothing to --scheme {options.scheme}"
            )
    for name, minimum in MINIMUM.items():
        value = getattr(options, name)
        if value is not None and value < minimum:
            raise UsageError(f"{flag(name)} {value}: expected at least {minimum}")
    for name in ("concentration", "decay"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"{flag(name)} {value}: expected a positive number")
    if not 0 <= options.even_share <= 1:
        raise UsageError(f"--even-share {options.even_share}: expected 0 to 1")


def flag(field: str) -> str:
    """The flag that sets a field."""
    return "--" + field.replace("_", "-")
