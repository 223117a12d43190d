"""Random generators, derived from (seed, round, client, purpose, ...).

furlkit never uses a global seed. Each step derives a new generator, so a training can
resume at any step without a saved generator state.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *purpose: int | str) -> int:
    """Derive a 63-bit number from the seed and every part of the purpose."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def array_digest(array: np.ndarray) -> str:
    """Hash of numbers that get noise, as a part of the purpose of the noise.

    Equal noise on two arrays would cancel in the difference. With the hash only equal
    arrays get equal noise, also if a training is repeated with other options.
    """
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def numpy_generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Create a numpy generator for one purpose."""
    return np.random.default_rng(derive(seed, *purpose))


def torch_generator(seed: int, *purpose: int | str) -> "torch.Generator":
    """Create a torch generator on the CPU for one purpose."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *purpose))
