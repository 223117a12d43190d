"""keep = "last": remove files of clients after the last step that reads the files."""

from collections.abc import Iterable
from typing import NamedTuple

from furlkit.recipes.expand import Plan, Step, noted_in


class Removal(NamedTuple):
    """Files to remove once the outputs `after` exist; `stamp` marks the removal.

    The outputs are in the order of the plan.
    """

    files: list[str]
    after: list[str]
    stamp: str


def removals(plan: Plan) -> list[Removal]:
    """Removals of a run with keep = "last", one per round.

    Only a client's files with a reader are removed: uploads, and private files passed
    from round to round. Files of the client's last round of a phase stay.
    """
    if plan.run.settings["keep"] != "last":
        return []
    last: dict[tuple[str, int], int] = {}
    for step in plan.steps:
        own = ((step.phase, client) for client in step.clients)
        last.update((c, max(step.round or 0, last.get(c, 0))) for c in own)
    readers = _readers(plan.steps)
    order = {step.outputs[-1]: number for number, step in enumerate(plan.steps)}
    found: dict[tuple[str, int], tuple[list[str], set[str]]] = {}
    for step in plan.steps:
        if step.round is None or len(step.clients) == 0:
            continue
        if any(step.round == last[step.phase, client] for client in step.clients):
            continue
        # make re-creates outputs, and with an output the step's other files.
        if not all(path in readers for path in step.outputs):
            continue
        gone = [path for path in step.writes if path in readers]
        files, after = found.setdefault((step.phase, step.round), ([], set()))
        files += gone
        after.update(out for path in gone for out in readers[path])
    return [
        Removal(files, sorted(after, key=order.__getitem__), _stamp(plan, *number))
        for number, (files, after) in sorted(found.items())
        if files
    ]


def _stamp(plan: Plan, phase: str, number: int) -> str:
    return noted_in(plan.run, f"{phase}{'_' * bool(phase)}r{number:03d}.removed")


def _readers(steps: Iterable[Step]) -> dict[str, list[str]]:
    """By file, the outputs of the steps that read the file, in the order of the plan."""
    found: dict[str, list[str]] = {}
    for step in steps:
        for path in step.reads:
            found.setdefault(path, []).append(step.outputs[-1])
    return found
