"""FedStyle's nets beside the content model: a client's style model and its generator.

h_c    the representation of an image by the content model, which is averaged
h_s    by the client's own style model
G      two layers, (h_c, h_s) -> h', which is as long as h_c
"""

from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from furlkit.files.checkpoint import Checkpoint
from furlkit.models.architecture import Architecture, Net, build
from furlkit.models.heads import mlp
from furlkit.models.loading import full_architecture
from furlkit.weights import Tensors

N = TypeVar("N", bound=nn.Module)
PREFIX = "style."  # Before the names of the style model's tensors in a private file.
HIDDEN = 256  # The width between G's layers: FedStyle's "by default".


def style_architecture(
    model: Checkpoint, projector: tuple[int, ...] | None = None
) -> Architecture:
    """The encoder of the content model, with a projector of its own or without one."""
    whole = full_architecture(model.path, model.facts)
    heads = {"projector": projector} if projector else {}
    return replace(whole, heads=heads, projector_norm="hidden")


def empty_generator(h_dim: int) -> nn.Sequential:
    """G for h_c and h_s of this length, without weights.

    It has no BatchNorm: in training its inputs are two populations, images and Sobel
    images, and one for which running statistics of both would be wrong is evaluated.
    """
    with torch.device("meta"):
        return mlp(2 * h_dim, (HIDDEN, h_dim), "none")


def style_net(model: Checkpoint, tensors: Tensors, device: torch.device) -> Net:
    """A net that gives h_s, frozen."""
    return _filled(build(style_architecture(model), None), tensors, device)


class Stylised(nn.Module):
    """FedStyle Eq. 4, in the place of an encoder: h = h_c + G(concat[h_c, h_s])."""

    def __init__(self, content: nn.Module, style: nn.Module, generator: nn.Module):
        super().__init__()
        self.content, self.style, self.generator = content, style, generator

    def forward(self, x: Tensor) -> Tensor:
        h_c, h_s = self.content(x), self.style(x)
        return h_c + self.generator(torch.cat([h_c, h_s], dim=1))


def personalise(net: Net, style: Net, generator: Tensors) -> None:
    """Give a client's net the encoder of Eq. 4; its style model and its G are frozen."""
    G = filled_generator(generator, next(net.parameters()).device)
    net.encoder = Stylised(net.encoder, style.encoder, G)


def filled_generator(tensors: Tensors, device: torch.device) -> nn.Sequential:
    """G with a client's weights, frozen."""
    return _filled(empty_generator(len(tensors["fc2.weight"])), tensors, device)


def _filled(net: N, tensors: Tensors, device: torch.device) -> N:
    """A module without weights, with these, frozen and in eval mode."""
    state = {name: torch.from_numpy(array.copy()) for name, array in tensors.items()}
    net.load_state_dict(state, assign=True)
    return net.eval().requires_grad_(False).to(device)
