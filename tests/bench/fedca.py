"""The cost of FedCA's two parts in a training step, alternating, on one thread.

The dictionary of K = 1024 rows is compared with the same step without one; the
alignment term with a bare forward and backward pass of its batch.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import torch

from furlkit.models.architecture import Net
from furlkit.objectives.learner import Stateless
from furlkit.objectives.simclr import step
from furlkit.runtime import Runtime, start
from furlkit.terms.alignment import alignment
from furlkit.training.loop import Job, positions, train
from furlkit.training.plan import Plan
from tests.bench.step import _NoKeeper
from tests.bench.world import BATCH, NETS, client_images, fresh_net, parameters

TURNS, STEPS, K, PUBLIC = 15, 6, 1024, 3200


def run() -> Iterator[str]:
    """One line for each part and size of net."""
    start(Runtime("cpu", 1))
    for size in NETS:
        plain, with_rows = _steps(size), _steps(size, dictionary=True)
        aligned, bare = _steps(size, align=True), _bare_passes(size)
        kinds = (plain, with_rows, aligned, bare)
        turns = [[_seconds(kind) for kind in kinds] for _ in range(TURNS)]
        name = f"cnn5 of {parameters(fresh_net(size)):,}"
        share = median(rows / alone - 1 for alone, rows, _, _ in turns)
        yield f"{name}: a dictionary of {K} adds {100 * share:.1f}% (bar: 5%)"
        ratio = median((both - alone) / once for alone, _, both, once in turns)
        whole = median(both / alone for alone, _, both, _ in turns)
        yield (
            f"{name}: alignment adds {ratio:.2f} bare passes of its {BATCH} images "
            f"(bar: 1), a step takes {whole:.2f} times as long"
        )


def _seconds(steps: Iterator[object]) -> float:
    began = time.perf_counter()
    for _ in range(STEPS):
        next(steps)
    return (time.perf_counter() - began) / STEPS


def _steps(size: str, dictionary: bool = False, align: bool = False):
    net, images = fresh_net(size), client_images(10_000)
    z_dict = torch.randn(K, 64) if dictionary else None
    terms = {"alignment": _alignment(net, size)} if align else {}
    options = {"temperature": 0.5, "form": "oneway", "z_dict": z_dict}
    learner = Stateless(net, partial(step, **options))
    plan = Plan(epochs=10**6, batch_size=BATCH)
    job = Job("bench", learner, images, plan, (0, "bench"), terms)
    return train(job, _NoKeeper())


def _alignment(net: Net, size: str) -> Any:
    public = client_images(PUBLIC)
    h, z = torch.randn(PUBLIC, NETS[size].feature_dim), torch.randn(PUBLIC, 64)

    def batch_of(step: int, size: int):
        index = positions(public, size, (0, "bench"), step)
        return public.batch(index, torch.Generator(), step)

    options = {"align_reduction": "sum", "align_batch_size": BATCH}
    return alignment(
        net, {"public": batch_of, "h_align": h, "z_align": z}, beta=0.01, **options
    )


def _bare_passes(size: str) -> Iterator[object]:
    """Endless forward and backward passes of one resident batch, in train mode."""
    net: Net = fresh_net(size).train()
    x = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    forward: Callable = net.projector  # type: ignore[assignment]
    while True:
        net.zero_grad()
        forward(net.encoder(x)).square().sum().backward()
        yield x
