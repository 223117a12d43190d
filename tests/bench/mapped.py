"""Training from a memory map compared with images in memory, alternating, on one thread.

A thread gathers the next batch while a step computes.
"""

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np

from furlkit.data import batches
from furlkit.runtime import Runtime, start
from tests.bench.step import TURNS, rate, whole_steps
from tests.bench.world import client_images, random_images

IMAGES = 10_000


def run() -> Iterator[str]:
    """One line for the small net, whose steps leave the least time to gather."""
    start(Runtime("cpu", 1))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        np.save(path, random_images(IMAGES))
        with mock.patch.object(batches, "RESIDENT_LIMIT", 0):
            mapped = client_images(IMAGES, pixels=np.load(path, mmap_mode="r"))
        both = whole_steps("0.1M"), whole_steps("0.1M", images=mapped)
        pairs = [(rate(both[0]), rate(both[1])) for _ in range(TURNS)]
    ratio = median(theirs / ours for ours, theirs in pairs)
    yield f"steps from a memory map: {ratio:.3f} of the speed of steps from memory"
