"""The linear probe: 100 epochs relative to feature extraction, five probes to one."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from furlkit.data.batches import View
from furlkit.evaluation.linear import LinearSettings, fit_linear
from furlkit.evaluation.logistic import choose_logistic
from furlkit.models.architecture import Architecture, build
from furlkit.models.embedding import embed
from furlkit.runtime import Runtime, start
from tests.bench.world import SIMCLR, random_images

PART = 512
ONE = Architecture("resnet18", 32, 3)
# h of 256 and of 2048.
SEVERAL = (
    Architecture("cnn5", 32, 3, width=0.125),
    Architecture("cnn5", 32, 3),
)
TRAIN, TEST = 20_000, 10_000
SHORT = 10  # Epochs that are measured of the 100 for five probes.


def run() -> Iterator[str]:
    """Extraction is extrapolated from 512 images."""
    start(Runtime("cpu", 1))
    extraction = _seconds_per_image(ONE) * 50_000
    probe = _seconds(lambda: _fit(*_problem(50_000, 512), 1, 100))
    yield (
        f"100 epochs {probe:.1f} s, extraction about {extraction:.0f} s, ratio "
        f"{probe / extraction:.3f} (bar: 1)"
    )
    for architecture in SEVERAL:
        yield from _several(architecture)


def _several(architecture: Architecture) -> Iterator[str]:
    """Five probes against one: the fits alone, and the whole of evaluate linear.

    Both are as long, relative to each other, in 10 epochs as in 100.
    """
    d, problem = architecture.feature_dim, _problem(TRAIN, architecture.feature_dim)
    extraction = _seconds_per_image(architecture) * (TRAIN + TEST)
    pairs = [
        [_seconds(lambda n=n: _fit(*problem, n, SHORT)) for n in (1, 5)]
        for _ in range(3)
    ]
    one, five = (100 / SHORT * min(times) for times in zip(*pairs, strict=True))
    whole = (extraction + five) / (extraction + one)
    yield (
        f"h of {d}, {TRAIN:,} images: one probe {one:.1f} s, five {five:.1f} s, ratio "
        f"{five / one:.2f}; with extraction, about {extraction:.0f} s, {whole:.2f} "
        "(bar: 1.5)"
    )
    if d < 1000:
        lbfgs = _seconds(lambda: choose_logistic(*problem, 10))
        yield f"h of {d}: --solver lbfgs {lbfgs:.1f} s"


def _problem(rows: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, d, generator=generator)
    return features, torch.randint(10, (rows,), generator=generator)


def _fit(
    features: torch.Tensor, labels: torch.Tensor, probes: int, epochs: int
) -> None:
    drawn = [torch.Generator().manual_seed(p) for p in range(probes)]
    fit_linear(features, labels, 10, LinearSettings(epochs=epochs), drawn)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _seconds_per_image(architecture: Architecture) -> float:
    net = build(architecture, torch.Generator().manual_seed(0))
    view = View(SIMCLR, 32, 3, (0.5,) * 3, (0.25,) * 3)
    images, index = random_images(PART), np.arange(PART)
    return _seconds(lambda: embed(net, images, index, view, "h")) / PART
