"""Print a plan for HyperQueue: a job file with a task for each unfinished step."""

import json
from collections.abc import Iterator, Sequence

from furlkit.recipes.expand import Plan
from furlkit.recipes.forms import removing
from furlkit.recipes.jobs import Job, jobs, log_path, unfinished
from furlkit.recipes.resources import Resources, Site

Lines = Iterator[str]
_HEAD = """\
# Made by `furlkit plan`: a job file of HyperQueue with the steps that are not finished.
#   hq job submit-file FILE
# After a failure, repair the cause, run the same furlkit plan again, and submit again."""
# A failed task cancels dependent tasks; a lenient task never fails.
_LENIENT = '"$@" || echo "exit code $?: the round goes on without this client" >&2'


def as_hq(plans: Sequence[Plan], site: Site, _window: int | None = None) -> Lines:
    """Yield one task for each step; HyperQueue accepts graphs of any length."""
    yield _HEAD
    names = [plan.run.out for plan in plans]
    yield f"name = {json.dumps(', '.join(names))}"
    first = 0
    makers: dict[str, int] = {}  # By output, the number of the task.
    for plan in plans:
        found = jobs(plan)
        yield from _tasks(plan, site, found, first, makers)
        first += sum(max(1, len(job.steps)) for job in found)


def _tasks(
    plan: Plan, site: Site, found: list[Job], first: int, makers: dict[str, int]
) -> Lines:
    """Yield the tasks of a run; finished steps have numbers too."""
    for job, left in zip(found, unfinished(plan, found), strict=True):
        for element in left:
            number = first + element
            if job.removal:
                after, resources = job.removal.after, site.of()
            else:
                step = plan.steps[job.steps[element]]
                after, resources = step.after, site.of(step)
                makers.update(dict.fromkeys(step.outputs, number))
            needs = sorted({makers[path] for path in after if path in makers})
            command = _command(plan, job, element, resources)
            log = json.dumps(log_path(plan, job, element))
            yield f"\n[[task]]\nid = {number}  # {job.name}, {element}"
            yield f"command = {json.dumps(command, ensure_ascii=False)}"
            yield f'stdout = "none"\nstderr = {log}'
            yield from _request(resources, needs)
        first += max(1, len(job.steps))


def _command(plan: Plan, job: Job, element: int, found: Resources) -> list[str]:
    if job.removal:
        return ["sh", "-c", removing(job.removal)]
    words = ["furlkit", *plan.steps[job.steps[element]].command, "-q"]
    if not (found.setup or found.launch or job.quorum):
        return words
    launch = f"{found.launch} " if found.launch else ""
    last = f"{launch}{_LENIENT}" if job.quorum else f'exec {launch}"$@"'
    return ["sh", "-c", "\n".join([*found.setup, last]), "sh", *words]


def _request(found: Resources, needs: list[int]) -> Lines:
    if needs:
        yield f"deps = {needs}"
    if found.wait_for_files:
        yield f'env = {{ "FURLKIT_WAIT_FOR_FILES" = "{found.wait_for_files}" }}'
    if found.seconds:
        yield f'time_limit = "{found.seconds}s"'
    amounts = {"cpus": found.cpus, "gpus/nvidia": found.gpus, "mem": found.megabytes}
    shown = (f'"{key}" = "{value:g}"' for key, value in amounts.items() if value)
    yield f"[[task.request]]\nresources = {{ {', '.join(shown)} }}"
