"""FedUSC's clustering, one thread: mining of neighbours, and a step beside SimCLR's.

Mining is measured in a process of its own, for the memory that it adds to that of torch
and the rows; on a core that it has to itself, all its time is the processor's. Both steps
make and encode as many views.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import torch

from furlkit.models.architecture import build
from furlkit.objectives.cluster import learner
from furlkit.runtime import Runtime, start
from furlkit.training.loop import Job, train
from furlkit.training.plan import Plan
from tests.bench.fedca import TURNS, _seconds
from tests.bench.step import _NoKeeper, whole_steps
from tests.bench.world import BATCH, NETS, client_images, parameters

IMAGES, NEAREST, CLUSTERS = 10_000, 20, 10
_MINE = """
import time, torch
from furlkit.evaluation.knn import nearest_others
torch.set_num_threads(1)
rows = torch.randn(50_000, 128, generator=torch.Generator().manual_seed(0))
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before = time.perf_counter(), time.process_time(), peak() / 1000
nearest_others(rows, 20)
after = time.perf_counter(), time.process_time(), peak() / 1000
print(*(b - a for a, b in zip(before, after)))
"""


def run() -> Iterator[str]:
    """A line for mining, then one for each size of net."""
    done = subprocess.run(
        [sys.executable, "-c", _MINE], check=True, capture_output=True, text=True
    )
    wall, processor, added = map(float, done.stdout.split())
    yield (
        f"mining 50,000 rows of 128: {processor:.1f} s of the processor (bar: 30), "
        f"{wall:.1f} s in all; it adds {added:.0f} MB (bar: 500)"
    )
    start(Runtime("cpu", 1))
    for size in NETS:
        one, several = _steps(size, 1), _steps(size, 10)
        kinds = whole_steps(size), one, several, _steps(size, 1, used="all")
        turns = [[_seconds(kind) for kind in kinds] for _ in range(TURNS)]
        ratios = [
            median(turn[k] / turn[0] for turn in turns) for k in range(1, len(kinds))
        ]
        yield (
            f"cnn5 of {parameters(_net(size, 1)):,}: a clustering step takes "
            f"{ratios[0]:.2f} of a SimCLR step (bar: 1.1), with 10 heads {ratios[1]:.2f}, "
            f"with all {NEAREST} neighbours {ratios[2]:.2f}"
        )


def _net(size: str, heads: int):
    with_head = replace(NETS[size], heads={"clusters": (CLUSTERS,) * heads})
    net = build(with_head, torch.Generator().manual_seed(0))
    return net.to(memory_format=torch.channels_last)


def _steps(size: str, heads: int, used: str = "one"):
    """Endless steps; neighbours are random images."""
    rng = torch.Generator().manual_seed(1)
    neighbours = torch.randint(IMAGES, (IMAGES, NEAREST), generator=rng)
    how = {"nearest_used": used, "neighbours": neighbours}
    method = learner(_net(size, heads), entropy_weight=5.0, **how)
    plan = Plan(epochs=10**6, batch_size=BATCH)
    job = Job("bench", method, client_images(IMAGES), plan, (0, "bench"))
    return train(job, _NoKeeper())
