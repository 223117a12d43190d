"""examples/two-sites: three scripts that share two folders and nothing else."""

import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers import furlkit
from tests.rounds.test_sites import folder_of_digits

SCRIPTS = ROOT / "examples" / "two-sites"
INIT = "--image-size 8 --width 0.02 --projector 8,4"
TRAIN = "--epochs 1 --batch-size 8"
SITES = {"st-mary": (0, 20), "north": (20, 12)}  # First digit and their number.
needs_sh = pytest.mark.skipif(shutil.which("seq") is None, reason="needs sh and seq")


@pytest.fixture
def start(fast_furlkit, environment):
    """Start a script of the example in the test's folder."""
    more = {
        "FURLKIT": shlex.join(fast_furlkit), "PAUSE": "0.1", "WAIT": "2m",
        "INIT": INIT, "TRAIN": TRAIN,
    }  # fmt: skip

    def call(folder: Path, script: str, *words: str, **own: str) -> subprocess.Popen:
        return subprocess.Popen(
            ["sh", str(SCRIPTS / script), *words], cwd=folder,
            env={**environment, **more, **own}, stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    return call


@pytest.fixture
def keys_of_all(keys, allowed):
    """KEY and SIGNERS of the server and of both sites, by name."""
    signers = str(allowed("server", *SITES, options='namespaces="furlkit"'))
    names = ("server", *SITES)
    return {name: {"KEY": str(keys(name)), "SIGNERS": signers} for name in names}


def ended(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, (first, count) in SITES.items():
        folder_of_digits(tmp_path / f"images-{name}", first, count)
    return tmp_path


def by_hand(folder: Path, rounds: int = 2) -> Path:
    """The global model after the last round, by plain commands."""
    model = folder / "g0"
    assert furlkit("init", "--channels", 3, *shlex.split(INIT), "-o", model) == 0
    for round_ in range(1, rounds + 1):
        uploads = [folder / f"u{round_}_{name}" for name in SITES]
        for name, upload in zip(SITES, uploads, strict=True):
            given = ("--data", folder / f"images-{name}", "--client", name)
            words = (*given, *shlex.split(TRAIN), "-o", upload)
            assert furlkit("local-train", model, *words) == 0
        model = folder / f"g{round_}"
        assert furlkit("aggregate", *uploads, "-o", model) == 0
    return model


@needs_sh
def test_both_sides_are_killed_and_resume_with_the_same_bytes(start, folder):
    exchange = folder / "exchange"
    server = start(folder, "server.sh", "exchange", "2")
    site = start(folder, "site.sh", "north", "images-north", "exchange", "2")
    while not (exchange / "inbox" / "north_1.safetensors").exists():
        assert server.poll() is site.poll() is None
        time.sleep(0.02)
    for process in (server, site):
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    every = [start(folder, "server.sh", "exchange", "2")]
    for name in SITES:
        words = (name, f"images-{name}", "exchange", "2")
        every.append(start(folder, "site.sh", *words))
    for process in every:
        ended(process)
    result = exchange / "outbox" / "global_2.safetensors"
    assert result.read_bytes() == by_hand(folder).read_bytes()
    assert "Geiping" in (folder / "north" / "outgoing_2.txt").read_text()
    sent = {path.name for path in (exchange / "inbox").iterdir()}
    assert sent == {f"{name}_{r}.safetensors" for name in SITES for r in (1, 2)}


@needs_sh
def test_a_signed_round_beside_a_stranger_gives_the_same_bytes(
    start, folder, forge, keys_of_all
):
    """The stranger uploads in the name of a site, before and after the site."""
    exchange, expected = folder / "exchange", by_hand(folder, rounds=1).read_bytes()
    (exchange / "inbox").mkdir(parents=True)
    for name in ("a_1", "z_1"):
        fake = Path(shutil.copy(folder / "u1_north", exchange / "inbox" / name))
        forge(fake, facts={"client": "st-mary"})
    server = start(folder, "server.sh", "exchange", "1", **keys_of_all["server"])
    sites = [
        start(folder, "site.sh", n, f"images-{n}", "exchange", "1", **keys_of_all[n])
        for n in SITES
    ]
    for process in (*sites, server):
        ended(process)
    assert (exchange / "outbox" / "global_1.safetensors").read_bytes() == expected
    assert (exchange / "outbox" / "global_1.safetensors.sig").exists()


@needs_sh
def test_a_late_site_skips_closed_rounds(start, folder):
    outbox = folder / "exchange" / "outbox"
    outbox.mkdir(parents=True)
    for round_ in range(3):
        (outbox / f"global_{round_}.safetensors").write_bytes(b"not opened")
    ended(start(folder, "site.sh", "late", "images-north", "exchange", "2"))
    assert not (folder / "exchange" / "inbox").exists()
    assert not list((folder / "late").glob("upload_*"))


def test_each_side_is_a_script_of_about_ten_lines():
    for script in ("server.sh", "site.sh"):
        lines = (SCRIPTS / script).read_text().splitlines()
        assert sum(not line.startswith("#") for line in lines) <= 13
