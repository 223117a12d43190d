"""Description of a net for headers, and the net built from the description.

h = net.encoder(x)        the representation, kept and evaluated        (B, feature_dim)
z = net.projector(h)      the input of a contrastive loss               (B, z_dim)
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from furlkit import catalogue
from furlkit.data.sets.window import MOST_CHANNELS
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.models.heads import NORMS, build_head

T = TypeVar("T")
N = TypeVar("N", bound=nn.Module)
STEMS = ("auto", "small", "standard")
SMALLEST_IMAGE = 8  # Three max-pools of cnn5 leave one pixel.
LARGEST = 2**16  # A broken header must not ask for a huge layer.
SMALL_STEM_BELOW = 64
REQUIRED = {"encoder", "image_size", "channels"}
KEYS = REQUIRED | {"width", "stem", "heads", "projector_norm"}
# Heads with separate fields in format version 1.
VERSION_1_HEADS = ("projector", "predictor", "decoder", "classifier", "rotation")


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build a net, stored in a checkpoint's header.

    `stem` is stored resolved: "small" (3x3, stride 1, no max-pool) or "standard"
    (torchvision's 7x7 and max-pool) for a ResNet, "" for an encoder without a stem.
    `heads` maps heads to the widths of their layers, the output width last.
    `projector_norm` selects the projector's BatchNorm layers; see `heads.mlp`.
    """

    encoder: str
    image_size: int
    channels: int
    width: float = 1.0
    stem: str = "auto"
    heads: dict[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    projector_norm: str = "hidden"

    def __post_init__(self) -> None:
        _check_encoder(self)
        object.__setattr__(self, "width", float(self.width))
        object.__setattr__(self, "stem", _resolved_stem(self))
        object.__setattr__(self, "heads", _checked_heads(self.heads))
        if self.projector_norm not in NORMS:
            norm, known = str(self.projector_norm)[:60], ", ".join(NORMS)
            raise UsageError(f"--projector-norm {norm}: expected one of {known}")
        # Check that h exists for images of this size.
        if encoder_entry(self.encoder).features is None:
            _measured_features(self.bare)

    @property
    def feature_dim(self) -> int:
        """Length of h."""
        features = encoder_entry(self.encoder).features
        if features is None:
            return _measured_features(self.bare)
        return max(1, round(features * self.width))

    @property
    def bare(self) -> "Architecture":
        """Architecture without heads."""
        if not self.heads and self.projector_norm == NORMS[0]:
            return self
        return replace(self, heads={}, projector_norm=NORMS[0])

    @property
    def z_dim(self) -> int | None:
        """Length of z; None without a projector."""
        return self.heads["projector"][-1] if "projector" in self.heads else None

    def only(self, parts: list[str]) -> "Architecture":
        """Architecture with only the heads named in `parts`."""
        heads = {name: widths for name, widths in self.heads.items() if name in parts}
        if "projector" not in heads:
            heads = {k: v for k, v in heads.items() if head_entry(k).reads != "z"}
        return replace(self, heads=heads)

    def to_dict(self) -> dict[str, Any]:
        """Fields in JSON's types.

        A default norm is left out: older files do not name the norm, and equal nets
        must have equal headers.
        """
        heads = {name: list(widths) for name, widths in self.heads.items()}
        facts = {**vars(self), "heads": heads}
        if self.projector_norm == NORMS[0]:
            del facts["projector_norm"]
        return facts

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Architecture":
        """Inverse of `to_dict`; missing keys take their defaults."""
        named = isinstance(values, dict)
        if named and "heads" not in values:
            values = _from_version_1(values)
        if not named or not REQUIRED <= set(values) <= KEYS:
            found = sorted(values) if named else values
            raise InputError(
                f"architecture: found {str(found)[:200]}, expected the keys "
                f"{', '.join(sorted(KEYS))}; is the file from a newer furlkit?"
            )
        try:
            return cls(**values)
        except UsageError as error:
            raise InputError(f"architecture: {error}") from error


def _from_version_1(values: dict[str, Any]) -> dict[str, Any]:
    """Convert format version 1: heads were widths, numbers of classes, or booleans."""
    heads: dict[str, Any] = {}
    for name in VERSION_1_HEADS:
        found = values.get(name)
        if found is True and name in ("decoder", "rotation"):
            heads[name] = catalogue.HEADS[name].widths
        elif found not in (None, False):
            heads[name] = [found] if type(found) is int else found
    rest = {k: v for k, v in values.items() if k not in VERSION_1_HEADS}
    return {**rest, "heads": heads}


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
def _measured_features(bare: Architecture) -> int:
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


def encoder_entry(name: str) -> catalogue.Encoder:
    """Catalogue entry of an encoder."""
    return _entry("--encoder", name, catalogue.encoders)


def head_entry(name: str) -> catalogue.Head:
    """Catalogue entry of a head."""
    return _entry("head", name, catalogue.heads)


def _entry(what: str, name: str, entries: Callable[[], dict[str, T]]) -> T:
    """Entry of furlkit, otherwise of another package, which takes a search."""
    found = catalogue.entry_of(entries(), name)
    if found is None:
        catalogue.add_plugins()
        found = catalogue.entry_of(entries(), name)
    if found is None:
        raise UsageError(
            f"{what} {name}: expected one of {', '.join(entries())}; is the plugin "
            "package installed?"
        )
    return found


def _check_encoder(a: Architecture) -> None:
    entry = encoder_entry(str(a.encoder))
    if not _is_count(a.image_size) or a.image_size < SMALLEST_IMAGE:
        raise UsageError(
            f"image size {a.image_size}: expected {SMALLEST_IMAGE} to {LARGEST} pixels; "
            "resize smaller images"
        )
    if not _is_count(a.channels) or not 1 <= a.channels <= MOST_CHANNELS:
        raise UsageError(f"{a.channels} channels: expected 1 to {MOST_CHANNELS}")
    number = isinstance(a.width, int | float) and not isinstance(a.width, bool)
    if not number or not 0 < a.width <= 16:
        raise UsageError(f"--width {a.width}: expected a number above 0 and at most 16")
    if a.width != 1 and not entry.scales:
        raise UsageError(f"--width {a.width}: {a.encoder} has one width only")


def _checked_heads(heads: Any) -> dict[str, tuple[int, ...]]:
    """Heads in the catalogue's order, the order in which weights are drawn."""
    if not isinstance(heads, dict) or not all(isinstance(k, str) for k in heads):
        raise UsageError(f"heads {str(heads)[:60]}: expected widths by name")
    order = [*catalogue.HEADS, *sorted(heads.keys() - catalogue.HEADS.keys())]
    checked = {k: _checked_widths(k, heads[k]) for k in order if k in heads}
    for name, widths in checked.items():
        if head_entry(name).reads != "z":
            continue
        if "projector" not in checked:
            raise UsageError(f"--{name}: reads z; give the net a --projector too")
        if head_entry(name).form == "mlp" and widths[-1] != checked["projector"][-1]:
            raise UsageError(
                f"--{name} {','.join(map(str, widths))}: the last width must be z's, "
                f"{checked['projector'][-1]}"
            )
    return checked


def _checked_widths(name: str, widths: Any) -> tuple[int, ...]:
    form = head_entry(name).form
    counts = isinstance(widths, list | tuple) and all(map(_is_count, widths))
    several = range(1, 65)
    forms = {"decoder": (0,), "mlp": several, "clusters": several, "other": several}
    lengths = forms.get(form, (1,))
    listed = ",".join(map(str, widths)) if counts else str(widths)
    found = f"--{name} {listed[:60]}"
    if not counts or len(widths) not in lengths:
        raise UsageError(
            f"{found}: expected the widths of the layers, such as 512,128"
            if form in ("mlp", "other")
            else f"{found}: expected the number of outputs"
        )
    if form == "clusters" and (len({*widths}) > 1 or widths[0] < 2):
        raise UsageError(
            f"{found}: expected the number of clusters, 2 or more, equal for all heads"
        )
    return tuple(widths)


def _is_count(value: object) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and 1 <= value <= LARGEST  # type: ignore[operator]


def _resolved_stem(a: Architecture) -> str:
    if not encoder_entry(a.encoder).stems:
        if a.stem not in ("auto", ""):
            raise UsageError(
                f"--stem {a.stem}: {a.encoder} has no stem; leave the option out"
            )
        return ""
    if a.stem not in STEMS:
        raise UsageError(f"--stem {a.stem}: expected one of {', '.join(STEMS)}")
    if a.stem == "auto":
        return "small" if a.image_size < SMALL_STEM_BELOW else "standard"
    return a.stem
