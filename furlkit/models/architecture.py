"""The net built from a description.

h = net.encoder(x)        the representation, kept and evaluated        (B, feature_dim)
z = net.projector(h)      the input of a contrastive loss               (B, z_dim)
"""

import math
from copy import deepcopy
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor, nn

from furlkit import catalogue
from furlkit.errors import FurlkitError, UsageError
from furlkit.models.description import (
    NORMS,
    Architecture,
    encoder_entry,
    head_entry,
)
from furlkit.models.heads import build_head

N = TypeVar("N", bound=nn.Module)


class Net(nn.Module):
    """An encoder, and heads in attributes with the heads' names."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        image = a.image_size, a.channels
        self.encoder: nn.Module = _empty_encoder(a)
        for name, widths in a.heads.items():
            head = head_entry(name)
            inputs = a.z_dim if head.reads == "z" and a.z_dim else a.feature_dim
            norm = a.projector_norm if name == "projector" else NORMS[0]
            module = build_head(head, self.encoder, inputs, widths, image, norm)
            self.add_module(name, module)

    def head(self, name: str) -> nn.Module | None:
        """Head with this name, or None."""
        return self._modules.get(name)

    def forward(self, x: Tensor) -> Tensor:
        """Representation h: (B, channels, H, W) -> (B, feature_dim)."""
        return self.encoder(x)


def build(architecture: Architecture, generator: torch.Generator | None) -> Net:
    """Build the net, with weights drawn from `generator` (on the generator's device).

    Without a generator the net stays on the meta device, costs nothing, and waits for
    `net.load_state_dict(tensors, assign=True)`; a forgotten load then fails. The global
    random state does not change in either case. The encoder is drawn first, so the
    encoder's weights do not depend on the heads.
    """
    with torch.device("meta"):
        net = Net(architecture)
    if generator is None:
        return net
    if not encoder_entry(architecture.encoder).draws:
        return drawn(net, generator)
    encoder = _encoder_drawn_by_itself(architecture, generator)
    net.encoder = nn.Identity()
    drawn(net, generator).encoder = encoder
    return net


def _encoder_drawn_by_itself(a: Architecture, generator: torch.Generator) -> nn.Module:
    """Encoder with the library's initial weights, drawn from `generator`.

    Libraries draw from torch's global generator. The global generator temporarily takes
    the state of `generator`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator.get_state())
        encoder = _built(a)
        generator.set_state(torch.get_rng_state())
    return encoder


def _empty_encoder(a: Architecture) -> nn.Module:
    """Encoder on the meta device; a library's encoder is built once, then copied."""
    if not encoder_entry(a.encoder).draws:
        return _built(a)
    return deepcopy(_library_encoder(a.bare))


@cache
def _library_encoder(bare: Architecture) -> nn.Module:
    with torch.device("meta"):
        net = _built(bare)
    held = net.state_dict().keys()
    lost = [name for name, _ in net.named_buffers() if name not in held]
    if lost:
        # No file holds these buffers (Swin's table of positions): fill them here.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            real = _built(bare)
        for name in lost:
            owner, _, buffer = name.rpartition(".")
            net.get_submodule(owner)._buffers[buffer] = real.get_buffer(name)
    return net


def _built(a: Architecture) -> nn.Module:
    """Call the encoder's function; a library may raise any error for a size."""
    entry = encoder_entry(a.encoder)
    try:
        return catalogue.load(entry.function)(a)
    except FurlkitError:
        raise
    except Exception as error:
        if not entry.draws:
            raise
        raise _unfit(a, error) from error


@cache
def measured_features(bare: Architecture) -> int:
    """Length of an encoder's h, computed without numbers for two images."""
    net = _empty_encoder(bare).to("meta").eval()
    size = bare.image_size
    images = torch.empty(2, bare.channels, size, size, device="meta")
    try:
        with torch.no_grad():
            h = net(images)
    except Exception as error:  # A library's network may raise anything.
        raise _unfit(bare, error) from error
    if not isinstance(h, Tensor) or h.ndim != 2 or len(h) != 2:
        found = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise UsageError(
            f"--encoder {bare.encoder}: gives {found} for two images, expected a row of "
            "features per image; choose a classification network"
        )
    return h.shape[1]


def _unfit(a: Architecture, error: Exception) -> UsageError:
    reason = " ".join(str(error).split())[:160]
    return UsageError(
        f"--encoder {a.encoder}: does not take images of {a.image_size} x "
        f"{a.image_size} x {a.channels} ({reason}); try another --image-size"
    )


def drawn(net: N, generator: torch.Generator) -> N:
    """Fill a module without weights with weights drawn from `generator`."""
    net.to_empty(device=generator.device)
    for module in net.modules():
        _initialise(module, generator)
    return net


def _initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Convolutions like torchvision's ResNet, outputs like PyTorch's layers.

    A module with parameters of another kind has a method `reset(generator)`.
    """
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        module.reset_running_stats()
        nn.init.ones_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d) and module.bias is None:
        nn.init.kaiming_normal_(
            module.weight, mode="fan_out", nonlinearity="relu", generator=generator
        )
    elif isinstance(module, nn.LayerNorm):
        module.reset_parameters()
    elif reset := getattr(module, "reset", None):
        reset(generator)
    elif isinstance(module, nn.Conv2d | nn.Linear):
        bound = 1 / math.sqrt(module.weight[0].numel())
        for tensor in module.parameters():
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
