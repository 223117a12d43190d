"""The nets and images that several benchmarks use."""

import numpy as np
import torch

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.models.architecture import Architecture, Net, build

BATCH = 128
CPU = torch.device("cpu")
SIMCLR = Augmentation()
NETS = {
    "0.1M": Architecture("cnn5", 32, 3, width=0.1, heads={"projector": (128, 64)}),
    "1M": Architecture("cnn5", 32, 3, width=0.3, heads={"projector": (128, 64)}),
}


def fresh_net(size: str, device: torch.device = CPU) -> Net:
    """A net in the memory layout of local-train."""
    net = build(NETS[size], torch.Generator().manual_seed(0))
    return net.to(device, memory_format=torch.channels_last)


def random_images(count: int) -> np.ndarray:
    """uint8 images of 32 x 32 x 3."""
    return np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), np.uint8)


def client_images(
    count: int, device: torch.device = CPU, pixels: np.ndarray | None = None
) -> Images:
    """A client's images as local-train prepares them; random ones, or `pixels`."""
    view = View(SIMCLR, 32, 3, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), True)
    index = np.arange(count)
    stored = random_images(count) if pixels is None else pixels
    return Images(stored, None, index, view, device)


def parameters(net: Net) -> int:
    """The number of parameters of the encoder."""
    return sum(p.numel() for p in net.encoder.parameters())
