"""FedStyle's nets: a client's style model and generator, beside the content model.

h_c    the representation of an image by the averaged content model
h_s    the representation by the client's style model
G      two layers, (h_c, h_s) -> h', with the length of h_c
"""

from typing import TypeVar

import torch
from torch import Tensor, nn

from furlkit.files.checkpoint import Checkpoint
from furlkit.models.architecture import Net, build
from furlkit.models.description import style_architecture
from furlkit.models.heads import mlp
from furlkit.weights import Tensors

N = TypeVar("N", bound=nn.Module)
PREFIX = "style."  # Prefix of the style model's tensors in a private file.
HIDDEN = 256  # Width between G's layers: FedStyle's "by default".


def empty_generator(h_dim: int) -> nn.Sequential:
    """G for h_c and h_s of this length, without weights.

    G has no BatchNorm: the inputs in training are images and Sobel images, and their
    common running statistics would be wrong for images alone in evaluation.
    """
    with torch.device("meta"):
        return mlp(2 * h_dim, (HIDDEN, h_dim), "none")


def style_net(model: Checkpoint, tensors: Tensors, device: torch.device) -> Net:
    """Frozen net that computes h_s."""
    return _filled(build(style_architecture(model), None), tensors, device)


class Stylised(nn.Module):
    """FedStyle Eq. 4, used like an encoder: h = h_c + G(concat[h_c, h_s])."""

    def __init__(self, content: nn.Module, style: nn.Module, generator: nn.Module):
        super().__init__()
        self.content, self.style, self.generator = content, style, generator

    def forward(self, x: Tensor) -> Tensor:
        h_c, h_s = self.content(x), self.style(x)
        return h_c + self.generator(torch.cat([h_c, h_s], dim=1))


def personalise(net: Net, style: Net, generator: Tensors) -> None:
    """Give a client's net the encoder of Eq. 4, with frozen style model and G."""
    G = filled_generator(generator, next(net.parameters()).device)
    net.encoder = Stylised(net.encoder, style.encoder, G)


def filled_generator(tensors: Tensors, device: torch.device) -> nn.Sequential:
    """Frozen G with a client's weights."""
    return _filled(empty_generator(len(tensors["fc2.weight"])), tensors, device)


def _filled(net: N, tensors: Tensors, device: torch.device) -> N:
    """Fill an empty module; frozen and in eval mode."""
    state = {name: torch.from_numpy(array.copy()) for name, array in tensors.items()}
    net.load_state_dict(state, assign=True)
    return net.eval().requires_grad_(False).to(device)
