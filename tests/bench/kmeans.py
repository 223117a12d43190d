"""The k-means of DeepCluster at the start of an epoch, relative to the epoch's steps.

A client has 10,000 images, whose projections have 128 numbers. The first epoch of a
round has a pass over the images as well, which fills the bank.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

import torch

from furlkit.models.architecture import build
from furlkit.objectives.deepcluster import DeepCluster, spherical_kmeans
from furlkit.runtime import Runtime, start
from furlkit.training.loop import Job, steps_per_epoch, train
from furlkit.training.plan import Plan
from tests.bench.step import _NoKeeper
from tests.bench.world import BATCH, NETS, client_images, parameters

IMAGES, K, ITERATIONS = 10_000, 100, 10
TURNS, STEPS = 5, 6


def run() -> Iterator[str]:
    """One line for each size of net: one clustering, three, and the bank."""
    start(Runtime("cpu", 1))
    images = client_images(IMAGES)
    for architecture in NETS.values():
        heads = {"projector": (128, 128)}
        net = build(
            replace(architecture, heads=heads), torch.Generator().manual_seed(0)
        )
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        learner = DeepCluster(net, (K,) * 3, ITERATIONS, 0.1)
        job = Job("bench", learner, images, Plan(10**6, BATCH), (0, "bench"))
        steps = train(job, _NoKeeper())
        next(steps)  # Begins the epoch.
        found = [_once(steps, learner, images) for _ in range(TURNS)]
        epoch, once, bank = (median(column) for column in zip(*found, strict=True))
        yield (
            f"cnn5 of {parameters(net):,}: an epoch's steps {epoch:.2f} s, a clustering "
            f"into {K} {once / epoch:.1%} of it (bar: 5%), three {3 * once / epoch:.1%}, "
            f"filling the bank once per round {bank / epoch:.1%}"
        )


def _once(steps: Iterator, learner: DeepCluster, images) -> tuple[float, ...]:
    """Seconds of an epoch's steps, of a clustering, and of filling the bank."""
    rng = torch.Generator().manual_seed(0)

    def several() -> None:
        for _ in range(STEPS):
            next(steps)

    return (
        _seconds(several) / STEPS * steps_per_epoch(IMAGES, BATCH),
        _seconds(lambda: spherical_kmeans(learner.bank, K, ITERATIONS, rng)),
        _seconds(lambda: learner._projections(images, rng)),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
