"""Encoders and heads: a description that fits in a header, and the net it describes.

h = net.encoder(x)        what is kept and evaluated        (B, feature_dim)
z = net.projector(h)      what a contrastive loss sees
"""

import dataclasses
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.errors import InputError, UsageError

FEATURE_DIMS = {"cnn5": 2048, "resnet18": 512, "resnet34": 512, "resnet50": 2048}
STEMS = ("auto", "small", "standard")
SMALLEST_IMAGE = 8  # Three max-pools of cnn5 leave one pixel of it.
LARGEST = 2**16  # A broken header must not ask for a layer nobody can build.
SMALL_STEM_BELOW = 64
ROTATIONS = 4
DECODER_CHANNELS = (64, 16)  # At the coarsest map; halved, but never below the second.


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build a net again; a checkpoint's header carries it.

    `stem` is stored resolved: "small" (3x3, stride 1, no max-pool) or "standard"
    (torchvision's 7x7 and max-pool) for a ResNet, "" for cnn5, which has none.
    `projector` and `predictor` list the widths of their layers, the last one being
    the output; the predictor maps z to something of z's own width.
    """

    encoder: str
    image_size: int
    channels: int
    width: float = 1.0
    stem: str = "auto"
    projector: tuple[int, ...] | None = None
    predictor: tuple[int, ...] | None = None
    decoder: bool = False
    classifier: int | None = None
    rotation: bool = False

    def __post_init__(self) -> None:
        _check_encoder(self)
        _check_heads(self)
        object.__setattr__(self, "width", float(self.width))
        object.__setattr__(self, "stem", _resolved_stem(self))

    @property
    def feature_dim(self) -> int:
        """Length of h."""
        return _scaled(FEATURE_DIMS[self.encoder], self.width)

    def to_dict(self) -> dict[str, Any]:
        """The same facts in JSON's types."""
        values = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Architecture":
        """Back from `to_dict`; InputError if it cannot have written these values."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            found = sorted(values) if isinstance(values, dict) else values
            raise InputError(
                f"architecture: found {found}, wanted exactly the keys "
                f"{sorted(names)}; was it written by another version of furlkit?"
            )
        lists = {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
        try:
            return cls(**{**values, **lists})
        except UsageError as error:
            raise InputError(f"architecture: {error}") from error


class Net(nn.Module):
    """An encoder and the heads it was asked to have; the others are None."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a, h = architecture, architecture.feature_dim
        self.encoder: nn.Module = _encoder(a)
        self.projector = _mlp(h, a.projector) if a.projector else None
        self.predictor = (
            _mlp(a.projector[-1], a.predictor) if a.projector and a.predictor else None
        )
        self.decoder = Decoder(h, a.image_size, a.channels) if a.decoder else None
        self.classifier = nn.Linear(h, a.classifier) if a.classifier else None
        self.rotation = nn.Linear(h, ROTATIONS) if a.rotation else None

    def forward(self, x: Tensor) -> Tensor:
        """The representation h: (B, channels, H, W) -> (B, feature_dim)."""
        return self.encoder(x)


def build(architecture: Architecture, generator: torch.Generator | None) -> Net:
    """The net, with weights drawn from `generator` (and on the generator's device).

    Without a generator the net stays on the meta device, costs nothing, and waits for
    `net.load_state_dict(tensors, assign=True)`; a forgotten load cannot pass for a net.
    The global random state is not touched either way. The encoder is drawn first, so
    its weights do not depend on which heads follow.
    """
    with torch.device("meta"):
        net = Net(architecture)
    if generator is None:
        return net
    net.to_empty(device=generator.device)
    for module in net.modules():
        _initialise(module, generator)
    return net


def _initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Convolutions as torchvision's ResNet, outputs as PyTorch's default layers."""
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        module.reset_running_stats()
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d) and module.bias is None:
        nn.init.kaiming_normal_(
            module.weight, mode="fan_out", nonlinearity="relu", generator=generator
        )
    elif isinstance(module, nn.Conv2d | nn.Linear):
        bound = 1 / math.sqrt(module.weight[0].numel())
        nn.init.uniform_(module.weight, -bound, bound, generator=generator)
        if module.bias is not None:
            nn.init.uniform_(module.bias, -bound, bound, generator=generator)


class Cnn5(nn.Module):
    """Five 3x3 convolutions and a linear layer; pools after 1, 2 and 5."""

    def __init__(self, channels: int, width: float) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = (_scaled(c, width) for c in (64, 192, 384, 256, 256))
        self.conv1, self.bn1 = _conv3x3(channels, c1), nn.BatchNorm2d(c1)
        self.conv2, self.bn2 = _conv3x3(c1, c2), nn.BatchNorm2d(c2)
        self.conv3, self.bn3 = _conv3x3(c2, c3), nn.BatchNorm2d(c3)
        self.conv4, self.bn4 = _conv3x3(c3, c4), nn.BatchNorm2d(c4)
        self.conv5, self.bn5 = _conv3x3(c4, c5), nn.BatchNorm2d(c5)
        self.fc = nn.Linear(c5 * 4 * 4, _scaled(FEATURE_DIMS["cnn5"], width))

    def forward(self, x: Tensor) -> Tensor:
        # Pooling before the ReLU gives the same numbers and leaves it a quarter to do.
        x = F.relu_(F.max_pool2d(self.bn1(self.conv1(x)), 2))  # (B, c1, H/2, W/2)
        x = F.relu_(F.max_pool2d(self.bn2(self.conv2(x)), 2))  # (B, c2, H/4, W/4)
        x = F.relu_(self.bn3(self.conv3(x)))
        x = F.relu_(self.bn4(self.conv4(x)))
        x = F.relu_(F.max_pool2d(self.bn5(self.conv5(x)), 2))  # (B, c5, H/8, W/8)
        return self.fc(_average_pool_4x4(x).flatten(1))


class Decoder(nn.Module):
    """h -> image: a linear layer to a map of at most 4x4, then doubled to full size."""

    def __init__(self, feature_dim: int, image_size: int, channels: int) -> None:
        super().__init__()
        *finer, start = _halved_until(image_size, 4)
        most, least = DECODER_CHANNELS
        self.sizes = finer[::-1]
        self.shape = (most, start, start)
        self.fc = nn.Linear(feature_dim, most * start * start)
        widths = [max(most >> i, least) for i in range(len(self.sizes) + 1)]
        self.convs = nn.ModuleList(map(_conv3x3, widths, widths[1:]))
        self.bns = nn.ModuleList(map(nn.BatchNorm2d, widths[1:]))
        self.out = nn.Conv2d(widths[-1], channels, 3, padding=1)

    def forward(self, h: Tensor) -> Tensor:
        x = F.relu(self.fc(h)).unflatten(1, self.shape)  # (B, most, start, start)
        for size, conv, bn in zip(self.sizes, self.convs, self.bns, strict=True):
            x = F.interpolate(x, size=(size, size), mode="nearest")
            x = F.relu_(bn(conv(x)))  # (B, width, size, size)
        return self.out(x)  # (B, channels, image_size, image_size)


def _encoder(a: Architecture) -> nn.Module:
    return Cnn5(a.channels, a.width) if a.encoder == "cnn5" else _resnet(a)


def _resnet(a: Architecture) -> nn.Module:
    """torchvision's ResNet without its classifier, tensors under their own names."""
    from torchvision import models

    net = getattr(models, a.encoder)(weights=None)
    net.fc = nn.Identity()
    if a.stem == "small":
        net.conv1 = _conv3x3(a.channels, 64)
        net.maxpool = nn.Identity()
    elif a.channels != 3:
        net.conv1 = nn.Conv2d(a.channels, 64, 7, stride=2, padding=3, bias=False)
    return net


def _mlp(inputs: int, widths: tuple[int, ...]) -> nn.Sequential:
    """Linear layers, BatchNorm and ReLU between; no bias where BatchNorm follows."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, width in enumerate(widths[:-1], start=1):
        layers[f"fc{i}"] = nn.Linear(inputs, width, bias=False)
        layers[f"bn{i}"] = nn.BatchNorm1d(width)
        layers[f"relu{i}"] = nn.ReLU(inplace=True)
        inputs = width
    layers[f"fc{len(widths)}"] = nn.Linear(inputs, widths[-1])
    return nn.Sequential(layers)


def _conv3x3(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


def _average_pool_4x4(x: Tensor) -> Tensor:
    """Adaptive average pooling to 4x4, as two matrix products.

    PyTorch's own has no deterministic gradient on CUDA, and equal runs give equal
    bytes here; on the 4x4 maps of 32x32 images there is nothing to do at all.
    """
    rows, columns = x.shape[2:]
    if (rows, columns) == (4, 4):
        return x
    eye_rows = torch.eye(rows, dtype=x.dtype, device=x.device)
    eye_columns = torch.eye(columns, dtype=x.dtype, device=x.device)
    down = F.adaptive_avg_pool1d(eye_rows, 4).T  # (4, rows)
    across = F.adaptive_avg_pool1d(eye_columns, 4)  # (columns, 4)
    return down @ (x @ across)  # (B, C, 4, 4)


def _halved_until(size: int, limit: int) -> list[int]:
    """`size`, its half rounded up, and so on to the first that is not above `limit`."""
    sizes = [size]
    while sizes[-1] > limit:
        sizes.append((sizes[-1] + 1) // 2)
    return sizes


def _scaled(count: int, width: float) -> int:
    return max(1, round(count * width))


def _check_encoder(a: Architecture) -> None:
    if not isinstance(a.encoder, str) or a.encoder not in FEATURE_DIMS:
        raise UsageError(
            f"--encoder {a.encoder}: wanted one of {', '.join(FEATURE_DIMS)}"
        )
    if not _is_count(a.image_size) or a.image_size < SMALLEST_IMAGE:
        raise UsageError(
            f"image size {a.image_size}: wanted {SMALLEST_IMAGE} to {LARGEST} pixels; "
            "resize smaller images"
        )
    if not _is_count(a.channels) or a.channels not in (1, 3):
        raise UsageError(f"{a.channels} channels: wanted 1 (grey) or 3 (colour)")
    number = isinstance(a.width, int | float) and not isinstance(a.width, bool)
    if not number or not 0 < a.width <= 16:
        raise UsageError(f"--width {a.width}: wanted a number above 0 and at most 16")
    if a.width != 1 and a.encoder != "cnn5":
        raise UsageError(
            f"--width {a.width}: {a.encoder} has one width; only cnn5 scales"
        )


def _check_heads(a: Architecture) -> None:
    for name, widths in (("projector", a.projector), ("predictor", a.predictor)):
        tuple_of_counts = isinstance(widths, tuple) and all(map(_is_count, widths))
        if widths is not None and not (widths and tuple_of_counts):
            raise UsageError(f"--{name} {widths}: wanted widths of layers, as 512,128")
    if a.predictor and not a.projector:
        raise UsageError("--predictor: works on z; give the net a --projector too")
    if a.predictor and a.projector and a.predictor[-1] != a.projector[-1]:
        raise UsageError(
            f"--predictor {a.predictor}: its last width must be z's, {a.projector[-1]}"
        )
    if a.classifier is not None and not _is_count(a.classifier):
        raise UsageError(f"classifier {a.classifier}: wanted the number of classes")
    for name in ("decoder", "rotation"):
        if not isinstance(getattr(a, name), bool):
            raise UsageError(f"{name} {getattr(a, name)}: wanted true or false")


def _is_count(value: object) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and 1 <= value <= LARGEST  # type: ignore[operator]


def _resolved_stem(a: Architecture) -> str:
    if a.encoder == "cnn5":
        if a.stem not in ("auto", ""):
            raise UsageError(f"--stem {a.stem}: cnn5 has no stem; leave the option out")
        return ""
    if a.stem not in STEMS:
        raise UsageError(f"--stem {a.stem}: wanted one of {', '.join(STEMS)}")
    if a.stem == "auto":
        return "small" if a.image_size < SMALL_STEM_BELOW else "standard"
    return a.stem
