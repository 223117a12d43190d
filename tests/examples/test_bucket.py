"""examples/bucket: a server and three sites that share a bucket and nothing else."""

import os
import shlex
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.examples.couriers import METHODS, ROUNDS, SITES, Plain, make_images, steps

SCRIPTS = ROOT / "examples" / "bucket"
pytestmark = pytest.mark.skipif(shutil.which("seq") is None, reason="needs sh and seq")


class Sides:
    """The server and the sites, each in a folder, and a bucket."""

    def __init__(self, folder: Path, method: str, environment: dict[str, str]):
        self.folder, self.method = folder, method
        self.bucket = str(folder / "bucket")
        self.environment = {**environment, **METHODS[method], **make_images(folder)}
        for name in ("server", *SITES):
            (folder / name).mkdir()
            (folder / "bucket" / name).mkdir(parents=True)

    def start(self, name: str, rounds: int, **options: str) -> subprocess.Popen:
        """Start the script of a side, for rounds up to a number."""
        words = ["site.sh", steps(self.method), name, str(self.folder / "images" / name)]
        words += [self.bucket, str(rounds)]
        if name == "server":
            words = ["server.sh", steps(self.method), self.bucket, str(rounds), *SITES]
        return subprocess.Popen(
            [*self.enter(name), "sh", str(SCRIPTS / words[0]), *words[1:]],
            cwd=self.folder / name, env={**self.environment, **options},
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def enter(self, name: str) -> list[str]:
        """Return the words that start a program at the place of a side."""
        return []

    def run(self, rounds: int, *names: str, **options: str) -> None:
        """Start sides and wait until all are done."""
        for process in [self.start(name, rounds, **options) for name in names]:
            ended(process)

    def object(self, name: str, round_: int) -> Path:
        return self.folder / "bucket" / name / f"{round_}.tar"

    def result(self, round_: int) -> bytes:
        path = self.folder / "server" / "put" / str(round_) / "global.safetensors"
        return path.read_bytes()

    def plain(self, rounds: tuple[tuple[str, ...], ...] = ROUNDS) -> bytes:
        (self.folder / "plain").mkdir()
        return Plain(self.folder / "plain", self.method).run(rounds)


def ended(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()


def wait_for(path: Path, *processes: subprocess.Popen) -> None:
    while not path.exists():
        assert all(process.poll() is None for process in processes)
        time.sleep(0.02)


def kill(*processes: subprocess.Popen) -> None:
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def by_copies(fast_furlkit, environment) -> dict[str, str]:
    """The environment of scripts that copy with cp."""
    more = {"FURLKIT": shlex.join(fast_furlkit), "PAUSE": "0.1", "WAIT": "120"}
    return {**environment, **more, "COPY": "cp", "MOVE": "mv -n"}


def three_rounds(sides: Sides) -> None:
    """East is late in the first round, north misses the second."""
    server = sides.start("server", 1)
    others = [sides.start(name, 1) for name in ("st-mary", "north")]
    wait_for(sides.object("st-mary", 1), server)
    for process in (*others, sides.start("east", 1), server):
        ended(process)
    sides.run(2, "server", "st-mary", "east", EXPECT="2")
    sides.run(3, "server", *SITES)
    assert not sides.object("north", 2).exists()


def test_killed_sides_resume_and_a_missing_site_is_left_out(tmp_path, by_copies):
    sides = Sides(tmp_path, "fedca", by_copies)
    server, site = sides.start("server", 1), sides.start("north", 1)
    wait_for(sides.object("north", 1), server)
    kill(server, site)
    sides.run(1, "server", *SITES)
    sides.run(2, "server", "st-mary", "east", EXPECT="2")
    sides.run(2, "north")  # finds the round closed
    assert not sides.object("north", 2).exists()
    assert sides.result(2) == sides.plain(ROUNDS[:2])
    with tarfile.open(sides.object("st-mary", 2)) as parcel:
        sent = {m.name: (m.uname, m.mtime) for m in parcel.getmembers()}
    names = ("./model/st-mary.safetensors", "./rows/st-mary.safetensors")
    assert sent == dict.fromkeys(names, ("root", 0))


def test_a_quorum_that_is_not_met_is_resumable(tmp_path, by_copies):
    sides = Sides(tmp_path, "fedsimclr", by_copies)
    server = sides.start("server", 1, WAIT="0")
    _, said = server.communicate()
    assert server.returncode == 75 and b"round 1: 0 uploads" in said
    sides.run(1, "server", "st-mary", "north", EXPECT="2")
    assert sides.result(1) == sides.plain((("st-mary", "north"),))


@pytest.fixture
def courier(tmp_path, by_copies) -> Callable[..., subprocess.CompletedProcess]:
    """Call put.sh or get.sh in the test's folder."""

    def call(script: str, *words: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["sh", str(SCRIPTS / script), *words], cwd=tmp_path,
            env={**by_copies, **more}, capture_output=True, text=True,
        )  # fmt: skip

    return call


def test_an_object_is_never_replaced(tmp_path, courier):
    for folder in ("1", "2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.safetensors").write_text(folder)
        (tmp_path / folder / "a.log.jsonl").write_text("stays at the site")
        assert courier("put.sh", folder, "object.tar").returncode == 0
    assert courier("get.sh", "object.tar", "got/1").returncode == 0
    files = {path.name: path.read_text() for path in (tmp_path / "got" / "1").iterdir()}
    assert files == {"a.safetensors": "1"}


def test_a_parcel_with_a_link_is_refused(tmp_path, courier):
    with tarfile.open(tmp_path / "object.tar", "w") as parcel:
        member = tarfile.TarInfo("model")
        member.type, member.linkname = tarfile.SYMTYPE, "../north/model"
        parcel.addfile(member)
    done = courier("get.sh", "object.tar", "got/1")
    assert done.returncode == 65 and "../north/model" in done.stderr
    assert not (tmp_path / "got" / "1").exists()


@pytest.mark.skipif(shutil.which("age") is None, reason="needs age")
def test_age_encrypts_a_parcel_for_the_server(tmp_path, courier):
    text = subprocess.run(["age-keygen"], capture_output=True, text=True, check=True)
    (tmp_path / "server.key").write_text(text.stdout)
    recipient = text.stdout.split("public key: ")[1].split()[0]
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "a.safetensors").write_text("secret")
    seal = {"SEAL": f"age -r {recipient}"}
    assert courier("put.sh", "1", "object.tar", **seal).returncode == 0
    assert b"secret" not in (tmp_path / "object.tar").read_bytes()
    opened = {"OPEN": "age -d -i server.key"}
    assert courier("get.sh", "object.tar", "got/1", **opened).returncode == 0
    assert (tmp_path / "got" / "1" / "a.safetensors").read_text() == "secret"
    assert courier("get.sh", "object.tar", "got/2").returncode != 0


def test_scripts_are_short_and_clean():
    scripts = sorted([*SCRIPTS.glob("*.sh"), *SCRIPTS.parent.glob("rounds/*.sh")])
    assert len(scripts) == 7
    for script in SCRIPTS.glob("*.sh"):
        lines = script.read_text().splitlines()
        assert sum(not line.startswith("#") for line in lines) <= 15
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", *map(str, scripts)], check=True)
