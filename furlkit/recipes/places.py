"""Check that a run writes below the run's folder, unless the user allows other places.

A recipe may come from a stranger. The user writes the KEY=VALUE words, and is free to
name any place; every path from a recipe or a preset must stay below the run's folder.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from os.path import normpath
from pathlib import Path, PurePath
from typing import Any

from furlkit.catalogue import command_at, writes_file
from furlkit.errors import InputError
from furlkit.recipes.expand import Plan, Step
from furlkit.recipes.template import path_of, templates

ALLOW = "or allow it with --allow-outside"
IMPOSSIBLE = re.compile(r"^-|(^|/)\.{0,2}$|[\x00-\x1f\x7f]")


def check_places(plan: Plan, given: Sequence[str]) -> None:
    """Refuse a folder or a file of a recipe outside of the run's folder."""
    run, recipe = plan.run, plan.run.recipe
    by_hand = {word.partition("=")[0] for word in given}
    if "out" not in by_hand and _leaves(run.out):
        raise InputError(
            f"{recipe.path}: out = {run.out!r}: a recipe may write below the current "
            f"folder only; give out=FOLDER, {ALLOW}"
        )
    names = {ref.name for t in templates(run).values() for ref in t.outputs}
    for name in sorted(names):
        if _leaves(path := path_of(run, name)):
            raise InputError(
                f"{recipe.path}: [files] {name} = {path!r}: is not below the folder of "
                f"the run; choose a path below, {ALLOW}"
            )


def check_names(plan: Plan) -> None:
    """Refuse impossible names of files, and words with NUL."""
    run = plan.run
    names = {ref.name for t in templates(run).values() for ref in t.outputs}
    for name in sorted(names):
        path = path_of(run, name)
        if IMPOSSIBLE.search(path):
            raise InputError(
                f"{run.recipe.path}: [files] {name} = {path!r}: cannot be the name of a "
                "file: begins like an option, ends like a folder, or has a control "
                "character"
            )
    for step in plan.samples:
        if any("\0" in word for word in step.command):
            raise InputError(
                f"{run.recipe.path}: [stages] {step.stage}: a command cannot contain NUL"
            )


def check_written(plan: Plan, step: Step, values: Mapping[str, Any]) -> None:
    """Refuse a command that writes an unplanned file."""
    where = f"{plan.run.recipe.path}: [stages] {step.stage}"
    command = command_at(step.command)
    for key, option in command.options.items() if command else ():
        if not writes_file(option) or not values.get(key):
            continue
        if not _files(str(values[key]), step.clients) <= {*map(normpath, step.writes)}:
            raise InputError(
                f"{where}: --{option.name} {values[key]}: is no file of the run; write "
                f"--{option.name} {{name}}, with a name of [files]"
            )


def check_folders(
    plan: Plan, step: Step, values: Mapping[str, Any], given: Sequence[str]
) -> None:
    """Refuse folders of the recipe or the preset that a command would write into."""
    typed = {part for word in given for part in [*word.split(), word.partition("=")[2]]}
    keys = ("cache", *(["data_root"] if values.get("download") else []))
    for key in keys:
        folder = str(values.get(key) or "")
        if folder and folder not in typed and not _is_below(folder, plan.run.out):
            raise InputError(
                f"{plan.run.recipe.path}: [stages] {step.stage}: writes into {folder}, "
                f"which is not below {plan.run.out}; give {key}={folder}, {ALLOW}"
            )


def _files(pattern: str, clients: Collection[int]) -> set[str]:
    names = (pattern.replace("{client}", str(client)) for client in clients or ("",))
    return {normpath(name) for name in names}


def _leaves(path: str) -> bool:
    """Return whether a path is absolute or contains `..`."""
    return PurePath(path).is_absolute() or ".." in PurePath(path).parts


def _is_below(folder: str, out: str) -> bool:
    inside = Path(normpath(folder)).is_relative_to(normpath(out))
    return inside and ".." not in PurePath(folder).parts
