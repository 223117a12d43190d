"""Presets: TOML files whose tables hold what one could have typed.

One that says `extends = "NAME"` (or a file beside it) at its top has that preset's
values wherever it sets none of its own, so it shows what it changes and nothing else.
"""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import click

from furlkit import catalogue, console
from furlkit.cli.shared import argument, command
from furlkit.errors import InputError, UsageError

# Recipes name their preset on every stage, and this one has little to set.
OPTIONAL = (["evaluate", "classifier"],)


def names() -> list[str]:
    """The presets that come with furlkit."""
    folder = resources.files("furlkit.presets")
    found = (Path(entry.name) for entry in folder.iterdir())
    return sorted(path.stem for path in found if path.suffix == ".toml")


@command("presets", argument("name", "[NAME]", str, required=False))
def presets(values: dict[str, Any]) -> None:
    """NAME is a preset that comes with furlkit, or the path of a TOML file. Each value
    has its origin beside it: (P) printed in the paper, (C) the original's code, (O) our
    choice. `extends` names the preset whose values hold where it sets none.

    \b
    Example:
      furlkit presets
      furlkit presets fedca
    """
    if values["name"] is not None:
        text = _text(values["name"])
        console.result(text.rstrip(), {"name": values["name"], "text": text})
        return
    first = {name: _text(name).splitlines()[0].lstrip("# ") for name in names()}
    width = max(map(len, first))
    lines = [f"{name:{width}}  {text}" for name, text in first.items()]
    console.result("\n".join(lines), first)


def apply(context: click.Context, name: str | None) -> None:
    """Make the table of this command the command's defaults; a flag by hand wins."""
    if name is None:
        return
    stage = context.command_path.split()[1:]
    table = _table(name, stage)
    by_name = {o.name: o for o in catalogue.COMMANDS[" ".join(stage)].options.values()}
    for key in table:
        if key not in by_name or key in ("preset", "output"):
            raise UsageError(
                f"--preset {name}: [{'.'.join(stage)}] sets {key!r}, "
                f"which {context.command_path} does not have"
            )
    context.default_map = {
        by_name[key].key: _typed(name, by_name[key], value)
        for key, value in table.items()
    }


def _typed(name: str, option: catalogue.Option, value: Any) -> Any:
    if not isinstance(value, str | int | float | list):
        raise UsageError(
            f"--preset {name}: {option.name!r} is {value!r}, expected text, a number, "
            "true, false or a list"
        )
    if option.multiple:
        return value if isinstance(value, list) else [value]
    # Comma-separated options take text; click has its own view of lists.
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _table(name: str, stage: list[str]) -> dict[str, Any]:
    found: Any = tables(name)
    for part in stage:
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, dict):
        return found
    if stage in OPTIONAL:
        return {}
    raise UsageError(f"--preset {name}: has no table [{'.'.join(stage)}]")


def tables(name: str) -> dict[str, Any]:
    """All tables of a preset, with those of the presets it extends."""
    chain = [name]
    found = _read(name)
    while (base := found.pop("extends", None)) is not None:
        if isinstance(base, str) and base.endswith(".toml"):
            base = str(Path(chain[-1]).parent / base)
        if not isinstance(base, str) or base in chain:
            raise UsageError(f"--preset {name}: cannot extend {base!r}")
        chain.append(base)
        found = _merged(_read(base), found)
    return found


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(base[key], own[key])
        for key in base.keys() & own.keys()
        if isinstance(base[key], dict) and isinstance(own[key], dict)
    }
    return {**base, **own, **both}


def _read(name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(name))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: is not TOML: {error}") from error


def _text(name: str) -> str:
    if name.endswith(".toml"):
        path: Any = Path(name)
    elif name in names():
        path = resources.files("furlkit.presets") / f"{name}.toml"
    else:
        raise UsageError(
            f"--preset {name}: known are {', '.join(names())}, or FILE.toml"
        )
    try:
        return path.read_text()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}") from error
