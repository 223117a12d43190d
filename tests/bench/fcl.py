"""The cost of FCL's bank and of neighbourhood matching in a step of MoCo, one thread.

A full queue and K = 4096 rows of other clients are compared with the full queue alone.
"""

from collections.abc import Iterator
from statistics import median

import torch

from furlkit.objectives.moco import learner
from furlkit.runtime import Runtime, start
from furlkit.terms.neighbours import neighbours
from furlkit.training.loop import Job, train
from furlkit.training.plan import Plan
from tests.bench.fedca import TURNS, _seconds
from tests.bench.step import _NoKeeper
from tests.bench.world import BATCH, NETS, client_images, fresh_net, parameters

K = 4096
MATCHING = {"neighbours": 5, "neighbour_candidates": K}
MATCHING |= {"neighbour_temperature": 0.1, "neighbour_weight": 0.1}


def run() -> Iterator[str]:
    """One line for each size of net."""
    start(Runtime("cpu", 1))
    for size in NETS:
        kinds = _steps(size), _steps(size, bank=True), _steps(size, True, matching=True)
        turns = [[_seconds(kind) for kind in kinds] for _ in range(TURNS)]
        name = f"cnn5 of {parameters(fresh_net(size)):,}"
        fused = median(bank / alone - 1 for alone, bank, _ in turns)
        both = median(matched / alone - 1 for alone, _, matched in turns)
        yield f"{name}: a bank of {K} adds {100 * fused:.1f}% to a step of MoCo"
        yield f"{name}: with neighbours it adds {100 * both:.1f}% (bar: 5%)"


def _steps(size: str, bank: bool = False, matching: bool = False):
    """Endless steps; the queue is full from the first one on."""
    net, images = fresh_net(size), client_images(10_000)
    rows = torch.randn(K, 64, generator=torch.Generator().manual_seed(1))
    settings = {"temperature": 0.1, "ema": 0.99, "queue": K}
    moco = learner(net, **settings, z_dict=rows if bank else None)
    moco.queue.add(torch.nn.functional.normalize(rows, dim=1))
    terms = {"neighbours": neighbours(net, None, **MATCHING)} if matching else {}
    plan = Plan(epochs=10**6, batch_size=BATCH)
    job = Job("bench", moco, images, plan, (0, "bench"), terms)
    return train(job, _NoKeeper())
