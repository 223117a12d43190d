"""Finished steps of a plan: the single definition for make, sh and status.

A file is finished if the file's last receipt names the planned command with the contents
of the present inputs, the present code of plugins, and the contents of the present outputs
(see `files.receipts`).
For a file without a receipt, from an earlier version, the time decides.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import starmap
from os.path import normpath
from pathlib import Path
from time import time_ns

from furlkit import presets
from furlkit.catalogue import COMMANDS, changed_package, writes_file
from furlkit.files import receipts
from furlkit.files.contents import Contents
from furlkit.files.receipts import Call
from furlkit.recipes.expand import Plan, Step, expand, noted_in
from furlkit.recipes.read import Run
from furlkit.recipes.removal import removals
from furlkit.recipes.template import templates

DONE, STALE, MISSING = "done", "stale", "missing"
EARLIER = 10**9  # Nanoseconds: some shells compare times in seconds.


class Finished:
    """States of the steps of a plan; `left`: by step, the number of missing files.

    `changed`: by package of plugins with changed code, the number of files made before.
    """

    def __init__(self, plan: Plan):
        self._plan, self._run = plan, plan.run
        self._inside = noted_in(plan.run, "").removesuffix("plan/")
        self._folder = "" if (out := str(Path(plan.run.out))) == "." else out
        self._receipts = receipts.read(self._folder)
        self._contents = Contents(Path(self._folder) / receipts.CACHE)
        self._removals = [r for r in removals(plan) if os.path.exists(r.stamp)]
        self._gone = {path for each in self._removals for path in each.files}
        self._noted: dict[str, str | None] = {}  # Contents of removed files.
        self._times: dict[str, int | None] = {}
        self._remade: set[str] = set()
        self._absent: set[str] = set()
        commands = {*map(command_name, plan.steps)}
        self._preset = {name: self._presets(name) for name in commands}
        self._finished: list[list[bool]] = []  # By step and output.
        self.errors: dict[int, str] = {}  # By number of the step, the last error.
        self.reasons: dict[int, str] = {}  # By number of a step that is not finished.
        self.changed: Counter[str] = Counter()
        self._changed_package = cache(changed_package)
        self.states = [self._state(step) for step in plan.steps]
        self._need_again()
        self.left = [
            0 if state == DONE else len(found) - sum(found)
            for state, found in zip(self.states, self._finished, strict=True)
        ]

    # --- contents -------------------------------------------------------------------------

    def _presets(self, command: str) -> receipts.Content:
        """Return a function from presets to tables; a missing file gets the planned table."""
        planned = presets.as_text(presets.table(self._run.preset, command))

        @cache
        def text(name: str) -> str | None:
            found = presets.table_text(name, command)
            known = found is not None or name != self._run.settings["preset"]
            return found if known else planned

        return text

    def _content(self, path: str) -> str | None:
        found = self._contents.of(path)
        return self._noted.get(path) if found is None else found

    def _judged(self, step: Step) -> Iterator[bool | None]:
        """Return for each output whether the output is finished; None without a receipt."""
        for call in calls(step):
            path = normpath(call.output.removeprefix(self._inside))
            receipt = self._receipts.get(path)
            if receipt is None:
                yield None
                continue
            noted = receipt.contents or []
            gone = zip(call.writes, noted, strict=False)
            self._noted.update((p, c) for p, c in gone if p in self._gone)
            preset = self._preset[command_name(step)]
            now = call.fingerprint(self._folder, self._content, preset)
            same = now == receipt.command
            number = len(self._finished)
            if same and receipt.error is not None:
                self.errors[number] = str(receipt.error)
            old_code = {*starmap(self._changed_package, receipt.code.items())} - {None}
            self.changed.update(filter(None, old_code))
            contents = [*map(self._content, call.writes)]
            fits = same and noted == contents and not old_code
            if fits or number in self.reasons:
                yield fits
                continue
            if not same:
                words = call.shortened(self._folder, self._content, preset)
                self.reasons[number] = call.change(receipt.words, words)
            elif old_code:
                names = ", ".join(sorted(map(str, old_code)))
                self.reasons[number] = f"the code of {names} has changed"
            else:
                self.reasons[number] = _other_content(call.writes, contents, noted)
            yield False

    # --- states ---------------------------------------------------------------------------

    def _time(self, path: str) -> int | None:
        """Modification time in nanoseconds; None for a missing file."""
        if path not in self._times:
            try:
                self._times[path] = os.stat(path).st_mtime_ns
            except OSError:
                self._times[path] = None
        return self._times[path]

    def _state(self, step: Step) -> str:
        """State of a step, given the states of the earlier steps."""
        before = [self._time(path) for path in step.after]
        made = [self._time(path) for path in step.outputs]
        if None in made and self._gone.issuperset(step.outputs):
            # Removed on purpose. Readers of the files are as old as the inputs.
            made = [_newest(before)] * len(made)
            self._absent.update(step.outputs)
            self._times.update(zip(step.outputs, made, strict=True))
        judged = list(self._judged(step))
        if remade := [path for path in step.after if path in self._remade]:
            judged = [False] * len(judged)
            self.reasons[len(self._finished)] = f"{remade[0]} is stale or missing"
        found = [
            time is not None and (_in_order(before, time) if known is None else known)
            for time, known in zip(made, judged, strict=True)
        ]
        self._finished.append(found)
        if all(found):
            return DONE
        self._remade.update(step.outputs)
        return MISSING if None in made else STALE

    def _need_again(self) -> None:
        """Mark removed files stale if a step that reads them must run."""
        needed: set[str] = set()
        for number in reversed(range(len(self.states))):
            step = self._plan.steps[number]
            if not needed.isdisjoint(step.outputs):
                self.states[number] = STALE
                self._finished[number] = [False] * len(step.outputs)
            if self.states[number] != DONE:
                needed.update(self._absent.intersection(step.after))

    # --- times that make and sh act upon --------------------------------------------------

    def settle(self) -> None:
        """Set times so that make and `test -nt` select exactly the unfinished steps.

        A finished output gets the time of the newest input; an unfinished output is older.
        """
        self._leave_future()
        for step, found in zip(self._plan.steps, self._finished, strict=True):
            before = [self._time(path) for path in step.after]
            there = [self._time(p) for p in step.after if p not in self._absent]
            oldest = min((time for time in there if time is not None), default=0)
            for path, finished in zip(step.outputs, found, strict=True):
                self._settle(path, finished, oldest, _newest(before))
        for removal in self._removals:
            newest = _newest(self._time(path) for path in removal.after)
            if (self._time(removal.stamp) or 0) < newest:
                self._contents.set_time(removal.stamp, newest)

    def save(self) -> None:
        """Save the contents of the run's files, and of images for later commands."""
        for step in self._plan.samples:
            for path in step.after:
                self._contents.of(path)
        self._contents.save()

    def _leave_future(self) -> None:
        """Reset times in the future, since a new output must not look older than inputs."""
        now = time_ns()
        for path, time in list(self._times.items()):
            if time is not None and time > now and path.startswith(self._inside):
                self._set_time(path, now)

    def _settle(self, path: str, finished: bool, oldest: int, newest: int) -> None:
        time = self._time(path)
        if path in self._absent or time is None:
            self._times[path] = newest if finished else time
        elif finished and time < newest:
            self._set_time(path, newest)
        elif not finished and time > oldest - EARLIER:
            self._set_time(path, oldest - EARLIER)

    def _set_time(self, path: str, time: int) -> None:
        self._contents.set_time(path, time)
        self._times[path] = time


def _other_content(
    paths: Iterable[str], contents: Iterable[str | None], noted: Sequence[str | None]
) -> str:
    """Describe the first written file with another content than in the receipt."""
    if not noted:
        return "the command began and has not ended"
    for path, now, before in zip(paths, contents, noted, strict=False):
        if now != before:
            return (
                f"{path}: content is {now or 'missing':.12}, the receipt says "
                f"{before or 'missing':.12}"
            )
    return "the command writes other files"


def changed_code(plan: Plan) -> Mapping[str, int]:
    """By package of plugins with changed code, the number of files made before."""
    noted = receipts.read(str(Path(plan.run.out))).values()
    return Finished(plan).changed if any(r.code for r in noted) else {}


def settle_times(run: Run, group: int) -> None:
    """Set the times of a run's files, since make and sh decide by times."""
    folder = Path(run.out)
    if (folder / receipts.MADE).exists():
        finished = Finished(expand(run, group))
        finished.settle()
        finished.save()
        return
    # The run has no outputs yet. Commands will look for images in the cache.
    contents = Contents(folder / receipts.CACHE)
    for path in {p for t in templates(run).values() for p in t.sources}:
        contents.of(path)
    contents.save()


def _in_order(before: Collection[int | None], time: int) -> bool:
    """Return whether every input of a file exists and no input is newer."""
    return None not in before and time >= _newest(before)


def _newest(times: Iterable[int | None]) -> int:
    return max((time for time in times if time is not None), default=0)


def command_name(step: Step) -> str:
    """Name of a step's command, one or two words."""
    two = " ".join(step.command[:2])
    return two if two in COMMANDS else step.command[0]


@cache
def _writing(command: str) -> frozenset[str]:
    options = COMMANDS[command].options.values()
    return frozenset(f"--{option.name}" for option in options if writes_file(option))


def calls(step: Step) -> Iterator[Call]:
    """Calls of a step, one for each output."""
    writing = _writing(command_name(step))
    many = len(step.outputs) > 1
    for client in step.clients if many else (None,):
        yield receipts.call_of(step.command, client, writing)
