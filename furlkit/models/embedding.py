"""What a frozen model computes from images: h or z, once."""

import numpy as np
import torch
from torch import Tensor

from furlkit import console
from furlkit.data.augment import normalise, plain
from furlkit.data.batches import View
from furlkit.models.architecture import Net

BATCH = 256


def represent(net: Net, x: Tensor, layer: str) -> Tensor:
    """h, the encoder's output, or z, the projector's."""
    h = net.encoder(x)
    projector = net.head("projector")
    return projector(h) if layer == "z" and projector is not None else h


@torch.inference_mode()
def embed(
    net: Net, images: np.ndarray, index: np.ndarray, view: View, layer: str
) -> Tensor:
    """Features (n, d), float32 on the CPU, of un-augmented images in eval mode."""
    net.eval()
    device = next(net.parameters()).device
    rows = []
    with console.bar(f"embedding {len(index):,} images", len(index)) as bar:
        for start in range(0, len(index), BATCH):
            taken = images[index[start : start + BATCH]]  # (B, H, W, C)
            x = torch.from_numpy(np.ascontiguousarray(taken)).to(device)
            x = x.expand(-1, -1, -1, view.channels)
            x = normalise(plain(x, view.size), view.mean, view.std)
            rows.append(represent(net, x, layer).float().cpu())
            bar.reach(start + len(taken))
    return torch.cat(rows)


def predict(net: Net, images: np.ndarray, view: View) -> Tensor:
    """The class that the net's classifier gives each un-augmented image, (n)."""
    h = embed(net, images, np.arange(len(images)), view, "h")  # (n, d)
    classifier = net.head("classifier")
    if classifier is None:
        raise ValueError("the net has no classifier")
    with torch.inference_mode():
        device = next(net.parameters()).device
        return classifier(h.to(device)).argmax(dim=1).cpu()
