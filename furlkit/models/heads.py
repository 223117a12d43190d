"""Heads on the representation: projectors, predictors, classifiers, clusters, ..."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.catalogue import Head, load

N = TypeVar("N", bound=nn.Module)
DECODER_CHANNELS = (64, 16)  # At the coarsest map; halved, but never below the second.


def build_head(
    head: Head,
    encoder: nn.Module,
    inputs: int,
    widths: tuple[int, ...],
    image: tuple[int, int],
    norm: str,
) -> nn.Module:
    """Build a head by form; `image`: size and channels of a decoder's output."""
    if head.form == "other":
        return load(head.function)(encoder, inputs, widths, image)
    if head.form == "decoder":
        return Decoder(inputs, *image)
    if head.form == "linear":
        return nn.Linear(inputs, widths[0])
    if head.form == "prototypes":
        return Prototypes(inputs, widths[0])
    if head.form == "clusters":
        return Clusters(inputs, widths[0], len(widths))
    return mlp(inputs, widths, norm)


def mlp(inputs: int, widths: tuple[int, ...], norm: str = "hidden") -> nn.Sequential:
    """Linear layers with BatchNorm and ReLU between; no bias before BatchNorm.

    With `norm` "all" BatchNorm follows the last layer too, without a shift, like
    SimCLR's official code, in which the hidden layers have the width of h. With "none"
    there is no BatchNorm.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, width in enumerate(widths[:-1], start=1):
        layers[f"fc{i}"] = nn.Linear(inputs, width, bias=norm == "none")
        if norm != "none":
            layers[f"bn{i}"] = nn.BatchNorm1d(width)
        layers[f"relu{i}"] = nn.ReLU(inplace=True)
        inputs = width
    last, all_ = len(widths), norm == "all"
    layers[f"fc{last}"] = nn.Linear(inputs, widths[-1], bias=not all_)
    if all_:
        layers[f"bn{last}"] = nn.BatchNorm1d(widths[-1])
        layers[f"bn{last}"].register_parameter("bias", None)
    return nn.Sequential(layers)


class Prototypes(nn.Linear):
    """Scores of z: products with unit rows.

    `steps` is the number of steps of a run, like BatchNorm's count of batches.
    """

    steps: Tensor

    def __init__(self, inputs: int, count: int) -> None:
        super().__init__(inputs, count, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def _apply(self, fn: Callable, recurse: bool = True) -> Self:
        """Leave the count on the CPU: reading from a GPU would wait for the GPU."""
        super()._apply(fn, recurse)
        if self.steps.device.type != "meta":
            self.steps = self.steps.cpu()
        return self

    def reset(self, generator: torch.Generator) -> None:
        """Draw rows with random directions; set the count to 0."""
        nn.init.normal_(self.weight, generator=generator)
        with torch.no_grad():
            self.weight.copy_(F.normalize(self.weight, dim=1))
        self.steps.zero_()


class Clusters(nn.Linear):
    """Logits of h for `count` clusters, by `heads` independent heads.

    One product serves all heads: head k has rows k * count to (k + 1) * count - 1.
    """

    def __init__(self, inputs: int, count: int, heads: int) -> None:
        super().__init__(inputs, heads * count)
        self.shape = heads, count

    def forward(self, h: Tensor) -> Tensor:
        """(B, feature_dim) -> (B, heads, count)."""
        return super().forward(h).unflatten(1, self.shape)


class Decoder(nn.Module):
    """h -> image: a linear layer to a map of at most 4x4, then doubled to full size."""

    def __init__(self, feature_dim: int, image_size: int, channels: int) -> None:
        super().__init__()
        sizes = [image_size]
        while sizes[-1] > 4:
            sizes.append((sizes[-1] + 1) // 2)
        *finer, start = sizes
        most, least = DECODER_CHANNELS
        self.sizes = finer[::-1]
        self.shape = (most, start, start)
        self.fc = nn.Linear(feature_dim, most * start * start)
        widths = [max(most >> i, least) for i in range(len(self.sizes) + 1)]
        self.convs = nn.ModuleList(map(conv3x3, widths, widths[1:]))
        self.bns = nn.ModuleList(map(nn.BatchNorm2d, widths[1:]))
        self.out = nn.Conv2d(widths[-1], channels, 3, padding=1)

    def forward(self, h: Tensor) -> Tensor:
        x = F.relu(self.fc(h)).unflatten(1, self.shape)  # (B, most, start, start)
        for size, conv, bn in zip(self.sizes, self.convs, self.bns, strict=True):
            x = F.interpolate(x, size=(size, size), mode="nearest")
            x = F.relu_(bn(conv(x)))  # (B, width, size, size)
        return self.out(x)  # (B, channels, image_size, image_size)


def conv3x3(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size of the map, without bias."""
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


def give_classifier(
    net: N, inputs: int, hidden: int, classes: int, generator: torch.Generator
) -> N:
    """Replace the heads of a net by a new classifier of h.

    Linear, ReLU, Linear; one linear layer if `hidden` is 0. Initialised like PyTorch's
    layers, but from `generator`.
    """
    # The last layer is drawn first: earlier results depend on this order.
    last = _drawn_linear(hidden or inputs, classes, generator)
    layers: list[nn.Module] = [last]
    if hidden:
        first = _drawn_linear(inputs, hidden, generator)
        layers = [first, nn.ReLU(inplace=True), last]
    for name in [name for name, _ in net.named_children() if name != "encoder"]:
        delattr(net, name)
    device = next(net.parameters()).device
    net.add_module("classifier", nn.Sequential(*layers).to(device))
    return net


def _drawn_linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    bound = inputs**-0.5
    for tensor in (layer.weight, layer.bias):
        nn.init.uniform_(tensor, -bound, bound, generator=generator)
    return layer
