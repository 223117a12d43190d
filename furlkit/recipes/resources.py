"""[resources]: partition, time, memory, GPUs, ... of cluster jobs.

The table is in a recipe, or in a file of a site (--resources), which wins. A table
[resources.NAME] changes values for a part of the steps: `train` for trainings,
`aggregate` and `evaluate` for these commands, or the name of a stage.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.opening import read_toml
from furlkit.recipes.expand import Step
from furlkit.recipes.read import Recipe, suggestion

KINDS = ("train", "aggregate", "evaluate")
# A recipe may come from a stranger, and the shell runs these values unchanged.
SITE_ONLY = ("setup", "launch", "options")
# Values common to every job.
COMMON = ("setup", "launch", "restarts", "wait_for_files")
FORMS = {
    "time": (re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)"), "HH:MM:SS or D-HH:MM:SS"),
    "memory": (re.compile(r"(\d+)([MG])"), "a number with M or G, like 8G"),
    "stragglers": (re.compile("ignore|cancel"), "ignore or cancel"),
}


@dataclass(frozen=True)
class Resources:
    """Resources of one kind of step; the engine chooses empty values.

    `gres` is Slurm's word for GPUs, in place of `gpus`. `at_once` limits the parallel
    tasks of an array, `restarts` the number of times a task resumes. A task receives a
    signal `notice` seconds before the time limit. `setup` lines run before each command;
    `launch` starts the command.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    time: str = ""
    memory: str = ""
    cpus: int = 1
    gpus: float = 0
    gres: str = ""
    at_once: int = 0
    restarts: int = 10
    notice: int = 120
    wait_for_files: int = 60
    stragglers: str = "ignore"
    setup: tuple[str, ...] = ()
    launch: str = ""
    options: tuple[str, ...] = ()

    @property
    def seconds(self) -> int | None:
        """Time limit in seconds."""
        if not self.time:
            return None
        days, *clock = FORMS["time"][0].fullmatch(self.time).groups(default="0")  # type: ignore[union-attr]
        hours, minutes, seconds = map(int, clock)
        return ((24 * int(days) + hours) * 60 + minutes) * 60 + seconds

    @property
    def megabytes(self) -> int | None:
        """Memory in MB."""
        if not self.memory:
            return None
        return int(self.memory[:-1]) * (1024 if self.memory[-1] == "G" else 1)


class Site:
    """Resources of every step of a recipe's runs."""

    def __init__(self, recipe: Recipe, path: Path | None = None):
        known = {*KINDS, *recipe.stages}
        tables = [_Tables(f"{recipe.path}", recipe.resources, known, SITE_ONLY)]
        if path is not None:
            file = read_toml(path)
            for name in file.keys() - {"resources"}:
                raise InputError(f"{path}: [{name}]: expected [resources] only")
            tables.append(_Tables(f"{path}", file.get("resources", {}), known, ()))
        self._tables = tables

    def name_of(self, step: Step) -> str:
        """Name of the table with the resources of a step."""
        if any(step.stage in tables.parts for tables in self._tables):
            return step.stage
        return _kind(step)

    def of(self, step: Step | None = None) -> Resources:
        """Resources of a step; without a step, the values of [resources]."""
        names = [] if step is None else [_kind(step), step.stage]
        values: dict[str, Any] = {}
        for name in [None, *names]:
            for tables in self._tables:
                values |= tables.common if name is None else tables.parts.get(name, {})
        return Resources(**values)


def _kind(step: Step) -> str:
    if step.trains:
        return "train"
    return step.command[0] if step.command[0] in KINDS else "-"


class _Tables:
    """Values of one file: `common` for every step, `parts` by kind of step or stage."""

    def __init__(
        self, path: str, table: Any, known: Iterable[str], refused: Iterable[str]
    ):
        self._path, self._refused = path, refused
        self.common: dict[str, Any] = {}
        self.parts: dict[str, dict[str, Any]] = {}
        if not isinstance(table, dict):
            raise InputError(f"{path}: resources is {table!r}, expected a table")
        for name, value in table.items():
            if not isinstance(value, dict):
                self.common[name] = self._checked("resources", name, value)
                continue
            if name not in known:
                hint = suggestion(name, known)
                raise InputError(
                    f"{path}: [resources.{name}]: expected train, aggregate, evaluate "
                    f"or a stage of the recipe{hint}"
                )
            where = f"resources.{name}"
            self.parts[name] = {k: self._checked(where, k, v) for k, v in value.items()}

    def _checked(self, table: str, key: str, value: Any) -> Any:
        where = f"{self._path}: [{table}] {key}"
        usual = {field.name: field.default for field in fields(Resources)}
        if key not in usual:
            raise InputError(f"{where}: is no resource{suggestion(key, usual)}")
        if key in COMMON and table != "resources":
            raise InputError(f"{where}: every job shares {key}; set it in [resources]")
        if key in self._refused:
            raise InputError(
                f"{where}: a recipe may run furlkit only; put the line into a file of "
                "your site and give --resources FILE"
            )
        return _typed(where, key, value, usual[key])


def _typed(where: str, key: str, value: Any, usual: Any) -> Any:
    """Return the value; raise InputError unless it has the type of the default."""
    if isinstance(usual, tuple):
        lines = [value] if isinstance(value, str) else value
        if not isinstance(lines, list) or not all(isinstance(x, str) for x in lines):
            raise InputError(f"{where} is {value!r}, expected a list of texts")
        return tuple(lines)
    if isinstance(usual, int | float):
        if type(value) not in ((int, float) if key == "gpus" else (int,)):
            raise InputError(f"{where} is {value!r}, expected a number")
        if not 0 <= value < 10**9:
            raise InputError(f"{where} is {value!r}, expected 0 or more")
        return value
    form, expected = FORMS.get(key, (re.compile(r"[^\x00-\x1f\x7f]*"), "one line"))
    if not isinstance(value, str) or not form.fullmatch(value):
        raise InputError(f"{where} is {value!r}, expected {expected}")
    return value
