"""A real Slurm cluster for the tests of this folder; `make test-slurm` runs them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.conftest import ROOT
from tests.recipes.queue import executable
from tests.slurm.daemons import PROGRAMS, Cluster


def _reason_to_skip() -> str:
    if not os.environ.get("FURLKIT_TEST_SLURM"):
        return "make test-slurm runs these tests"
    if os.geteuid() != 0:
        return "only root can start slurmd and munged"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)} not found" if missing else ""


@pytest.fixture(scope="session")
def cluster(environment, fast_furlkit) -> Iterator[Cluster]:
    """Daemons on the loopback address, which end with the tests."""
    if reason := _reason_to_skip():
        pytest.skip(reason)
    # Other users' daemons must reach the folder, and sockets need a short path.
    folder = Path(mkdtemp(prefix="furlkit-slurm-"))
    folder.chmod(0o755)
    program = executable(folder / "furlkit", fast_furlkit)
    started = Cluster(folder / "cluster", {**environment, "FURLKIT": program})
    try:
        started.start()
        yield started
    finally:
        started.cancel()
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def workplace(cluster, tmp_path, monkeypatch) -> Iterator[Path]:
    """An empty folder as the current one; afterwards the queue is empty."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "fedca" / "recipe.toml", "recipe.toml")
    yield tmp_path
    cluster.cancel()
    cluster.drain()
