"""Outputs of a frozen model for images: h, z or probabilities."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from furlkit import console
from furlkit.data.augment import instahide, normalise, plain, sobel
from furlkit.data.batches import Images, View
from furlkit.models.architecture import Net
from furlkit.models.description import ClassHead
from furlkit.randomness import torch_generator

BATCH = 256


def represent(net: Net, x: Tensor, layer: str) -> Tensor:
    """Return h (the encoder's output) or z (the projector's output)."""
    h = net.encoder(x)
    projector = net.head("projector")
    return projector(h) if layer == "z" and projector is not None else h


@contextmanager
def batch_statistics(net: nn.Module) -> Iterator[None]:
    """Let BatchNorm normalise by each batch, without a change of running statistics.

    A BatchNorm layer without running statistics uses batch statistics in eval mode too.
    """
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    running = [(norm.running_mean, norm.running_var) for norm in norms]
    for norm in norms:
        norm.running_mean = norm.running_var = None
    try:
        yield
    finally:
        for norm, (mean, variance) in zip(norms, running, strict=True):
            norm.running_mean, norm.running_var = mean, variance


@torch.inference_mode()
def embed(
    net: Net,
    images: np.ndarray,
    index: np.ndarray,
    view: View,
    layer: str,
    edges: bool = False,
) -> Tensor:
    """Features (n, d), float32 on the CPU, of un-augmented images in eval mode.

    With `edges`, features of the Sobel images.
    """
    net.eval()
    device = next(net.parameters()).device
    rows = []
    with console.bar(f"embedding {len(index):,} images", len(index)) as bar:
        for start in range(0, len(index), BATCH):
            taken = images[index[start : start + BATCH]]  # (B, H, W, C)
            x = _input(taken, view, device, edges)
            rows.append(represent(net, x, layer).float().cpu())
            bar.reach(start + len(taken))
    return torch.cat(rows)


@torch.inference_mode()
def embed_views(
    net: Net, images: Images, layer: str, views: int, seed: int, purpose: str
) -> np.ndarray:
    """Features (views, n, d), float32, of augmented views of each image in eval mode.

    The views depend only on seed and purpose: models of one input size see equal views.
    """
    net.eval()
    every = []
    with console.bar(f"{views} views of {len(images):,} images", len(images)) as bar:
        for index in torch.arange(len(images)).split(BATCH):
            rng = torch_generator(seed, purpose, "views", int(index[0]))
            batch = images.batch(index, rng)
            rows = [represent(net, batch.one_view(), layer) for _ in range(views)]
            every.append(torch.stack(rows).float().cpu())
            bar.reach(int(index[-1]) + 1)
    return torch.cat(every, dim=1).numpy()


@torch.inference_mode()
def embed_probabilities(
    net: Net, images: np.ndarray, index: np.ndarray, view: View, head: ClassHead
) -> Tensor:
    """Softmax (n, classes) of a head's outputs, for un-augmented images."""
    h = embed(net, images, index, view, "h").to(next(net.parameters()).device)
    return head.logits(net, h).softmax(dim=1).cpu()


@torch.inference_mode()
def embed_mixed(
    net: Net,
    images: np.ndarray,
    index: np.ndarray,
    places: np.ndarray,
    view: View,
    rng: torch.Generator,
    masks: bool,
) -> Tensor:
    """z (n, d) of mixtures of the images at `index`, one for each of n `places`.

    With `masks` the mixtures are InstaHide's, otherwise their signs are kept.
    """
    net.eval()
    device = next(net.parameters()).device
    own = torch.from_numpy(places)
    chosen = instahide.draw_mixtures(own, len(index), rng)  # (n, k)
    coefficients = instahide.draw_coefficients(len(places), rng).to(device)  # (n, k)
    rows = []
    with console.bar(f"embedding {len(places):,} mixtures", len(places)) as bar:
        for start in range(0, len(places), BATCH):
            part = slice(start, start + BATCH)
            columns = chosen[part].T.numpy()  # (k, B)
            taken = (_input(images[index[each]], view, device) for each in columns)
            shape = (columns.shape[1], view.channels, view.size, view.size)
            mask = instahide.draw_mask(shape, rng) if masks else None
            x = instahide.mixed(taken, coefficients[part], mask)
            rows.append(represent(net, x, "z").float().cpu())
            bar.reach(start + len(x))
    return torch.cat(rows)


def _input(
    taken: np.ndarray, view: View, device: torch.device, edges: bool = False
) -> Tensor:
    """Net's input (B, C, S, S) of stored images (B, H, W, C), not augmented."""
    x = torch.from_numpy(np.ascontiguousarray(taken)).to(device)
    x = plain(x.expand(-1, -1, -1, view.channels), view.size)
    return normalise(sobel(x) if edges else x, view.mean, view.std)


def predict(net: Net, images: np.ndarray, view: View) -> Tensor:
    """Class predicted by the net's classifier for each un-augmented image, (n)."""
    h = embed(net, images, np.arange(len(images)), view, "h")  # (n, d)
    classifier = net.head("classifier")
    if classifier is None:
        raise ValueError("the net has no classifier")
    with torch.inference_mode():
        device = next(net.parameters()).device
        return classifier(h.to(device)).argmax(dim=1).cpu()


def cluster_probabilities(net: Net, h: Tensor, head: int) -> Tensor:
    """Probabilities q of the net's clusters for rows of h: (n, d) -> (n, H).

    Both are on the net's device. `head` selects one of several cluster heads.
    """
    clusters = net.head("clusters")
    if clusters is None:
        raise ValueError("the net has no clusters")
    with torch.inference_mode():
        logits = clusters(h)
        chosen = logits[:, head] if logits.dim() == 3 else logits  # (n, H)
        return chosen.float().softmax(dim=1)
