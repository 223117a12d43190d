"""What a run's folder knows of its plan: plan/recipe.json and plan/STAGE-HASH.txt.

A stage's record says what decides the bytes of its outputs besides what it reads. It is
written only when it changes, so everything older than it was made with other settings.
"""

import json
import re
import shlex
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import short
from furlkit.files.contents import content_of
from furlkit.files.opening import LONGEST_JSON, read_bytes
from furlkit.presets import own_files
from furlkit.recipes.expand import Plan, noted_in, record_path
from furlkit.recipes.read import DEFAULTS, NAME, Recipe, Run, Stage

JSON = "recipe.json"
HALF_SIGN = re.compile(rb"\\u[dD][89a-fA-F]")
RECORD = re.compile(rf"{NAME.pattern}-[0-9a-f]{{8}}\.txt")
BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def changes(plan: Plan) -> list[str]:
    """A line for each stage of a run that was planned with other settings before."""
    run, changed = plan.run, []
    old = _records(Path(noted_in(run, JSON)).parent)
    for name, text in plan.records.items():
        if name in old and not Path(record_path(run, name, text)).exists():
            before = read_bytes(old[name], LONGEST_JSON).decode(errors="replace")
            changed.append(f"{run.out}: {name} changes: {_difference(before, text)}")
    return changed


def save(plan: Plan, group: int) -> None:
    """Write the records of a run."""
    run = plan.run
    old = _records(Path(noted_in(run, JSON)).parent)
    new = {n: Path(record_path(run, n, t)) for n, t in plan.records.items()}
    # All are listed first: killed in between, the next plan still knows its records.
    _note(plan, group, {path.name for path in [*old.values(), *new.values()]})
    # A stage that this plan leaves out keeps its record, so that a later plan that has it
    # again finds its outputs up to date.
    for name in old.keys() - run.recipe.stages.keys():
        old[name].unlink()
    for name, path in new.items():
        if path.exists():
            continue
        # The old one goes first: killed in between, everything counts as stale.
        if name in old:
            old[name].unlink()
        write_bytes(path, plan.records[name].encode())


def _records(folder: Path) -> dict[str, Path]:
    """The record of each stage, among the files that the plan of a folder lists."""
    try:
        listed = json.loads(read_bytes(folder / JSON, LONGEST_JSON))["records"]
        names = [name for name in listed if RECORD.fullmatch(name)]
    except (FurlkitError, *BROKEN):
        return {}
    found = (folder / name for name in sorted(names))
    return {path.name.partition("-")[0]: path for path in found if path.is_file()}


def _note(plan: Plan, group: int, listed: Collection[str]) -> None:
    """Note what status needs."""
    run = plan.run
    stages = {
        s.name: {"run": s.line, "rounds": s.rounds} for s in run.recipe.stages.values()
    }
    noted = {
        "recipe": run.recipe.path.name,
        "settings": run.settings,
        "preset": run.preset,
        "files": run.recipe.files,
        "inputs": run.recipe.inputs,
        "stages": stages,
        "group": group,
        "records": sorted(listed),
        "presets": {name: content_of(name) for name in _preset_files(plan)},
    }
    text = json.dumps(noted, indent=1, ensure_ascii=False, default=str) + "\n"
    write_bytes(Path(noted_in(run, JSON)), text.encode())


def _preset_files(plan: Plan) -> list[str]:
    """The user's files among the presets of a run and of its stages."""
    words = (pair for step in plan.samples for pair in pairwise(step.command))
    typed = {name for flag, name in words if flag == "--preset"}
    names = sorted({str(plan.run.settings["preset"]), *typed} - {""})
    return list(dict.fromkeys(file for name in names for file in own_files(name)))


def changed_presets(folder: Path) -> list[str]:
    """Files of presets that have another content than when the run was planned.

    A file that is not there is none: the run was planned elsewhere.
    """
    try:
        noted = _loaded(read_bytes(folder / "plan" / JSON, LONGEST_JSON))["presets"]
        return [p for p, old in noted.items() if content_of(p) not in (old, None)]
    except (FurlkitError, *BROKEN):
        return []


def runs_in(folder: Path) -> list[Path]:
    """The folder of a planned run, or all such folders below it."""
    if (folder / "plan" / JSON).exists():
        return [folder]
    below = sorted(path.parents[1] for path in folder.glob(f"**/plan/{JSON}"))
    return below or [folder]


def load(folder: Path) -> tuple[Run, int]:
    """The run that was planned in a folder, and the size of its groups of clients."""
    path = folder / "plan" / JSON
    if not path.exists():
        raise InputError(
            f"{path}: no such file; status needs the folder of a run that furlkit plan "
            "has planned, or a folder of such folders"
        )
    raw = read_bytes(path, LONGEST_JSON)
    try:
        noted = _loaded(raw)
        stages = {
            name: Stage(name, str(stage["run"]), str(stage["rounds"]))
            for name, stage in noted["stages"].items()
        }
        recipe = Recipe(
            Path(noted["recipe"]),
            _of(noted["settings"], str | int | float | list),
            _of(noted["files"], str),
            stages,
            inputs=_of(noted.get("inputs", {}), str),
        )
        settings = {**DEFAULTS, **recipe.settings, "out": str(folder)}
        preset = _of(noted["preset"], str | int | float | list | dict)
        return Run(recipe, settings, preset), int(noted["group"])
    except BROKEN as error:
        raise InputError(
            f"{path}: cannot be read: {error}; plan the run again"
        ) from error


def _loaded(raw: bytes) -> dict[str, Any]:
    """The values of a record, in which every text may be a part of a file's name."""
    if rb"\u0000" in raw:
        raise ValueError("a NUL is in no name of a file")
    noted = json.loads(raw)
    if HALF_SIGN.search(raw):
        json.dumps(noted, ensure_ascii=False).encode()  # Fails if the other half lacks.
    return noted


def _of(table: Any, kind: Any) -> dict[str, Any]:
    """A table whose values must be of one kind."""
    for name, value in table.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {short(value)}")
    return table


def _difference(before: str, after: str) -> str:
    """The options that two records differ in."""
    old, new = _options(before), _options(after)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    found = [f"{key} {_shown(old, key)} -> {_shown(new, key)}" for key in keys]
    return ", ".join(found) or "the order of its options"


def _shown(options: dict[str, str], key: str) -> str:
    return options.get(key, "none")


def _options(text: str) -> dict[str, str]:
    """A record as options with their values; what precedes the first is `inputs`."""
    words, rest = _command(text)
    found: dict[str, list[str]] = {}
    key = "inputs"
    for word in words:
        if word.startswith("-") and not _is_number(word):
            key = word
            found.setdefault(key, [])
        else:
            found.setdefault(key, []).append(word)
    options = {key: " ".join(words) or "on" for key, words in found.items()}
    for line in rest:
        key, equals, value = line.partition(" = ")
        options |= {f"preset's {key}": value} if equals else {"participants": line}
    return options


def _command(text: str) -> tuple[list[str], list[str]]:
    """The words of a record's command, in which a line may break, and further lines."""
    first, *rest = text.removesuffix("\n").split("\n")
    while True:
        try:
            return shlex.split(first), rest
        except ValueError:  # The line breaks within a quoted word.
            if not rest:
                return first.split(), []
            first = f"{first}\n{rest.pop(0)}"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
