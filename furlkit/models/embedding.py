"""What a frozen model makes of images: h or z, computed once."""

import numpy as np
import torch
from torch import Tensor

from furlkit import console
from furlkit.data.augment import normalise, plain
from furlkit.data.batches import View
from furlkit.models.architecture import Net

BATCH = 256


@torch.inference_mode()
def embed(
    net: Net, images: np.ndarray, index: np.ndarray, view: View, layer: str
) -> Tensor:
    """Features (n, d), float32 on the CPU, of un-augmented images in eval mode.

    `layer` is h (what the encoder gives) or z (what the projector makes of it).
    """
    net.eval()
    device = next(net.parameters()).device
    rows = []
    with console.bar(f"embedding {len(index):,} images", len(index)) as bar:
        for start in range(0, len(index), BATCH):
            taken = images[index[start : start + BATCH]]  # (B, H, W, C)
            x = torch.from_numpy(np.ascontiguousarray(taken)).to(device)
            x = x.expand(-1, -1, -1, view.channels)
            x = normalise(plain(x, view.size), view.mean, view.std)
            h = net.encoder(x)
            if layer == "z" and net.projector is not None:
                h = net.projector(h)
            rows.append(h.float().cpu())
            bar.reach(start + len(taken))
    return torch.cat(rows)
