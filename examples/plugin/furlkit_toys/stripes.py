"""A dataset of grey stripes, in one of three directions."""

import numpy as np

from furlkit.catalogue import Dataset

DATASET = Dataset("stripes", "furlkit_toys.stripes:read", mean=(0.5,), std=(0.35,))
SIZE = 16


def read(split, root, *, download):
    """Images (N, 16, 16, 1), their labels and the names of the classes."""
    count, seed = (240, 0) if split == "train" else (60, 1)
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    y, x = np.mgrid[:SIZE, :SIZE]
    across = np.stack([x, y, x + y])[labels]  # (N, 16, 16)
    wave = np.sin(across * rng.uniform(0.8, 1.2, (count, 1, 1)) + rng.uniform(0, 6))
    noise = rng.normal(0, 0.1, wave.shape)
    images = np.clip(127.5 * (1 + wave + noise), 0, 255).astype(np.uint8)
    return images[..., None], labels.astype(np.int64), ("down", "across", "diagonal")
