"""Fixtures that run make on the examples, or plan what it would run."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from furlkit.cli.program import furlkit


@pytest.fixture(scope="session")
def make_in(environment) -> Callable[..., subprocess.CompletedProcess]:
    """Call make in a folder: make_in(folder, makefile, "-n", "clean", ROUNDS=2)."""

    def call(folder: Path, makefile: Path, *words: str, **variables: Any):
        settings = [f"{key}={value}" for key, value in variables.items()]
        program = f"FURLKIT={sys.executable} -m furlkit"
        command = ["make", "-f", str(makefile), program, *words, *settings]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env=environment
        )

    return call


@pytest.fixture(scope="session")
def planned(make_in) -> Callable[..., list[list[str]]]:
    """The stages that make would run, each as words that the program understands.

    An unknown name, value or preset raises an error here.
    """

    def plan(folder: Path, makefile: Path, *words: str, **variables: Any):
        done = make_in(folder, makefile, "-n", *words, **variables)
        assert done.returncode == 0, done.stderr
        program = f"{sys.executable} -m furlkit"
        lines = done.stdout.replace("\\\n", " ").splitlines()
        stages = (line.partition(program)[2] for line in lines if program in line)
        found = [shlex.split(stage.partition("|")[0]) for stage in stages]
        for stage in found:
            _understand(stage)
        return found

    return plan


def _understand(words: list[str]) -> None:
    node: Any = furlkit
    context = click.Context(node, info_name="furlkit")
    while isinstance(node, click.Group):
        name, *words = words
        node = node.get_command(context, name)
        if isinstance(node, click.Group):
            context = click.Context(node, parent=context, info_name=name)
    node.make_context(name, list(words), parent=context)
