"""Training in two processes, as torchrun starts them, gives what one process gives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from tests.helpers import epochs, furlkit, round_0

DIGITS = ("--data", "digits")
TWO = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "furlkit")
MORE = {"cluster": ("--mine-layer", "h")}
SLOWLY = ("--optimiser", "sgd", "--lr", 0.001)


@pytest.fixture
def together(environment):
    """Call the program in two processes."""

    def call(*arguments) -> subprocess.CompletedProcess:
        command = [sys.executable, *TWO, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return call


def check_alike(folder, one: str, two: str) -> None:
    expected = read_checkpoint(folder / one).tensors
    for name, tensor in read_checkpoint(folder / two).tensors.items():
        np.testing.assert_allclose(tensor, expected[name], atol=1e-5, err_msg=name)
    for a, b in zip(epochs(folder / one), epochs(folder / two), strict=True):
        assert a["losses"] == pytest.approx(b["losses"], rel=1e-5)


@pytest.mark.parametrize(
    "objective",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "simclr"))
     for name in catalogue.OBJECTIVES],
)  # fmt: skip
def test_two_processes_give_the_weights_of_one(together, tmp_path, objective):
    net = ("--width", 0.05, "--projector", "16,8", "--predictor", "8,8")
    round_0(tmp_path, ("--clients", 5), (*net, "--objective", objective))
    train = (
        "local-train", tmp_path / "p.st", tmp_path / "g.st", "--objective", objective,
        *DIGITS, "--client", 0, "--epochs", 1, "--batch-size", 64, *SLOWLY,
        *MORE.get(objective, ()),
    )  # fmt: skip
    assert furlkit(*train, "-o", tmp_path / "one") == 0
    done = together(*train, "-o", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("client 0, round 1") == 1
    check_alike(tmp_path, "one", "two")
    assert Container(tmp_path / "two").header.options["processes"] == 2
    assert "processes" not in Container(tmp_path / "one").header.options


THREADS = """
import atexit, os, sys
from pathlib import Path
from furlkit.cli import main

def report():
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    Path(__file__).with_name(f"threads-{os.environ['RANK']}").write_text("".join(names))

atexit.register(report)
main()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc")
def test_no_thread_of_gloo_outlives_the_training(environment, tmp_path):
    """Such a thread may abort a process that ends.

    torchvision imports modules that hold the group if they are imported after its start.
    """
    net = ("--encoder", "torchvision:squeezenet1_1", "--image-size", 32)
    round_0(tmp_path, ("--clients", 5), (*net, "--projector", "16,8"))
    script = tmp_path / "script.py"
    script.write_text(THREADS)
    train = (
        "local-train", tmp_path / "p.st", tmp_path / "g.st", *DIGITS, "--client", 0,
        "--epochs", 1, "--batch-size", 64, "-o", tmp_path / "u.st",
    )  # fmt: skip
    command = [sys.executable, *TWO[:4], script, *train]
    done = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert "gloo" not in (tmp_path / f"threads-{rank}").read_text()


@pytest.mark.slow
def test_without_batchnorm_in_the_encoder_only_the_last_bit_differs(together, tmp_path):
    net = ("--encoder", "torchvision:squeezenet1_1", "--image-size", 32)
    round_0(tmp_path, ("--clients", 5), (*net, "--projector", "16,8"))
    train = (
        "local-train", tmp_path / "p.st", tmp_path / "g.st", *DIGITS, "--client", 0,
        "--epochs", 1, "--batch-size", 64, *SLOWLY,
    )  # fmt: skip
    assert furlkit(*train, "-o", tmp_path / "one") == 0
    assert together(*train, "-o", tmp_path / "two").returncode == 0
    expected = read_checkpoint(tmp_path / "one").tensors
    for name, tensor in read_checkpoint(tmp_path / "two").tensors.items():
        np.testing.assert_allclose(tensor, expected[name], rtol=1e-6, atol=1e-6)


def children(pid: int) -> list[int]:
    """The processes that a process has started, the first one first."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_others_and_the_training_resumes(
    together, environment, tmp_path, rank
):
    round_0(tmp_path, ("--clients", 5), ("--width", 0.05, "--projector", "16,8"))
    train = (
        "local-train", tmp_path / "p.st", tmp_path / "g.st", *DIGITS, "--client", 0,
        "--epochs", 12, "--batch-size", 64, *SLOWLY, "--save-every", 0.1,
    )  # fmt: skip
    assert together(*train, "-o", tmp_path / "whole").returncode == 0
    command = [sys.executable, *TWO, *map(str, train), "-o", str(tmp_path / "killed")]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True
    ) as running:
        while not (tmp_path / "killed.progress").exists():
            assert running.poll() is None
            time.sleep(0.05)
        os.kill(children(running.pid)[rank], signal.SIGKILL)
        stderr = running.communicate(timeout=300)[1]
    assert running.returncode != 0 and not (tmp_path / "killed").exists()
    assert "another process of torchrun ended" in stderr
    assert together(*train, "-o", tmp_path / "killed").returncode == 0
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.slow
def test_a_batch_that_processes_cannot_divide_is_refused(together, tmp_path):
    round_0(tmp_path, ("--clients", 5))
    train = ("local-train", tmp_path / "p.st", tmp_path / "g.st", *DIGITS)
    done = together(*train, "--client", 0, "--batch-size", 33, "-o", tmp_path / "u")
    assert done.returncode != 0
    assert "--batch-size 33" in done.stderr and not (tmp_path / "u").exists()


@pytest.mark.slow
def test_a_command_that_trains_nothing_ends_in_all_processes(together, tmp_path):
    round_0(tmp_path, ("--clients", 5))
    done = together("inspect", tmp_path / "g.st")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checkpoint") >= 1
