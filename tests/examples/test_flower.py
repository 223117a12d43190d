"""examples/flower: a real SuperLink and three SuperNodes, with TLS and node keys."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT
from tests.examples.couriers import (
    METHODS,
    ROUNDS,
    SITES,
    Network,
    Plain,
    make_images,
    may_make_networks,
    signing_steps,
    steps,
)  # fmt: skip
from tests.slurm.daemons import free_port

SCRIPTS = ROOT / "examples" / "flower"
slow = pytest.mark.slow


class Federation:
    """The trial of loopback.sh; each node is in a network namespace if permitted."""

    def __init__(self, folder: Path, method: str, environment: dict[str, str]):
        self.folder, self.method, self.steps = folder, method, steps(method)
        self.network = Network() if may_make_networks() else None
        self.host, self.port = "10.77.0.1" if self.network else "127.0.0.1", free_port()
        more = {"HOST": self.host, "PORT": str(self.port)}
        if self.network:
            more["ENTER"] = shlex.join(self.network.enter(""))
        path = f"{Path(sys.executable).parent}:{environment['PATH']}"
        public = make_images(folder)
        self.environment = {
            **environment,
            **METHODS[method],
            **public,
            **more,
            "PATH": path,
        }
        self.processes: list[subprocess.Popen] = []

    def start(self, name: str, *words: object, **more: str) -> subprocess.Popen:
        """Start a script at the place of a side, in the folder of the test."""
        enter = self.network.enter(name) if self.network else []
        with open(self.folder / "log", "a") as log:
            process = subprocess.Popen(
                [*enter, *map(str, words)], cwd=self.folder, stdout=log, stderr=log,
                env={**self.environment, **more}, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def trial(self, rounds: int, *names: str, run: str = "") -> subprocess.Popen:
        """Start loopback.sh with the nodes of these sites."""
        sites = [f"{name}=images/{name}" for name in names]
        words = ("sh", SCRIPTS / "loopback.sh", "trial", self.steps, rounds)
        return self.start("server", *words, *sites, RUN=run)

    def node(self, name: str) -> subprocess.Popen:
        """Start a node after the nodes of loopback.sh."""
        link, port = f"{self.host}:{self.port}", self.port + 7
        words = [SCRIPTS / "node.sh", link, name, self.folder / "images" / name]
        script = shlex.join(map(str, ["sh", *words, steps(self.method), port]))
        return self.start(name, "sh", "-c", f"cd trial/{name} && exec {script}")

    def kill(self, name: str) -> None:
        """End the SuperLink or a node as a crash would."""
        os.kill(int(self.wait_for(name).read_text()), signal.SIGKILL)

    def wait_for(self, name: str, seconds: float = 180) -> Path:
        path, end = self.folder / "trial" / name, time.monotonic() + seconds
        while not path.exists():
            assert time.monotonic() < end, self.log()
            time.sleep(0.1)
        return path

    def ended(self, process: subprocess.Popen) -> None:
        assert process.wait(timeout=400) == 0, self.log()

    def log(self) -> str:
        paths = [self.folder / "log", *sorted(self.folder.glob("trial/*.log"))]
        return "\n".join(f"== {p.name}\n{p.read_text()[-3000:]}" for p in paths)

    def result(self, round_: int = 3) -> bytes:
        path = self.folder / f"trial/server/put/{round_}/global.safetensors"
        return path.read_bytes()

    def plain(self, rounds: tuple[tuple[str, ...], ...] = ROUNDS) -> bytes:
        (self.folder / "plain").mkdir()
        return Plain(self.folder / "plain", self.method).run(rounds)

    def stop(self) -> None:
        """End every process that still runs, and its children."""
        for process in self.processes:
            process.terminate()  # loopback.sh ends the SuperLink and the nodes
        for process in self.processes:
            process.wait(timeout=60)
        if self.network:
            self.network.remove()


@pytest.fixture
def federation(
    tmp_path, environment, fast_furlkit
) -> Iterator[Callable[[str], Federation]]:
    """Prepare a federation for a method: federation("fedca")."""
    where = Path(sys.executable).parent
    if shutil.which("flower-superlink", path=f"{where}:{environment['PATH']}") is None:
        pytest.skip("Flower not found; make test-flower installs the extra flower")
    made: list[Federation] = []

    def make(method: str) -> Federation:
        words = {**environment, "FURLKIT": shlex.join(fast_furlkit)}
        made.append(Federation(tmp_path, method, words))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@slow
def test_rounds_survive_kills_of_a_node_and_of_the_superlink(federation):
    trial = federation("fedsimclr")
    first = trial.trial(1, *SITES)
    trial.wait_for("east/got/0")
    trial.kill("east/node.pid")  # loopback.sh starts the node again, so east is late
    trial.ended(first)
    trial.ended(trial.trial(2, "st-mary", "east", run="expect=2"))
    third = trial.trial(3, *SITES)
    trial.wait_for("north/got/2")
    trial.kill("server/link.pid")
    assert third.wait(timeout=120) != 0
    trial.ended(trial.trial(3, *SITES))
    assert not (trial.folder / "trial/north/put/2").exists()
    assert trial.result() == trial.plain()


@slow
@pytest.mark.parametrize("method", ["fedca", "flesd"])
def test_three_rounds_through_flower_give_the_bytes_of_plain_commands(
    federation, method
):
    trial = federation(method)
    trial.ended(trial.trial(1, *SITES))
    trial.ended(trial.trial(2, "st-mary", "east", run="expect=2"))
    trial.ended(trial.trial(3, *SITES))
    assert trial.result() == trial.plain()


@slow
def test_signed_uploads_and_models_through_flower(federation, keys, allowed):
    """North has a stranger's key, east no key: the model is of st-mary alone."""
    trial = federation("fedsimclr")
    trial.environment |= {"SIGNERS": str(allowed("server", *SITES)), "AT_LEAST": "1"}
    signing = {name: keys(name) for name in ("server", "st-mary")}
    signing["north"] = keys("mallory")
    trial.steps = signing_steps(trial.folder, trial.method, signing)
    trial.ended(trial.trial(1, *SITES))
    assert trial.result(1) == trial.plain((("st-mary",),))
    assert (trial.folder / "trial/east/got/0/global.safetensors.sig").exists()
    arrived = {path.name for path in (trial.folder / "trial/server/got/1").iterdir()}
    assert arrived == set(
        SITES
    )  # the uploads of north and east came, and were left out


@slow
def test_nodes_with_a_strange_key_without_tls_or_without_a_key_are_refused(federation):
    trial = federation("fedsimclr")
    folder = trial.folder / "trial" / "east"
    folder.mkdir(parents=True)
    for words in (("certificates.sh", trial.host), ("link.sh", trial.host, trial.port)):
        script = shlex.join(map(str, ["sh", SCRIPTS / words[0], *words[1:]]))
        last = trial.start("server", "sh", "-c", f"cd trial/east && exec {script}")
        trial.wait_for("east/link.crt")
    key = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", "east.key"]
    subprocess.run(key, cwd=folder, check=True)
    trial.wait_for("east/link.db")
    time.sleep(5)
    assert trial.node("east").wait(timeout=120) != 0
    assert "Failed to activate SuperNode" in trial.log()
    link = f"{trial.host}:{trial.port}"
    node = ("flower-supernode", "--superlink", link, "--max-retries", 2)
    for port, security in ((9, "--insecure"), (11, "--root-certificates")):
        words = (security, *[folder / "ca.crt"] * (security != "--insecure"))
        words = (*node, "--port", trial.port + port, *words)
        assert trial.start("east", *words).wait(timeout=120) != 0
    assert "Server disconnected" in trial.log()
    assert "All SuperNodes must be registered" in trial.log()
    assert last.poll() is None, trial.log()
    assert "SuperNode ID" not in trial.log()


@pytest.fixture
def parcels(monkeypatch) -> ModuleType:
    """The module of the example."""
    pytest.importorskip("flwr", reason="make test-flower installs the extra flower")
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module("courier.parcels")


def test_a_message_carries_bytes_and_no_logs(parcels, world, tmp_path):
    put = tmp_path / "put"
    (put / "model").mkdir(parents=True)
    shutil.copy(world.clients[1], put / "model" / "north.safetensors")
    (put / "model" / "north.log.jsonl").write_text("stays at the site")
    parcels.unpack(parcels.pack(put, 1), tmp_path / "got")
    (got,) = (path for path in (tmp_path / "got").rglob("*") if path.is_file())
    assert got == tmp_path / "got" / "model" / "north.safetensors"
    assert got.read_bytes() == world.clients[1].read_bytes()


@pytest.mark.parametrize("name", ["../x.safetensors", "/x.safetensors", "model/x.sh"])
def test_a_name_outside_of_the_folder_is_refused(parcels, tmp_path, name):
    (tmp_path / "put").mkdir()
    content = parcels.pack(tmp_path / "put", 1)
    content["files"][name] = parcels.Array("uint8", (1,), "file", b"x")
    with pytest.raises(ValueError, match="x.s"):
        parcels.unpack(content, tmp_path / "got")
    assert {path.name for path in tmp_path.iterdir()} == {"put"}


def test_an_answer_that_names_another_site_is_refused(parcels, world, tmp_path):
    (tmp_path / "put").mkdir()
    shutil.copy(world.clients[1], tmp_path / "put" / "model.safetensors")
    content = parcels.pack(tmp_path / "put", 1)
    with pytest.raises(ValueError, match="model.safetensors names client 1, not east"):
        parcels.unpack(content, tmp_path / "got", "east")
    assert not (tmp_path / "got").exists()


def test_a_round_with_too_few_valid_uploads_opens_again(parcels, tmp_path):
    for folder in ("got/1/east", "new"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "steps.sh").write_text("exit 75")
    server = import_module("courier.server")
    with pytest.raises(subprocess.CalledProcessError, match="75"):
        server.combine(str(tmp_path / "steps.sh"), tmp_path, 1)
    assert (tmp_path / "new/1/east").exists() and not (tmp_path / "got/1").exists()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_scripts_are_clean():
    subprocess.run(["shellcheck", *map(str, SCRIPTS.glob("*.sh"))], check=True)
