"""The cost of infusion in a training step, alternating, on one thread.

A step of SimCLR with the second loss, whose styles are known, is compared with the same
step without it; the styles of all images once per round with the steps of its epochs.
"""

import time
from collections.abc import Iterator
from functools import partial
from statistics import median

import numpy as np
import torch

from furlkit.exchanges.style import add_generator
from furlkit.models.architecture import drawn
from furlkit.models.embedding import embed
from furlkit.models.style import empty_generator
from furlkit.objectives.learner import Stateless
from furlkit.objectives.simclr import step
from furlkit.runtime import Runtime, start
from furlkit.terms.infusion import infusion
from furlkit.training.loop import Job, steps_per_epoch, train
from furlkit.training.plan import Plan
from tests.bench.fedca import TURNS, _seconds
from tests.bench.step import _NoKeeper
from tests.bench.world import (
    BATCH,
    NETS,
    client_images,
    fresh_net,
    parameters,
    random_images,
)

IMAGES, EPOCHS = 10_000, 5


def run() -> Iterator[str]:
    """One line for each size of net."""
    start(Runtime("cpu", 1))
    for size in NETS:
        plain, infused = _steps(size), _steps(size, infuses=True)
        turns = [(_seconds(plain), _seconds(infused)) for _ in range(TURNS)]
        ratio = median(with_style / alone for alone, with_style in turns)
        rounds = EPOCHS * steps_per_epoch(IMAGES, BATCH) * median(t[0] for t in turns)
        yield (
            f"cnn5 of {parameters(fresh_net(size)):,}: a step with infusion takes "
            f"{ratio:.2f} times as long (bar: 1.35); h_s of {IMAGES:,} images and their "
            f"edges {_styles(size) / rounds:.1%} of {EPOCHS} epochs"
        )


def _steps(size: str, infuses: bool = False):
    """Endless steps."""
    net, images = fresh_net(size), client_images(IMAGES)
    learner = Stateless(net, partial(step, temperature=0.5, form="full"))
    terms = {}
    if infuses:
        h_dim, rng = NETS[size].feature_dim, torch.Generator().manual_seed(1)
        add_generator(learner, drawn(empty_generator(h_dim), rng))
        styles = torch.randn(2, IMAGES, h_dim, generator=rng).unbind()
        given = {"styles": styles, "learner": learner}
        terms["infusion"] = infusion(net, given, infusion=0.5, freeze_generator=False)
    plan = Plan(epochs=10**6, batch_size=BATCH)
    job = Job("bench", learner, images, plan, (0, "bench"), terms)
    return train(job, _NoKeeper())


def _styles(size: str) -> float:
    """Seconds for h_s of all images and of their Sobel images."""
    net, view = fresh_net(size), client_images(1)._view
    began = time.perf_counter()
    for edges in (False, True):
        embed(net, random_images(IMAGES), np.arange(IMAGES), view, "h", edges)
    return time.perf_counter() - began
