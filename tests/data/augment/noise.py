"""Random numbers that the tests of augmentation share."""

import torch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def noise(*shape):
    return torch.rand(*shape, generator=generator(1))
