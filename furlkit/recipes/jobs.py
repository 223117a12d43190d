"""Group the steps of a plan into jobs: a job runs one stage of one round in parallel."""

from collections.abc import Iterator
from itertools import pairwise
from os.path import exists
from typing import NamedTuple

from furlkit import presets
from furlkit.recipes.expand import Plan, Step, noted_in
from furlkit.recipes.finished import DONE, Finished
from furlkit.recipes.removal import Removal, removals

LONGEST = 1000  # Slurm's usual limit for the elements of an array is 1001.


class Job(NamedTuple):
    """Numbers of steps, and numbers of the jobs that must end first (`after`).

    `place`: number of rounds up to this job, over all phases. If `quorum` is set, later
    jobs need only this number of clients, and steps may fail. A job without steps
    removes files.
    """

    name: str
    place: int
    steps: list[int]
    after: list[int]
    quorum: int | None = None
    removal: Removal | None = None


def jobs(plan: Plan) -> list[Job]:
    """Jobs of a run, in an order in which every job follows its dependencies."""
    found: list[Job] = []
    makers: dict[str, int] = {}  # By output, the number of the job.
    enough = _quorums(plan)
    rounds: set[tuple[str, int]] = set()
    for number, step in enumerate(plan.steps):
        after = {makers[path] for path in step.after if path in makers}
        if not found or not _fits(plan, found[-1], step, len(found) - 1 in after):
            if step.round:
                rounds.add((step.phase, step.round))
            name = _name(step, found[-1].name if found else "")
            found.append(Job(name, len(rounds), [], [], enough.get(step.outputs[0])))
        job = found[-1]
        job.steps.append(number)
        job.after.extend(sorted(after.difference(job.after)))
        makers.update(dict.fromkeys(step.outputs, len(found) - 1))
    return [*found, *_removing(plan, found, makers)]


def _fits(plan: Plan, job: Job, step: Step, needs: bool) -> bool:
    """Return whether a step can run in parallel with the steps of a job."""
    first = plan.steps[job.steps[0]]  # A step begins with stage, phase and round.
    return first[:3] == step[:3] and not needs and len(job.steps) < LONGEST


def _name(step: Step, before: str) -> str:
    """Name a job train-r001, and a second job of this stage and round train-r001-2."""
    name = step.stage if step.round is None else f"{step.stage}-r{step.round:03d}"
    if before != name and not before.startswith(f"{name}-"):
        return name
    return f"{name}-{int(before[len(name) + 1 :] or 1) + 1}"


def _quorums(plan: Plan) -> dict[str, int]:
    """By upload, the number of clients that aggregate requires (--at-least)."""
    usual = (presets.table(plan.run.preset, "aggregate") or {}).get("at-least")
    found: dict[str, int] = {}
    for step in (s for s in plan.steps if s.command[0] == "aggregate"):
        words = [part for word in step.command for part in word.split("=", 1)]
        typed = next((b for a, b in pairwise(words) if a == "--at-least"), None)
        if least := typed or usual:
            found |= dict.fromkeys(step.reads, int(least))
    makers = (step for step in plan.steps if step.clients)
    return {p: found[p] for step in makers for p in step.outputs if p in found}


def _removing(plan: Plan, found: list[Job], makers: dict[str, int]) -> Iterator[Job]:
    """Yield jobs that remove files of finished rounds, with keep = "last"."""
    for removal in removals(plan):
        after = sorted({makers[path] for path in removal.after})
        stamp = removal.stamp.rpartition("/")[2].removesuffix(".removed")
        name, place = f"remove-files-{stamp}", found[after[-1]].place
        yield Job(name, place, [], after, None, removal)


def log_path(plan: Plan, job: Job, element: int) -> str:
    """File for the messages of a step."""
    return noted_in(plan.run, f"log/{job.name}-{element}.txt")


def unfinished(plan: Plan, found: list[Job]) -> list[list[int]]:
    """Unfinished elements of each job."""
    finished = Finished(plan)
    finished.save()
    left = [
        [k for k, number in enumerate(job.steps) if finished.states[number] != DONE]
        for job in found
    ]
    steps = zip(plan.steps, finished.states, strict=True)
    made = {path for step, state in steps if state != DONE for path in step.writes}
    for number, job in enumerate(found):
        gone = job.removal
        if gone and not (exists(gone.stamp) and made.isdisjoint(gone.files)):
            left[number] = [0]
    return left
