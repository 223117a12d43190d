"""Presets: TOML files with a table of options for every command.

A preset that begins with `extends = "NAME"` (or names a neighbouring file) inherits the
values of the base preset and lists only the differences. If the preset chooses another
objective or scheme, the options of the base's choice are dropped.
"""

import json
import re
from copy import deepcopy
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from furlkit.catalogue import COMMANDS
from furlkit.errors import FurlkitError, UsageError, did_you_mean
from furlkit.files.opening import read_toml, read_toml_text

FOLDER = Path(__file__).parent
# Citations with a year in a comment, and the end of a sentence.
CITED, ENDED = re.compile(r" \([^()]*\d{4}[^()]*\)"), re.compile(r"(?<! al)\. ")
# Commands that inherit the table of a second command.
LIKE = {"evaluate personal": "evaluate linear"}


@cache
def names() -> list[str]:
    """Names of the presets that come with furlkit."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def tables(name: str) -> dict[str, Any]:
    """Tables of a preset, merged with the tables of base presets."""
    return _chain(name)[1]


def table(found: dict[str, Any], command: str) -> dict[str, Any] | None:
    """Table of a command in a preset, or None."""
    inner: Any = found
    for word in command.split():
        inner = inner.get(word) if isinstance(inner, dict) else None
    own = inner if isinstance(inner, dict) else None
    like = table(found, LIKE[command]) if command in LIKE else None
    return own if like is None else {**like, **(own or {})}


def table_text(name: str, command: str) -> str | None:
    """Table of a command in canonical JSON; None if the preset does not exist."""
    try:
        return as_text(table(tables(name), command))
    except FurlkitError:
        return None


def as_text(found: dict[str, Any] | None) -> str:
    """Format a table in canonical JSON."""
    return json.dumps(found, sort_keys=True, default=str)


def own_files(name: str) -> list[str]:
    """Files of a user's preset and of the base presets."""
    return [link for link in _chain(name)[0] if link.endswith(".toml")]


def _chain(name: str) -> tuple[list[str], dict[str, Any]]:
    chain = [name]
    found = _read(name)
    while (base := found.pop("extends", None)) is not None:
        if isinstance(base, str) and base.endswith(".toml"):
            base = str(Path(chain[-1]).parent / base)
        if not isinstance(base, str) or base in chain:
            raise UsageError(f"--preset {name}: cannot extend {base!r}")
        try:
            found = _merged(_read(base), found)
        except FurlkitError as error:
            raise type(error)(f"{error}; {chain[-1]} extends it") from error
        chain.append(base)
    return chain, found


def _read(name: str) -> dict[str, Any]:
    """Tables of a preset file; a plan asks for the presets of furlkit many times."""
    path = _path(name)
    return deepcopy(_shipped(path)) if path.parent == FOLDER else read_toml(path)


_shipped = cache(read_toml)


def _merged(
    base: dict[str, Any], own: dict[str, Any], stage: tuple[str, ...] = ()
) -> dict[str, Any]:
    both = {
        key: _merged(base[key], own[key], (*stage, key))
        for key in base.keys() & own.keys()
        if isinstance(base[key], dict) and isinstance(own[key], dict)
    }
    overruled = _overruled(" ".join(stage), base, own)
    kept = {key: value for key, value in base.items() if key not in overruled}
    return {**kept, **own, **both}


def _overruled(command: str, base: dict[str, Any], own: dict[str, Any]) -> set[str]:
    """Options of the choices in `base` replaced by the preset."""
    found: set[str] = set()
    families = COMMANDS[command].families if command in COMMANDS else []
    for family in families:
        entry = family.entries().get(str(own.get(family.choice.name)))
        if entry and base.get(family.choice.name) != entry.name:
            found |= {option.name for option in family.options}
            found -= {option.name for option in entry.options}
    return found


def text_of(name: str) -> str:
    """Text of a preset file, including comments."""
    return read_toml_text(_path(name))


def summary(name: str) -> str:
    """First sentence of a preset's comment, without citations."""
    lines = takewhile(lambda line: line.strip("# "), text_of(name).splitlines())
    text = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
    return ENDED.split(CITED.sub("", text))[0].rstrip(".")


def by_system(found: dict[str, str]) -> dict[str, list[str]]:
    """Group presets: systems with variants (fedca, fedca-align), then the others.

    `found` maps presets to summaries; a system's summary begins with its name.
    """
    groups: dict[str, list[str]] = {}
    for name in found:
        groups.setdefault(name.partition("-")[0], []).append(name)
    systems = {
        found[first].partition(":")[0]: members
        for first, members in groups.items()
        if len(members) > 1
    }
    others = [first for first, members in groups.items() if len(members) == 1]
    return {**systems, "Others": others}


def _path(name: str) -> Path:
    if name.endswith(".toml"):
        return Path(name)
    if name not in names():
        raise UsageError(
            f"--preset {name}: known are {', '.join(names())}, or FILE.toml"
            f"{did_you_mean(name, names())}"
        )
    return FOLDER / f"{name}.toml"
