"""plan: the steps of the runs of a recipe, checked, as rules, a script or a graph."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.inputs.settings import fill
from furlkit.recipes import records
from furlkit.recipes.expand import Plan, expand
from furlkit.recipes.forms import FORMS
from furlkit.recipes.read import read, runs
from furlkit.recipes.template import check_used

Check = Callable[[list[str]], None]


@dataclass(frozen=True)
class Options:
    """`form` is what is printed; `group` clients are trained by one command."""

    recipe: Path
    given: tuple[str, ...]
    form: str
    group: int
    output: Path | None
    dry_run: bool


def run(values: dict[str, Any], check: Check) -> tuple[str, dict[str, Any]]:
    """Expand all runs of a recipe; `check` refuses a command the program does not take."""
    options = fill(Options, values)
    recipe = read(options.recipe)
    plans = [expand(one, options.group) for one in runs(recipe, options.given)]
    for plan in plans:
        _check(plan, check)
    text = "\n".join(FORMS[options.form](plans))
    steps = sum(len(plan.steps) for plan in plans)
    folders = [plan.run.out for plan in plans]
    data = {"runs": folders, "steps": steps}
    if not options.dry_run:
        for plan in plans:
            for line in records.save(plan, options.group):
                console.warn(f"{line}; what it made before is stale")
    if options.output is None:
        return text, data
    if not options.dry_run:
        write_bytes(options.output, f"{text}\n".encode())
    many = "s" * (len(plans) > 1)
    line = f"{options.output}: {steps:,} steps of {len(plans)} run{many}"
    return f"{line} in {', '.join(folders)}", data


def _check(plan: Plan, check: Check) -> None:
    """Check one command of each stage and choice of options, and what nothing uses."""
    check_used(plan.run)
    seen = set()
    for step in plan.steps:
        shape = step.stage, *(word for word in step.command if word.startswith("-"))
        if shape in seen:
            continue
        seen.add(shape)
        try:
            check(step.command)
        except FurlkitError as error:
            where = f"{plan.run.recipe.path}: [stages] {step.stage}"
            raise InputError(f"{where}: {error}") from error
