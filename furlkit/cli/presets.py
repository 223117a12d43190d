"""Presets: TOML files whose tables hold what one could have typed.

One that says `extends = "NAME"` (or a file beside it) at its top has that preset's
values wherever it sets none of its own, so it shows what it changes and nothing else.
"""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import click

from furlkit.errors import InputError, UsageError


def names() -> list[str]:
    """The presets that come with furlkit."""
    folder = resources.files("furlkit.presets")
    found = (Path(entry.name) for entry in folder.iterdir())
    return sorted(path.stem for path in found if path.suffix == ".toml")


def apply(context: click.Context, _parameter: click.Parameter, name: str | None):
    """Make the table of this command the command's defaults; a flag by hand wins."""
    if name is None:
        return None
    table = _table(name, _stage(context))
    by_key = {_key(p): p for p in context.command.params if isinstance(p, click.Option)}
    for key in table:
        if key not in by_key or key in ("preset", "output"):
            raise UsageError(
                f"--preset {name}: [{'.'.join(_stage(context))}] sets {key!r}, "
                f"which {context.command_path} does not have"
            )
    context.default_map = {
        by_key[key].name: _typed(name, by_key[key], value)
        for key, value in table.items()
    }
    return name


def _stage(context: click.Context) -> list[str]:
    return context.command_path.split()[1:]


def _key(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _typed(name: str, option: click.Option, value: Any) -> Any:
    if not isinstance(value, str | int | float | list):
        raise UsageError(
            f"--preset {name}: {_key(option)!r} is {value!r}, wanted text, a number, "
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
    if not isinstance(found, dict):
        raise UsageError(f"--preset {name}: has no table [{'.'.join(stage)}]")
    return found


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
    if name.endswith(".toml"):
        path: Any = Path(name)
    elif name in names():
        path = resources.files("furlkit.presets") / f"{name}.toml"
    else:
        raise UsageError(
            f"--preset {name}: known are {', '.join(names())}, or FILE.toml"
        )
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not TOML: {error}") from error
