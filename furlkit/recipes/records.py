"""What a run's folder knows of its plan: plan/recipe.json and plan/STAGE.txt.

A stage's record says what decides the bytes of its outputs besides what it reads. It is
written only when it changes, so everything older than it was made with other settings.
"""

import json
import shlex
from pathlib import Path

from furlkit.errors import InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.recipes.expand import Plan, record_path
from furlkit.recipes.read import Recipe, Run, Stage


def save(plan: Plan, group: int) -> list[str]:
    """Write the records of a run; gives a line for each stage that changed."""
    run, changed = plan.run, []
    folder = Path(record_path(run, "recipe")).parent
    # A stage that this plan leaves out keeps its record, so that a later plan that has it
    # again finds its outputs up to date.
    for old in sorted(folder.glob("*.txt")):
        if old.stem not in run.recipe.stages and not old.stem.startswith("removed_"):
            old.unlink()
    for name, text in plan.records.items():
        path = Path(record_path(run, name))
        before = path.read_text() if path.exists() else None
        if before == text:
            continue
        if before is not None:
            changed.append(f"{run.out}: {name} changes: {_difference(before, text)}")
        write_bytes(path, text.encode())
    stages = {
        s.name: {"run": s.line, "rounds": s.rounds} for s in run.recipe.stages.values()
    }
    noted = {
        "recipe": run.recipe.path.name,
        "settings": run.settings,
        "files": run.recipe.files,
        "inputs": run.recipe.inputs,
        "stages": stages,
        "group": group,
    }
    text = json.dumps(noted, indent=1, ensure_ascii=False) + "\n"
    path = folder / "recipe.json"
    if not path.exists() or path.read_text() != text:
        write_bytes(path, text.encode())
    return changed


def load(folder: Path) -> tuple[Run, int]:
    """The run that was planned in a folder, and the size of its groups of clients."""
    path = folder / "plan" / "recipe.json"
    try:
        noted = json.loads(path.read_text())
        stages = {
            name: Stage(name, str(stage["run"]), str(stage["rounds"]))
            for name, stage in noted["stages"].items()
        }
        recipe = Recipe(
            Path(noted["recipe"]), noted["settings"], noted["files"], stages,
            inputs=noted.get("inputs", {}),
        )  # fmt: skip
        settings = {**noted["settings"], "out": str(folder)}
        return Run(recipe, settings), int(noted["group"])
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: no such file; status needs the folder of a run that furlkit plan "
            "has planned"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: cannot be read: {error}; plan the run again"
        ) from error


def _difference(before: str, after: str) -> str:
    """The options that two records differ in."""
    old, new = _options(before), _options(after)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return ", ".join(f"{key} {_shown(old, key)} -> {_shown(new, key)}" for key in keys)


def _shown(options: dict[str, str], key: str) -> str:
    return options.get(key, "none")


def _options(text: str) -> dict[str, str]:
    """A record as options with their values; what precedes the first is `inputs`."""
    first, *rest = text.splitlines() or [""]
    found: dict[str, list[str]] = {}
    key = "inputs"
    for word in shlex.split(first):
        if word.startswith("-") and not _is_number(word):
            key = word
            found[key] = []
        else:
            found.setdefault(key, []).append(word)
    options = {key: " ".join(words) or "on" for key, words in found.items()}
    for line in rest:
        key, equals, value = line.partition(" = ")
        options |= {f"preset's {key}": value} if equals else {"participants": line}
    return options


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
