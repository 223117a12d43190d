"""Records of a plan in the run's folder: plan/recipe.json and plan/STAGE-HASH.txt.

A stage's record lists the words and settings that, with the inputs, determine the bytes
of the outputs. plan writes a record only if the record changes, so every older output
was made with other settings.
"""

import json
import re
import shlex
from collections.abc import Collection, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import short
from furlkit.files.contents import content_of
from furlkit.files.opening import LONGEST_JSON, read_bytes
from furlkit.files.receipts import MADE
from furlkit.presets import own_files
from furlkit.recipes.expand import Plan, noted_in, record_path
from furlkit.recipes.read import DEFAULTS, NAME, Recipe, Run, Stage

JSON = "recipe.json"
LONGEST_VALUE = 200  # Characters of an option's value in a warning.
HALF_SIGN = re.compile(rb"\\u[dD][89a-fA-F]")
RECORD = re.compile(rf"{NAME.pattern}-[0-9a-f]{{8}}\.txt")
BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def changes(plan: Plan) -> list[str]:
    """Lines about the stages with settings that differ from the previous plan."""
    run, changed = plan.run, []
    old = _records(Path(noted_in(run, JSON)).parent)
    for name, text in plan.records.items():
        if name in old and not Path(record_path(run, name, text)).exists():
            before = read_bytes(old[name], LONGEST_JSON).decode(errors="replace")
            changed.append(f"{run.out}: {name} changes: {_difference(before, text)}")
    return changed


def save(plan: Plan, group: int) -> None:
    """Write the records of a run, and remove outdated records."""
    run = plan.run
    old = _records(Path(noted_in(run, JSON)).parent)
    new = {n: Path(record_path(run, n, t)) for n, t in plan.records.items()}
    # recipe.json lists old and new records first, so the next plan finds these files even
    # if this process is killed in between.
    _note(plan, group, {path.name for path in [*old.values(), *new.values()]})
    # An omitted stage keeps the record: a later plan with the stage then finds the outputs
    # up to date.
    for name in old.keys() - run.recipe.stages.keys():
        old[name].unlink()
    for name, path in new.items():
        if path.exists():
            continue
        # The old record goes first: if killed in between, the outputs are stale.
        if name in old:
            old[name].unlink()
        write_bytes(path, plan.records[name].encode())


def _records(folder: Path) -> dict[str, Path]:
    """Record of each stage, among the files listed by the folder's plan."""
    try:
        listed = json.loads(read_bytes(folder / JSON, LONGEST_JSON))["records"]
        names = [name for name in listed if RECORD.fullmatch(name)]
    except (FurlkitError, *BROKEN):
        return {}
    found = (folder / name for name in sorted(names))
    return {path.name.partition("-")[0]: path for path in found if path.is_file()}


def _note(plan: Plan, group: int, listed: Collection[str]) -> None:
    """Write recipe.json, which status reads."""
    run, recipe = plan.run, plan.run.recipe
    noted = {
        "recipe": recipe.path.name,
        "settings": run.settings,
        "preset": run.preset,
        "files": recipe.files,
        "inputs": recipe.inputs,
        "stages": {
            name: {"run": stage.line, "rounds": stage.rounds}
            for name, stage in recipe.stages.items()
        },
        "group": group,
        "records": sorted(listed),
        "presets": {name: content_of(name) for name in _preset_files(plan)},
        **({"wanted": run.wanted} if run.wanted else {}),
    }
    text = json.dumps(noted, indent=1, ensure_ascii=False, default=str) + "\n"
    write_bytes(Path(noted_in(run, JSON)), text.encode())


def _preset_files(plan: Plan) -> list[str]:
    """Files of the user among the presets of a run and of the stages."""
    words = (pair for step in plan.samples for pair in pairwise(step.command))
    typed = {name for flag, name in words if flag == "--preset"}
    names = sorted({str(plan.run.settings["preset"]), *typed} - {""})
    return list(dict.fromkeys(file for name in names for file in own_files(name)))


def changed_presets(folder: Path) -> list[str]:
    """Preset files that have changed since the run was planned.

    A missing file is not a change: the run was planned on another machine.
    """
    try:
        noted = _loaded(read_bytes(folder / "plan" / JSON, LONGEST_JSON))["presets"]
        return [p for p, old in noted.items() if content_of(p) not in (old, None)]
    except (FurlkitError, *BROKEN):
        return []


def runs_in(folder: Path) -> list[Path]:
    """Folder of a planned run, and the folders of planned runs below.

    A folder with a plan that was never carried out is left out if runs are below: printing
    a plan writes such a folder.
    """
    found = sorted(path.parents[1] for path in folder.glob(f"**/plan/{JSON}"))
    below = [each for each in found if each != folder]
    if folder in found and ((folder / MADE).exists() or not below):
        return [folder, *below]
    return below or [folder]


def run_folders(given: Iterable[Path]) -> list[Path]:
    """Folders of the runs in the folders that the user names."""
    folders = []
    for folder in given:
        if not folder.is_dir():
            raise InputError(f"{folder}: is not a folder; give the folder of a run")
        folders += runs_in(folder)
    return folders


def load(folder: Path) -> tuple[Run, int]:
    """Read the planned run of a folder, and the number of clients per command."""
    path = folder / "plan" / JSON
    if not path.exists():
        raise InputError(
            f"{path}: no such file; status needs the folder of a run that furlkit plan "
            "has planned, or a folder above"
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
        wanted = tuple(map(str, noted.get("wanted", ())))
        return Run(recipe, settings, preset, wanted), int(noted["group"])
    except BROKEN as error:
        raise InputError(
            f"{path}: cannot be read: {error}; plan the run again"
        ) from error


def _loaded(raw: bytes) -> dict[str, Any]:
    """Parse recipe.json; every text must be possible in the name of a file."""
    if rb"\u0000" in raw:
        raise ValueError("the name of a file cannot contain NUL")
    noted = json.loads(raw)
    if HALF_SIGN.search(raw):  # Encoding fails for half a surrogate pair.
        json.dumps(noted, ensure_ascii=False).encode()
    return noted


def _of(table: Any, kind: Any) -> dict[str, Any]:
    """Return a table; raise TypeError unless every value has this type."""
    for name, value in table.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {short(value)}")
    return table


def _difference(before: str, after: str) -> str:
    """Describe the options that differ between two records."""
    old, new = _options(before), _options(after)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    both = ((key, old.get(key, "none"), new.get(key, "none")) for key in keys)
    found = [_change(*each) for each in both]
    return ", ".join(found) or "the order of the options"


def _change(key: str, before: str, after: str) -> str:
    """Name a changed option, with both values unless these are long lists of files."""
    if max(len(before), len(after)) > LONGEST_VALUE:
        return key
    return f"{key} {before} -> {after}"


def _options(text: str) -> dict[str, str]:
    """Options and values of a record; words before the first option are `inputs`."""
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
    """Words of a record's command (a word may contain line breaks), and further lines."""
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
