"""Fixtures for all tests: a small world of files, and ways to call the program."""

import hashlib
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass, replace
from io import StringIO
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from furlkit import runtime
from tests.helpers import Killed, furlkit, hold_training
from tests.recipes.launcher import launched

os.environ.setdefault("OMP_NUM_THREADS", "1")
runtime.set_isa("auto")  # Before any test imports torch; their processes inherit it.
ROOT = Path(__file__).resolve().parent.parent
MAKES_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let torch know the device of tests/device.py before the first backward pass."""
    users = {"here", "both"}
    if any(users & {*getattr(item, "fixturenames", ())} for item in session.items):
        from tests.device import device

        device()


class Outcome(NamedTuple):
    """Exit code and both streams of a call of the program."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory) -> None:
    """Nothing is written to the cache of whoever runs the tests."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def run(capsys) -> Callable[..., Outcome]:
    """Call the program in this process: run("inspect", path)."""

    def call(*arguments: Any) -> Outcome:
        capsys.readouterr()
        code = furlkit(*arguments)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def environment(_cache) -> dict[str, str]:
    """The environment in which a process finds this furlkit and uses one core.

    `make test` sets its own flags and level, which a test's make must not see.
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
    """Run lines of Python in a process of its own; returns what they print."""

    def call(code: str, *arguments: Any, **how: Any) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True, text=True, env=environment, **how,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.fixture(scope="session")
def start() -> Callable[..., BaseProcess]:
    """Start the program in a new process; torch is loaded once for all of them.

    start(words, hold=(output, step)): see `hold_training`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["furlkit.stages.local_train.train", "furlkit.stages.evaluate.work.finetune"]
    )

    def run(arguments: list[str], hold: tuple[Path, int] | None = None) -> BaseProcess:
        from furlkit.cli import main

        if hold is None:
            process = context.Process(target=main, args=(arguments,))
        else:
            output, step = hold
            work = hold_training, (str(output), step, arguments)
            process = context.Process(target=work[0], args=work[1])
        process.start()
        return process

    return run


@pytest.fixture(scope="session")
def fast_furlkit(environment, tmp_path_factory) -> Iterator[list[str]]:
    """The words that start furlkit, in milliseconds."""
    with launched(tmp_path_factory.mktemp("launcher"), environment) as words:
        yield words


@dataclass(frozen=True)
class World:
    """A partition of digits, a global model of round 0, three clients of round 1."""

    folder: Path
    partition: Path
    model: Path
    clients: tuple[Path, ...]
    output: Path

    def copied_to(self, folder: Path) -> "World":
        """The same files elsewhere, and an empty output that must survive failures."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        output = folder / "output.safetensors"
        output.touch()
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
        codes = [furlkit(*command) for command in commands]
    assert codes == [0, 0, 0], said.getvalue()
    return World(folder, partition, model, clients, folder / "output.safetensors")


@pytest.fixture
def world(_world, tmp_path) -> World:
    """The tiny world in a folder that the test may change."""
    return _world.copied_to(tmp_path / "world")


@pytest.fixture
def fatal_call(monkeypatch) -> Callable[..., AbstractContextManager[None]]:
    """Raise Killed at one call of `where.name` while a block runs."""

    @contextmanager
    def fatal(where: Any, name: str, number: int = 1) -> Iterator[None]:
        original, calls = getattr(where, name), itertools.count(1)

        def dying(*given: Any, **more: Any) -> Any:
            if next(calls) == number:
                raise Killed
            return original(*given, **more)

        with monkeypatch.context() as patch:
            patch.setattr(where, name, dying)
            yield

    return fatal


@pytest.fixture
def dies_at(fatal_call) -> Callable[..., AbstractContextManager[None]]:
    """Assert that a block dies at the given call of `where.name`."""

    @contextmanager
    def dies(where: Any, name: str, number: int = 1) -> Iterator[None]:
        with pytest.raises(Killed), fatal_call(where, name, number):
            yield

    return dies


@pytest.fixture
def until_done(fatal_call) -> Callable[..., int]:
    """Call the program until it is done, while it dies at a call of `where.name`.

    It dies at the first such call, then at the second, and so on; returns how often.
    """

    def call(where: Any, name: str, *arguments: Any) -> int:
        for deaths in itertools.count():
            try:
                with fatal_call(where, name, deaths + 1):
                    assert furlkit(*arguments) == 0
            except Killed:
                continue
            return deaths
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
    """Assert exit code, paths and key words of the message, and that no file changed.

    A key word must be in the message itself: the names of the folder and of the given
    paths, which often hold the same word, do not count.
    """

    def check(folder: Path, code: int, words: Sequence, *arguments: Any) -> str:
        before = snapshot(folder)
        outcome = run(*arguments)
        assert outcome.code == code, outcome
        message = outcome.err
        for path in (word for word in words if isinstance(word, Path)):
            assert str(path) in outcome.err
            message = message.replace(str(path), "")
        message = message.replace(str(folder), "")
        for word in (str(word) for word in words if not isinstance(word, Path)):
            assert word in (outcome.err if str(folder) in word else message)
        assert "Traceback" not in outcome.err
        assert outcome.out == ""
        assert snapshot(folder) == before
        return outcome.err

    return check


@pytest.fixture(scope="session")
def keys(tmp_path_factory) -> Callable[[str], Path]:
    """Return the private key of a name, without a passphrase; NAME.pub is beside it."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen of OpenSSH")
    folder = tmp_path_factory.mktemp("keys")

    def key(name: str) -> Path:
        path = folder / name
        if not path.exists():
            words = ("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path))
            subprocess.run(["ssh-keygen", *words], check=True)
        return path

    return key


@pytest.fixture
def allowed(keys, tmp_path) -> Callable[..., Path]:
    """Write an allowed_signers file; `options` of every line."""

    def write(*names: str, options: str = "") -> Path:
        path = tmp_path / "allowed_signers"
        public = {name: keys(name).with_suffix(".pub").read_text() for name in names}
        path.write_text("".join(f"{k} {options} {v}" for k, v in public.items()))
        return path

    return write


@pytest.fixture(scope="session")
def forge() -> Callable[..., Path]:
    """Rewrite a file with other tensors, facts or header fields, and a matching hash."""

    def change(
        path: Path,
        tensors: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
        **words: Any,
    ) -> Path:
        from furlkit.files.container.read import Container
        from furlkit.files.container.write import write

        opened = Container(path)
        header = opened.header.unsealed()
        header = replace(header, facts={**header.facts, **(facts or {})})
        everything = {**opened.tensors(), **(tensors or {})}
        everything = {k: v for k, v in everything.items() if v is not None}
        write(path, everything, replace(header, **words))
        return path

    return change


@pytest.fixture(scope="session")
def exchanged(tmp_path_factory) -> Path:
    """A folder with a round of two clients and every file that clients exchange."""
    from tests.exchanged import write_files

    return write_files(tmp_path_factory.mktemp("exchanged"))
