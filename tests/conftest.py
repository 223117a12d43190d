"""A tiny world for all tests, and ways to call the program."""

import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from furlkit import runtime

os.environ.setdefault("OMP_NUM_THREADS", "1")
runtime.set_isa("auto")  # Before any test imports torch; their processes inherit it.
ROOT = Path(__file__).resolve().parent.parent
MAKES_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")


class Outcome(NamedTuple):
    """What a call of the program came to."""

    code: int
    out: str
    err: str


def _call(*arguments: Any) -> int:
    from furlkit import console
    from furlkit.cli.program import _outcome

    console.settings.verbosity, console.settings.json = 0, False
    return _outcome([str(argument) for argument in arguments])


@pytest.fixture
def run(capsys) -> Callable[..., Outcome]:
    """Call the program in this process: run("inspect", path)."""

    def call(*arguments: Any) -> Outcome:
        capsys.readouterr()
        code = _call(*arguments)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """What a process needs to find this furlkit, and to keep to one core.

    `make test` leaves its own flags and level behind, which a test's make must not see.
    """
    ours = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    theirs = {k: v for k, v in os.environ.items() if k not in MAKES_OWN}
    return {**theirs, **ours}


@pytest.fixture
def program(environment) -> Callable[..., subprocess.CompletedProcess]:
    """Call the program as a process of its own."""

    def call(*arguments: Any, **how: Any) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "furlkit", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, **how
        )

    return call


@pytest.fixture
def python(environment) -> Callable[..., str]:
    """Run lines of Python in a process of its own; gives what they print."""

    def call(code: str, *arguments: Any, **how: Any) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True, text=True, env=environment, **how,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@dataclass(frozen=True)
class World:
    """A partition of digits, a global model of round 0, three clients of round 1."""

    folder: Path
    partition: Path
    model: Path
    clients: tuple[Path, ...]
    output: Path

    def copied_to(self, folder: Path) -> "World":
        """The same files elsewhere, and an older output that must survive failures."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        output = folder / "output.safetensors"
        output.write_bytes(b"what an earlier command wrote")
        return World(
            folder, folder / self.partition.name, folder / self.model.name,
            tuple(folder / client.name for client in self.clients), output,
        )  # fmt: skip


@pytest.fixture(scope="session")
def _world(tmp_path_factory) -> World:
    folder = tmp_path_factory.mktemp("world")
    partition, model = folder / "partition.safetensors", folder / "global.safetensors"
    clients = tuple(folder / f"client_{k}.safetensors" for k in range(3))
    commands = (
        ("partition", "--data", "digits", "--clients", 3, "-o", partition),
        ("init", "--data", "digits", "--width", 0.02, "--projector", "8,4",
         "-o", model),
        ("local-train", partition, model, "--data", "digits", "--client", "0-2",
         "--epochs", 1, "--batch-size", 240, "-o", folder / "client_{client}.safetensors"),
    )  # fmt: skip
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        codes = [_call(*command) for command in commands]
    assert codes == [0, 0, 0], said.getvalue()
    return World(folder, partition, model, clients, folder / "output.safetensors")


@pytest.fixture
def world(_world, tmp_path) -> World:
    """The tiny world in a folder that the test may change."""
    return _world.copied_to(tmp_path / "world")


class Killed(BaseException):
    """Ends a stage in this process as a kill would: nothing is tidied up."""


@pytest.fixture
def until_done(monkeypatch) -> Callable[..., int]:
    """Call the program until it is done, while it dies at a call of `where.name`.

    It dies at the first such call, then at the second, and so on; gives how often.
    """

    def call(where: Any, name: str, *arguments: Any) -> int:
        original = getattr(where, name)
        for moment in itertools.count():
            calls = itertools.count()

            def dying(*given: Any, calls=calls, moment=moment, **more: Any) -> Any:
                if next(calls) == moment:
                    raise Killed
                return original(*given, **more)

            with monkeypatch.context() as patch:
                patch.setattr(where, name, dying)
                try:
                    assert _call(*arguments) == 0
                except Killed:
                    continue
                return moment
        raise AssertionError

    return call


@pytest.fixture(scope="session")
def snapshot() -> Callable[[Path], dict[str, Any]]:
    """Names, bytes, modes and times of all files under a folder."""

    def take(folder: Path) -> dict[str, Any]:
        found = {}
        for path in sorted(folder.rglob("*")):
            stat = path.lstat()
            content = None
            if path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            times = stat.st_mtime_ns if path.is_file() else None
            found[str(path.relative_to(folder))] = stat.st_mode, times, content
        return found

    return take


@pytest.fixture
def refused(run, snapshot) -> Callable[..., str]:
    """Assert exit code and words of the message, and that no file changed."""

    def check(folder: Path, code: int, words: tuple, *arguments: Any) -> str:
        before = snapshot(folder)
        outcome = run(*arguments)
        assert outcome.code == code, outcome
        for word in map(str, words):
            assert word in outcome.err
        assert "Traceback" not in outcome.err
        assert outcome.out == ""
        assert snapshot(folder) == before
        return outcome.err

    return check


@pytest.fixture(scope="session")
def forge() -> Callable[..., Path]:
    """Rewrite a file with other tensors, facts or header words, and a fitting hash."""

    def change(
        path: Path,
        tensors: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
        **words: Any,
    ) -> Path:
        from furlkit.files.container import read as container

        opened = container.Container(path)
        header = opened.header.unsealed()
        header = replace(header, facts={**header.facts, **(facts or {})})
        everything = {**opened.tensors(), **(tensors or {})}
        everything = {k: v for k, v in everything.items() if v is not None}
        container.write(path, everything, replace(header, **words))
        return path

    return change


@pytest.fixture(scope="session")
def make_in(environment) -> Callable[..., subprocess.CompletedProcess]:
    """Call make in a folder: make_in(folder, makefile, "-n", "ROUNDS=2")."""

    def call(folder: Path, makefile: Path, *words: str) -> subprocess.CompletedProcess:
        program = f"FURLKIT={sys.executable} -m furlkit"
        command = ["make", "-f", str(makefile), program, *words]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env=environment
        )

    return call


@pytest.fixture(scope="session")
def planned(make_in) -> Callable[..., list[list[str]]]:
    """The stages that make would run, each as words that the program understands.

    A name, a value or a preset that it does not know is raised here.
    """

    def plan(folder: Path, makefile: Path, *words: str) -> list[list[str]]:
        done = make_in(folder, makefile, "-n", *words)
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
    from furlkit.cli.program import furlkit

    node: Any = furlkit
    context = click.Context(furlkit, info_name="furlkit")
    while isinstance(node, click.Group):
        name, *words = words
        node = node.commands[name]
        if isinstance(node, click.Group):
            context = click.Context(node, parent=context, info_name=name)
    node.make_context(name, list(words), parent=context)
