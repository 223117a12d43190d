"""The catalogue's kinds of values as click's types: text of a command line to values."""

import glob
from pathlib import Path
from typing import Any

import click

from furlkit import catalogue
from furlkit.errors import did_you_mean
from furlkit.files.clients import EXPECTED, is_name

MOST_CLIENTS = 10**6
LARGEST = 1e30
LONG = 40  # Longer lists of choices move from the metavar to the help text.


class Name(click.Choice):
    """A word of a list; the choice LIBRARY:NAME accepts any name of the library."""

    def convert(self, value, param, ctx):
        """Text to a word."""
        library, _, name = str(value).partition(":")
        if name and library + catalogue.ANY in self.choices:
            return value
        if value not in self.choices:
            words = ", ".join(map(repr, self.choices))
            hint = did_you_mean(str(value), self.choices)
            self.fail(f"{value!r} is not one of {words}{hint}", param, ctx)
        return value


class Real(click.FloatRange):
    """A number within a range that float32 can represent; not NaN."""

    def convert(self, value, param, ctx):
        """Text to a number."""
        number = super().convert(value, param, ctx)
        if not abs(number) <= LARGEST:
            self.fail(f"{value!r}: expected a number up to {LARGEST:g}", param, ctx)
        return number


class Numbers(click.ParamType):
    """Numbers with commas between: 0.2,1."""

    name = "NUMBERS"

    def __init__(self, kind: type, length: int | None, low: int | None):
        self._kind, self._length, self._low = kind, length, low

    def convert(self, value, param, ctx):
        """Text to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self._kind(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: expected numbers with commas between", param, ctx)
        if self._length is not None and len(numbers) != self._length:
            self.fail(f"{value!r}: expected {self._length} numbers", param, ctx)
        if self._low is not None and min(numbers) < self._low:
            self.fail(f"{value!r}: expected numbers from {self._low}", param, ctx)
        if not all(abs(number) <= LARGEST for number in numbers):
            self.fail(f"{value!r}: expected numbers up to {LARGEST:g}", param, ctx)
        return numbers


EMPTY = "is empty; expected a path"


class FilePath(click.Path):
    """The path of a file or folder; not empty, unlike an unset variable of a shell."""

    def convert(self, value, param, ctx):
        """Text to a path."""
        if not str(value):
            self.fail(EMPTY, param, ctx)
        return super().convert(value, param, ctx)


class Place(click.ParamType):
    """A path, a pattern of paths or a name, as text; not empty."""

    name = "FILE"

    def convert(self, value, param, ctx):
        """Check the text."""
        if not str(value):
            self.fail(EMPTY, param, ctx)
        return str(value)


class Clients(click.ParamType):
    """Clients by number: 3, 0-4, 0,2,5-7; the order and repeats do not matter.

    With `names` one client may be given by name.
    """

    name = "CLIENTS"

    def __init__(self, names: bool):
        self._names = names

    def convert(self, value, param, ctx):
        """Text to a sorted tuple of numbers, or to one name."""
        if isinstance(value, tuple):
            return value
        if self._names and is_name(str(value)):
            return (str(value),)
        chosen: set[int] = set()
        for part in str(value).split(","):
            first, dash, last = part.partition("-")
            if not first.isdecimal() or (dash and not last.isdecimal()):
                more = f", or a name: {EXPECTED}" if self._names else ""
                expected = f"numbers like 3, 0-4 or 0,2,5-7{more}"
                self.fail(f"{value!r}: expected {expected}", param, ctx)
            if int(last or first) - int(first) >= MOST_CLIENTS:
                self.fail(f"{value!r}: is more than {MOST_CLIENTS:,}", param, ctx)
            chosen.update(range(int(first), int(last or first) + 1))
        if not chosen:
            self.fail(
                f"{value!r}: is empty; the smaller number comes first", param, ctx
            )
        return tuple(sorted(chosen))


class Labelled(click.ParamType):
    """LABEL=FILE,FILE,... as a label and files; * and ? match existing files."""

    def __init__(self, several: bool):
        self.name = "LABEL=FILE,FILE,..." if several else "LABEL=FILE"
        self._several = several

    def convert(self, value, param, ctx):
        """Text to a label and paths, or one path."""
        if isinstance(value, tuple):
            return value
        label, _, text = str(value).partition("=")
        names = text.split(",") if self._several else [text]
        if not all(names):
            self.fail(f"{value!r}: expected {self.name}", param, ctx)
        paths = tuple(Path(path) for name in names for path in self._found(name))
        if not paths:
            self.fail(f"{text!r}: no such file or folder", param, ctx)
        return label, (paths if self._several else paths[0])

    def _found(self, name: str) -> list[str]:
        pattern = self._several and glob.has_magic(name) and not Path(name).exists()
        return sorted(glob.glob(name)) if pattern else [name]


def type_of(kind: catalogue.Kind) -> tuple[Any, str]:
    """click's type for a kind of value, and the metavar in --help."""
    match kind:
        case catalogue.Number(low, high, above, below):
            least = low if above is None else above
            most = high if below is None else below
            strict = {"min_open": above is not None, "max_open": below is not None}
            return Real(least, most, **strict), "X"
        case catalogue.Whole(low, high):
            return click.IntRange(low, high), "N"
        case catalogue.Choice():
            words = f"[{'|'.join(kind.words)}]"
            return Name(kind.words), words if len(words) <= LONG else "NAME"
        case catalogue.Numbers(whole, length, low):
            letter = "N" if whole else "X"
            form = ",".join([letter] * length if length else [letter, "..."])
            return Numbers(int if whole else float, length, low), form
        case catalogue.Labelled(several):
            return Labelled(several), "LABEL=FILE,..." if several else "LABEL=FILE"
        case catalogue.Clients(names):
            return Clients(names), "NUMBERS|NAME" if names else "NUMBERS"
        case catalogue.File():
            if kind.per_client or kind.words:
                return Place(), "FILE"
            folder = not kind.written or kind.kind == "folder"
            return FilePath(dir_okay=folder, path_type=Path), "FILE"
        case catalogue.Data():
            return Place(), "NAME|PATH"
        case catalogue.Text(form):
            return str, form
    return bool, ""
