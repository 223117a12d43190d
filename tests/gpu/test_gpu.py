"""On a real GPU: nothing waits, two runs agree to the bit, and steps are fast.

Run by `make test-gpu`; skipped on machines without one.
"""

import time

import pytest
import torch

from furlkit.runtime import Runtime, start
from tests.helpers import furlkit, round_0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]
DIGITS = ("--data", "digits")


def train(folder, output, *more):
    words = ("local-train", folder / "p.st", folder / "g.st", *DIGITS, "--client", 0)
    fast = ("--epochs", 2, "--batch-size", 64, "--device", "cuda")
    return furlkit(*words, *fast, *more, "-o", folder / output)


def test_two_runs_give_the_same_bytes(tmp_path):
    round_0(tmp_path)
    assert train(tmp_path, "one") == train(tmp_path, "two") == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_no_step_waits_for_the_gpu(tmp_path, monkeypatch, precision):
    """CUDA itself raises an error where a step would wait."""
    from furlkit.training import loop

    round_0(tmp_path)
    step = loop.Trainer.step

    def strict(self, batch, lr):
        torch.cuda.set_sync_debug_mode("error")
        try:
            return step(self, batch, lr)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(loop.Trainer, "step", strict)
    assert train(tmp_path, "u", "--precision", precision) == 0


def test_the_whole_loop_takes_little_more_than_bare_steps():
    """At least 0.9 of the speed of steps without augmentation, data and journal."""
    from tests.bench import step

    gpu = start(Runtime("cuda", 1))
    rates = []
    for steps in (step.bare_steps("1M", gpu), step.whole_steps("1M", gpu)):
        for _ in range(10):
            next(steps)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(50):
            next(steps)
        torch.cuda.synchronize()
        rates.append(50 / (time.perf_counter() - began))
    assert rates[1] > 0.9 * rates[0]


def test_a_process_takes_a_part_of_the_memory(python):
    code = """
import torch
from furlkit.runtime import Runtime, start
place = start(Runtime(device="cuda", gpu_memory=0.05))
total = torch.cuda.get_device_properties(0).total_memory
try:
    torch.empty(total // 10, dtype=torch.uint8, device=place)
except torch.cuda.OutOfMemoryError:
    print("refused")
"""
    assert python(code) == "refused\n"
