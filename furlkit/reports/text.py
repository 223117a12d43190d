"""Plain text for people: aligned columns, shortened values, nothing unprintable."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from furlkit.console import plain

WIDTH = 100
VALUE_WIDTH = 60
DEEPEST = 6
MOST_TABLES = 3  # Maximum number of printed tables of a list.
_HASH = re.compile(r"[0-9a-f]{64}")


def shorten(text: str, width: int) -> str:
    """Cut the middle out of a text that is too long."""
    if len(text) <= width:
        return text
    head = (width - 3) // 2
    return f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"


def lookup(values: Any, name: str) -> Any:
    """Value inside nested dicts, like `drift.rank`; None if missing."""
    for key in name.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def short_hash(content: str) -> str:
    """First digits of a content hash: enough to distinguish files."""
    return shorten(plain(content[:12]), 12)


def count(value: Any) -> str:
    """A number with commas between thousands; anything else unchanged."""
    return f"{value:,}" if type(value) is int else shorten(word(value), 40)


def counted(things: Any, one: str, many: str = "") -> str:
    """A number, or the length of a list, with its noun."""
    number = len(things) if isinstance(things, list) else things
    number = number if type(number) is int else 0
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def byte_size(size: int) -> str:
    """Bytes in a suitable unit."""
    amount, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{size:,} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def word(value: Any) -> str:
    """One value in a few words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return _list_text(value)
    if isinstance(value, dict):
        return f"({len(value)} entries)"
    text = str(value)
    return text[:12] if _HASH.fullmatch(text) else shorten(plain(text), VALUE_WIDTH)


def _list_text(values: list[Any]) -> str:
    if not values:
        return "(empty)"
    if all(isinstance(value, list) for value in values):
        lengths = {len(value) for value in values}
        inner = f" x {lengths.pop()} values" if len(lengths) == 1 else " lists"
        return f"({len(values):,}{inner})"
    if all(isinstance(value, dict) for value in values):
        tables = [_table_text(value) for value in values[:MOST_TABLES]]
        more = f"; ... ({len(values):,})" if len(values) > MOST_TABLES else ""
        return "; ".join(tables) + more
    shown: list[str] = []
    for value in values:
        if len(", ".join(shown)) > VALUE_WIDTH - 24:
            return f"{', '.join(shown)}, ... ({len(values):,} values)"
        shown.append(shorten(word(value), 24))
    return ", ".join(shown)


def _table_text(values: dict[str, Any]) -> str:
    pairs = (f"{plain(key)} {word(value)}" for key, value in sorted(values.items()))
    return shorten(", ".join(pairs), VALUE_WIDTH)


def flatten(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Pairs like ("plan.lr", "0.001") from nested dicts, by sorted name."""
    for key, value in sorted(values.items()):
        name = f"{prefix}{plain(key)}"
        if isinstance(value, dict) and value and name.count(".") < DEEPEST:
            yield from flatten(value, f"{name}.")
        else:
            yield shorten(name, 40), word(value)


def columns(rows: Sequence[Sequence[str]], right: str = "") -> list[str]:
    """Align rows of cells; `right` has an r for each right-aligned column.

    >>> columns([("a", "1"), ("bb", "10")], right=".r")
    ['a    1', 'bb  10']
    """
    if not rows:
        return []
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    sides = [">" if side == "r" else "<" for side in right.ljust(len(widths), ".")]
    shape = "  ".join(map("{{:{}{}}}".format, sides, widths))
    return [shape.format(*row).rstrip() for row in rows]


def section(title: str, lines: Sequence[str], most: int = 200) -> list[str]:
    """Title with indented lines below; empty without lines."""
    if not lines:
        return []
    shown = [f"    {line}" for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"    ... and {len(lines) - most:,} more")
    return ["", f"  {title}", *shown]
