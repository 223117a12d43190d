"""Random generators, each derived from (seed, round, client, purpose, ...).

Nothing in furlkit touches a global seed. A generator for each step, rather than one
that is carried along, means that a training can be taken up again at any step.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *purpose: int | str) -> int:
    """A 63-bit number that depends on every part of the purpose and nothing else."""
    words = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def numpy_generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.default_rng(derive(seed, *purpose))


def torch_generator(seed: int, *purpose: int | str) -> "torch.Generator":
    """A torch generator on the CPU for one purpose."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *purpose))
