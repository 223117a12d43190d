"""A stand-in for Slurm: sbatch keeps jobs in a folder, and `Queue.drain` runs them.

Tasks run one after the other. Dependencies, failures, requeues, cancelled tasks and jobs
that submit jobs are treated as Slurm treats them.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

# $QUEUE has for each job its script and its options.
PROGRAMS = {
    "sbatch": r"""#!/bin/sh
id=$(($(cat "$QUEUE/last") + 1))
echo "$id" > "$QUEUE/last"
cat > "$QUEUE/$id.sh"
export -p > "$QUEUE/$id.environment"
printf '%s\n' "$@" > "$QUEUE/$id.options"
echo "$id"
""",
    "squeue": r"""#!/bin/sh
cat "$QUEUE/queued"
""",
    "scontrol": r"""#!/bin/sh
test "$1" = requeue && echo "$2" >> "$QUEUE/requeued"
""",
    "scancel": r"""#!/bin/sh
echo "$1" >> "$QUEUE/cancelled"
""",
}


class Task(NamedTuple):
    """A task that has ended: its state is COMPLETED, FAILED, or CANCELLED."""

    name: str
    element: int
    state: str


class Queue:
    """The jobs that were submitted, and the tasks that have ended."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        for name, text in PROGRAMS.items():
            program = folder / "bin" / name
            program.write_text(text)
            program.chmod(0o755)
        for name, text in {"last": "0\n", "queued": "", "requeued": ""}.items():
            (folder / name).write_text(text)
        (folder / "cancelled").write_text("")
        path = f"{folder / 'bin'}:{environment['PATH']}"
        self.environment = {**environment, "PATH": path, "QUEUE": str(folder)}
        self.states: dict[int, list[str]] = {}  # By job, the states of its tasks.
        self.ended: list[Task] = []

    def submit(self, script: str = "run", *words: str) -> subprocess.CompletedProcess:
        """Run a script that submits jobs."""
        return subprocess.run(
            ["sh", script, *words], env=self.environment, capture_output=True, text=True
        )

    def options(self, job: int) -> dict[str, str]:
        """The options of a job, without dashes."""
        lines = (self.folder / f"{job}.options").read_text().splitlines()
        return {
            name.removeprefix("--"): value
            for name, _, value in (line.partition("=") for line in lines)
        }

    def names(self) -> list[str]:
        """The names of all jobs, in the order in which they were submitted."""
        return [self.options(job)["job-name"] for job in self._jobs()]

    def _jobs(self) -> list[int]:
        """The jobs that may start: held jobs only use numbers up."""
        numbers = range(1, int((self.folder / "last").read_text()) + 1)
        return [job for job in numbers if "hold" not in self.options(job)]

    def drain(self) -> list[Task]:
        """Run all jobs, and those that they submit; return the tasks that have ended."""
        before = len(self.ended)
        while waiting := [job for job in self._jobs() if job not in self.states]:
            self.states[waiting[0]] = self._run(waiting[0])
        return self.ended[before:]

    def _run(self, job: int) -> list[str]:
        options = self.options(job)
        name = options["job-name"]
        ready = self._is_ready(options.get("dependency", ""))
        assert ready or options["kill-on-invalid-dep"] == "yes"
        states = []
        for word in options["array"].partition("%")[0].split(","):
            cancelled = not ready or str(job) in self._lines("cancelled")
            state = "CANCELLED" if cancelled else self._task(job, int(word), options)
            states.append(state)
            self.ended.append(Task(name, int(word), state))
        return states

    def _is_ready(self, dependency: str) -> bool:
        """Whether a job may run: all jobs before it have ended."""
        for when, job in re.findall(r"(after\w+):(\d+)", dependency):
            ended = self.states[int(job)]
            if when == "afterok" and {*ended} != {"COMPLETED"}:
                return False
        return True

    def _lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().splitlines()

    def _task(self, job: int, element: int, options: dict[str, str]) -> str:
        log = Path(options["output"].replace("%a", str(element)).replace("%%", "%"))
        restarts = 0
        while True:
            code = self._once(job, element, log, restarts)
            again = self._lines("requeued").count(f"{job}_{element}")
            if again == restarts:
                return "FAILED" if code else "COMPLETED"
            restarts = again

    def _once(self, job: int, element: int, log: Path, restarts: int) -> int:
        mine = {"JOB_ID": job, "ARRAY_JOB_ID": job, "ARRAY_TASK_ID": element}
        mine["RESTART_COUNT"] = restarts
        exports = " ".join(f"SLURM_{name}={value}" for name, value in mine.items())
        # sbatch keeps the environment in which it was called.
        start = f'. "$0"; export {exports}; exec sh "$1"'
        files = [str(self.folder / f"{job}.{name}") for name in ("environment", "sh")]
        with open(log, "ab") as stream:
            return subprocess.run(
                ["sh", "-c", start, *files], stdout=stream, stderr=stream
            ).returncode


def executable(path: Path, words: list[str]) -> str:
    """A program that starts other words with all arguments."""
    quoted = " ".join(f"'{word}'" for word in words)
    path.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
    path.chmod(0o755)
    return os.fspath(path)
