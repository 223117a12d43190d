"""Which client: a number of a partition, or the name that a site gives itself.

Numbers and names cannot be mistaken for each other, in a header or in a seed: a name
begins with a letter, and it has nothing that means something in a path.
"""

import re
from pathlib import Path
from typing import Any, TypeGuard

from furlkit.errors import InputError

ClientId = int | str
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
EXPECTED = "a letter, then up to 63 letters, digits, dots, dashes or underscores"


def is_name(text: str) -> bool:
    """Whether a client may have this name."""
    return _NAME.fullmatch(text) is not None


def is_client(value: Any) -> TypeGuard[ClientId]:
    """Whether a value from a header is a client's number or name."""
    if isinstance(value, str):
        return is_name(value)
    return type(value) is int and value >= 0


def client_of(text: str) -> ClientId | None:
    """The client that a word on the command line means: 3, or st-mary; None for none."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return text if is_name(text) else None


def client_order(client: ClientId) -> tuple[bool, ClientId]:
    """A key to sort clients by: numbers first, by size, then names, by their letters."""
    return isinstance(client, str), client


def check_clients(path: Path, facts: Any) -> None:
    """Whoever the facts of a file name has a name that is allowed."""
    found = [getattr(facts, name, None) for name in ("client", "made_for")]
    for several in (getattr(facts, name, None) for name in ("clients", "owners")):
        if isinstance(several, list):
            found += [c[0] if isinstance(c, list) and c else c for c in several]
    for client in found:
        if isinstance(client, str) and not is_name(client):
            raise InputError(
                f"{path}: is of a client called {client[:70]!r}; expected {EXPECTED}"
            )
