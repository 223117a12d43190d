"""Client ids: a number in a partition, or a name chosen by a site.

Numbers and names cannot be confused, in a header or in a seed: a name begins with a
letter, and contains no character with a meaning in a path.
"""

import re
from pathlib import Path
from typing import Any, TypeGuard

from furlkit.errors import InputError

ClientId = int | str
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
EXPECTED = "a letter, then up to 63 letters, digits, dots, dashes or underscores"


def is_name(text: str) -> bool:
    """Return whether a client may have this name."""
    return _NAME.fullmatch(text) is not None


def is_client(value: Any) -> TypeGuard[ClientId]:
    """Return whether a value from a header is a client's number or name."""
    if isinstance(value, str):
        return is_name(value)
    return type(value) is int and value >= 0


def client_of(text: str) -> ClientId | None:
    """Parse a client on the command line: 3, or st-mary; None if invalid."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return text if is_name(text) else None


def client_order(client: ClientId) -> tuple[bool, ClientId]:
    """Sort key of clients: numbers first, by size, then names in alphabetical order."""
    return isinstance(client, str), client


def check_clients(path: Path, facts: Any) -> None:
    """Check the client names in the facts of a file."""
    found = [getattr(facts, name, None) for name in ("client", "made_for")]
    for several in (getattr(facts, name, None) for name in ("clients", "owners")):
        if isinstance(several, list):
            found += [c[0] if isinstance(c, list) and c else c for c in several]
    for client in found:
        if isinstance(client, str) and not is_name(client):
            raise InputError(
                f"{path}: is of a client called {client[:70]!r}; expected {EXPECTED}"
            )
