"""Fixtures and helpers that plan the recipes of examples, or record what scripts call."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import pytest

from furlkit.cli.program import furlkit as program
from furlkit.cli.shared import check_words

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

# Writes down its words; an empty makefile stands for the rules of a plan.
RECORDER = """#!/bin/sh
printf '%s\\037' "$@" >> commands
echo >> commands
while test $# -gt 1; do
    case "$1 $2" in "-o "*.mk) mkdir -p "$(dirname "$2")"; echo all: > "$2" ;; esac
    shift
done
"""


@pytest.fixture
def recorded(tmp_path, monkeypatch, environment) -> Callable[[str], list[list[str]]]:
    """The commands of furlkit that a shell script calls, itself or through make.

    Scripts in Python are not run: what they would read is not there.
    """
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(EXAMPLES)
    Path("bin").mkdir()
    furlkit = tmp_path / "bin" / "furlkit"
    furlkit.write_text(RECORDER)
    furlkit.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(shutil.which("true") or "true")
    path = f"{furlkit.parent}:{environment['PATH']}"
    ours = {**environment, "PATH": path, "FURLKIT": str(furlkit)}

    def call(script: str) -> list[list[str]]:
        Path("commands").write_text("")
        command = ["sh", "-euc", script]
        done = subprocess.run(command, env=ours, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "jobserver" not in done.stderr, "-j of make does not reach a run's steps"
        lines = Path("commands").read_text().splitlines()
        return [line.split("\037")[:-1] for line in lines]

    return call


@pytest.fixture
def plan(run) -> Callable[..., list[dict]]:
    """The steps of a plan by its words, in a run's order."""

    def call(*words: Any) -> list[dict]:
        done = run("plan", *words, "--as", "json", "--dry-run")
        assert done.code == 0, done.err
        return [step for one in json.loads(done.out) for step in one["steps"]]

    return call


@pytest.fixture
def carry_out(plan, run) -> Callable[[list[list[str]]], list[str]]:
    """Run recorded commands: the steps of a plan in place of make; gives the tables."""

    def call(commands: list[list[str]]) -> list[str]:
        made: set[str] = set()
        tables = []
        for command in commands:
            if command[0] != "plan":
                done = run(*command)
                assert done.code == 0, done.err
                tables += [done.out] if command[0] == "compare" else []
                continue
            for step in plan(*without_output(command)):
                if step["outputs"][0] not in made:
                    done = run(*step["command"], "-q")
                    assert done.code == 0, done.err
                    made.update(step["outputs"])
        return tables

    return call


@pytest.fixture
def carry_out_tables(run, tmp_path, monkeypatch) -> Callable[..., dict[str, list[str]]]:
    """Run every step of planned tables; gives the lines of each comparison by name."""

    def call(*words: Any) -> dict[str, list[str]]:
        monkeypatch.chdir(tmp_path)
        assert run("plan", *words, "-o", "run.mk").code == 0
        plans = json.loads(run("plan", *words, "--as", "json", "--dry-run").out)
        lines: dict[str, list[str]] = {}
        for step in (step for one in plans for step in one["steps"]):
            comparison = step["command"][0] == "compare"
            done = run(*step["command"], *([] if comparison else ["-q"]))
            assert done.code == 0, done.err
            if comparison:
                lines[PurePath(step["outputs"][0]).stem] = done.out.splitlines()
        return lines

    return call


@pytest.fixture
def check_all(plan) -> Callable[[list[list[str]]], None]:
    """Check recorded commands: plans are planned, what others read must be planned.

    All rounds and seeds have the same commands, so a few of them are enough.
    """

    def call(commands: list[list[str]]) -> None:
        files: set[PurePath] = set()
        for command in commands:
            if command[0] == "plan":
                steps = plan(*_shortened(without_output(command)))
                files |= {PurePath(path) for step in steps for path in step["writes"]}
            elif command[0] in ("compare", "plot", "status"):
                check_planned(command, files)
            else:
                check_words(program, command)

    return call


def _shortened(words: list[str]) -> list[str]:
    """One round, and one seed; two where the list of seeds decides about the folders."""
    count = 1 if any("{seed}" in word for word in words) else 2
    tables = [word for word in words if word.startswith("table=")]
    if tables and not any(word.startswith("seed=") for word in words):
        words = [*words, "seed=0"]
    return [
        ",".join(word.split(",")[:count]) if word.startswith("seed=") else word
        for word in words if not word.startswith("rounds=")
    ] + ["rounds=1"]  # fmt: skip


def check_planned(command: list[str], files: set[PurePath]) -> None:
    """What compare, plot and status read must be what the plans before them make."""
    labels = [text.partition("=")[0] for text in values(command, "--series")]
    for text in values(command, "--published") + values(command, "--lowest"):
        assert text.partition("=")[0] in labels
    named = values(command, "--series") + values(command, "--panel")
    patterns = [p for text in named for p in text.partition("=")[2].split(",")]
    patterns += [b for a, b in pairwise(command) if "/" in b and a[0] != "-"]
    assert patterns
    scores = (
        ("angles.json",) if "angles" in command else ("linear.json", "cluster.json")
    )
    for pattern in patterns:
        found = {path for path in files if path.match(pattern)}
        below = {
            path for path in files
            if path.name in scores and any(p.match(pattern) for p in path.parents)
        }  # fmt: skip
        assert found or below, pattern


def without_output(command: list[str]) -> list[str]:
    """The words of a plan, with neither its name nor its file."""
    at = command.index("-o")
    return command[1:at] + command[at + 2 :]


def blocks(page: Path) -> list[str]:
    """The shell commands of a page, by block."""
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S)


def values(command: list[str], option: str) -> list[str]:
    """What follows an option, each time it is there."""
    return [b for a, b in pairwise(command) if a == option]


def shown(steps: list[dict]) -> list[list[str]]:
    """Commands that compare or draw runs."""
    commands = (step["command"] for step in steps)
    return [words for words in commands if words[0] in ("compare", "plot")]


def labels(command: list[str]) -> list[str]:
    """Labels of the series of a command."""
    return [text.partition("=")[0] for text in values(command, "--series")]


def of(steps: list[dict], stage: str) -> list[dict]:
    """The steps of a stage."""
    return [step for step in steps if step["stage"] == stage]
