"""100 epochs of the linear probe, relative to one pass of feature extraction."""

import time
from collections.abc import Iterator

import numpy as np
import torch

from furlkit.data.batches import View
from furlkit.evaluation.linear import LinearSettings, fit_linear
from furlkit.models.architecture import Architecture, build
from furlkit.models.embedding import embed
from furlkit.runtime import Runtime, start
from tests.bench.world import SIMCLR, random_images

IMAGES, PART = 50_000, 512


def run() -> Iterator[str]:
    """The pass over 50,000 images is extrapolated from 512 of them."""
    start(Runtime("cpu", 1))
    generator = torch.Generator().manual_seed(0)
    net = build(Architecture("resnet18", 32, 3), generator)
    view = View(SIMCLR, 32, 3, (0.5,) * 3, (0.25,) * 3)
    began = time.perf_counter()
    embed(net, random_images(PART), np.arange(PART), view, "h")
    extraction = (time.perf_counter() - began) * IMAGES / PART
    features = torch.randn(IMAGES, 512, generator=generator)
    labels = torch.randint(10, (IMAGES,), generator=generator)
    began = time.perf_counter()
    fit_linear(features, labels, 10, LinearSettings(), generator)
    probe = time.perf_counter() - began
    yield (
        f"100 epochs {probe:.1f} s, extraction about {extraction:.0f} s, ratio "
        f"{probe / extraction:.3f} (bar: 1)"
    )
