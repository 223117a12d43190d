"""Every command limits the threads of numpy's matrix products."""

import json
import os
import subprocess
import sys

import pytest

COUNTED = """
import atexit, json, os, sys
from furlkit.cli import main

def report():
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    text = json.dumps([pool["num_threads"] for pool in pools])
    open(os.environ["COUNTED"], "w").write(text)

atexit.register(report)
main()
"""
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.fixture
def threads_of(environment, tmp_path):
    """Threads of each BLAS library at the end of a command."""

    def call(*words) -> list[int]:
        more = {"COUNTED": str(tmp_path / "threads")}
        free = {k: v for k, v in environment.items() if k not in LIMITS}
        command = [sys.executable, "-c", COUNTED, *map(str, words)]
        done = subprocess.run(command, env=free | more, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "threads").read_text())

    return call


@pytest.mark.skipif(os.cpu_count() == 1, reason="a single core has one thread")
@pytest.mark.parametrize("command", ["aggregate", "evaluate", "audit"])
def test_a_command_has_one_thread(world, threads_of, command):
    words = {
        "aggregate": (
            "--rule",
            "krum",
            "--assumed-hostile",
            0,
            *world.clients,
            "-o",
            world.folder / "g1",
        ),
        "evaluate": ("drift", *world.clients, "--data", "digits"),
        "audit": ("classes", *world.clients, "--public", "digits", "--split", "test"),
    }[command]
    if command != "aggregate":
        words = (*words, "-o", world.folder / "x.json")
    assert set(threads_of(command, *words)) == {1}
