"""plan: the checked steps of a recipe's runs, in rules, a script or a graph."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.catalogue import COMMANDS
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.lock import holding
from furlkit.inputs.paths import check_output
from furlkit.inputs.planned import (
    check_count,
    check_planned,
    check_uploads,
    data_warnings,
)
from furlkit.inputs.settings import fill
from furlkit.recipes import places, records
from furlkit.recipes.expand import Plan, Step, expand, noted_in
from furlkit.recipes.finished import changed_code, command_name
from furlkit.recipes.forms import FORMS
from furlkit.recipes.hq import as_hq
from furlkit.recipes.read import Recipe, read, runs
from furlkit.recipes.resources import Site
from furlkit.recipes.slurm import as_slurm
from furlkit.recipes.tables import chosen_tables, plan_tables
from furlkit.recipes.template import check_used
from furlkit.reports.text import counted
from furlkit.runtime import no_search_for_garbage

Check = Callable[[list[str]], dict[str, Any]]
SHOWN = 6  # Folders of runs in the line of the result.
# Commands that refuse more --images than there are; others take fewer.
DRAWING = ("partition", "pretrain-align")
CLUSTERS = {"slurm": as_slurm, "hq": as_hq}


@dataclass(frozen=True)
class PlanOptions:
    """`form`: form of the output; `group`: clients trained by one command.

    `resources`: the site's file, for clusters.
    """

    recipe: Path
    given: tuple[str, ...]
    form: str
    group: int
    resources: Path | None
    rounds_at_once: int | None
    output: Path | None
    allow_outside: bool
    dry_run: bool


def run(values: dict[str, Any], check: Check) -> tuple[str, dict[str, Any]]:
    """Expand the runs of a recipe; `check` refuses invalid commands.

    `check` returns the values of the command's options.
    """
    options = fill(PlanOptions, values)
    recipe = read(options.recipe)
    with no_search_for_garbage():
        plans = _plans(recipe, options)
        text = "\n".join(_lines(options, recipe, plans))
    for plan in plans:
        _check(plan, recipe, options, check)
    steps = sum(len(plan.steps) for plan in plans)
    folders = [plan.run.out for plan in plans]
    data = {"runs": folders, "steps": steps}
    _check_output(options, plans, text)
    if not options.dry_run:
        _write(options, plans, text)
    if options.output is None:
        return text, data
    counts = f"{counted(steps, 'step')} of {counted(len(plans), 'run')}"
    line = f"{options.output}: {counts}"
    more = f" and {len(folders) - SHOWN:,} more" if folders[SHOWN:] else ""
    return f"{line} in {', '.join(folders[:SHOWN])}{more}", data


def _plans(recipe: Recipe, options: PlanOptions) -> list[Plan]:
    """Plans of the tables in table=NAME words, or of the runs of the recipe."""
    if chosen_tables(recipe, options.given):
        return plan_tables(recipe, options.given, options.group)
    return [expand(one, options.group) for one in runs(recipe, options.given)]


def _lines(options: PlanOptions, recipe: Recipe, plans: list[Plan]) -> Iterator[str]:
    if options.resources and options.form not in CLUSTERS:
        raise UsageError(f"--resources: applies to --as {' and '.join(CLUSTERS)} only")
    if options.rounds_at_once and options.form != "slurm":
        raise UsageError("--rounds-at-once: applies to --as slurm only")
    site = Site(recipe, options.resources)
    if options.form in CLUSTERS:
        return CLUSTERS[options.form](plans, site, options.rounds_at_once)
    return FORMS[options.form](plans)


def _write(options: PlanOptions, plans: list[Plan], text: str) -> None:
    """Write the plan and the records of the runs, while no other plan is written."""
    with ExitStack() as held:
        for plan in plans:
            held.enter_context(holding(Path(noted_in(plan.run, records.JSON))))
        for line in [line for plan in plans for line in records.changes(plan)]:
            console.warn(f"{line}; what it made before is stale")
        for plan in plans:
            _warn_of_code(plan)
        # Rules first: without records, the rules do not run.
        if options.output is not None:
            write_bytes(options.output, f"{text}\n".encode())
        for plan in plans:
            records.save(plan, options.group)


def _warn_of_code(plan: Plan) -> None:
    """Name packages of plugins with code that has changed since the run's files."""
    for package, count in changed_code(plan).items():
        console.warn(
            f"{plan.run.out}: the code of {package} has changed since it made "
            f"{counted(count, 'file')}; the files are stale"
        )


def _check_output(options: PlanOptions, plans: list[Plan], text: str) -> None:
    """Refuse a plan that cannot be printed, or that would be an output of a step."""
    output = options.output
    if output is None:
        if console.printable(text) != text:
            raise UsageError(
                "a name has a control character, which is not printed; write the plan "
                "to a file with -o"
            )
        return
    # make would run a rule for the file of rules at once, even with -n.
    made = (path for plan in plans for step in plan.steps for path in step.writes)
    alike = (path for path in made if path.endswith(output.name))
    check_output(output, [options.recipe, *alike])


def _check(plan: Plan, recipe: Recipe, options: PlanOptions, check: Check) -> None:
    """Check a command of each stage and choice of options, and unused settings."""
    check_used(plan.run, recipe)
    places.check_names(plan)
    if not options.allow_outside:
        places.check_places(plan, options.given)
    last = {step.stage: step.round for step in plan.steps}
    checked: dict[str, dict[str, Any]] = {}  # Values of the last sample of a stage.
    for step in plan.samples:
        where = f"{plan.run.recipe.path}: [stages] {step.stage}"
        try:
            values = check(step.command)
            check_planned(values, last.get(step.stage))
            if step.command[0] in DRAWING:
                check_count(values, step.reads)
            if step.command[0] == "aggregate":
                for stage in _writers(plan, step):
                    if "update" in checked.get(stage, ()):
                        check_uploads(checked[stage], values, last[stage] or 0)
            checked[step.stage] = values
        except FurlkitError as error:
            raise InputError(f"{where}: {error}") from error
        command = COMMANDS[command_name(step)]
        for line in data_warnings(command.options, values, step.reads):
            console.warn(f"{plan.run.recipe.path}: {line}")
        places.check_written(plan, step, values)
        if not options.allow_outside:
            places.check_folders(plan, step, values, options.given)


def _writers(plan: Plan, reader: Step) -> set[str]:
    """Stages of the steps that write the files a step reads."""
    read = {*reader.reads}
    return {step.stage for step in plan.steps if not read.isdisjoint(step.writes)}
