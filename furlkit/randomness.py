"""Random generators, each derived from (seed, round, client, purpose, ...).

furlkit never uses a global seed. Each step derives its own generator, so that training
can be resumed at any step without saving the state of a generator.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *purpose: int | str) -> int:
    """A 63-bit number that depends only on the seed and every part of the purpose."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.default_rng(derive(seed, *purpose))


def torch_generator(seed: int, *purpose: int | str) -> "torch.Generator":
    """A torch generator on the CPU for one purpose."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *purpose))
