"""Description of a net in a header, without torch.

An architecture names the encoder and the heads; `architecture.build` makes the net.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from furlkit import catalogue
from furlkit.data.sets.window import MOST_CHANNELS
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.files.targets import TargetFacts

T = TypeVar("T")
NORMS = ("hidden", "all")  # Layers of a projector with BatchNorm; default first.
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
            _measured(self)

    @property
    def feature_dim(self) -> int:
        """Length of h."""
        features = encoder_entry(self.encoder).features
        if features is None:
            return _measured(self)
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


def _measured(a: Architecture) -> int:
    """Length of h of a library's encoder, which needs torch."""
    return catalogue.load("furlkit.models.architecture:measured_features")(a.bare)


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


def architecture_of(path: Path, facts: CheckpointFacts) -> Architecture:
    """Architecture described by a checkpoint's header.

    A file with only some parts has only the heads among these parts.
    """
    whole = full_architecture(path, facts)
    return whole if facts.parts is None else whole.only(facts.parts)


def full_architecture(path: Path, facts: CheckpointFacts | TargetFacts) -> Architecture:
    """Architecture with all heads, including heads kept by clients."""
    try:
        return _parsed(json.dumps(facts.architecture))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


@lru_cache
def _parsed(text: str) -> Architecture:
    """Parse an architecture; cached."""
    return Architecture.from_dict(json.loads(text))


def style_architecture(
    model: Checkpoint, projector: tuple[int, ...] | None = None
) -> Architecture:
    """Encoder of the content model, with a new projector or without a projector."""
    whole = full_architecture(model.path, model.facts)
    heads = {"projector": projector} if projector else {}
    return replace(whole, heads=heads, projector_norm="hidden")


class ClassHead(NamedTuple):
    """Classification head: name, number among several heads, number of classes."""

    name: str
    number: int
    classes: int

    def logits(self, net: Any, h: Any) -> Any:
        """(B, feature_dim) -> (B, classes), selected from several heads by number."""
        found = getattr(net, self.name)(h)
        return found if found.ndim == 2 else found[:, self.number]


def z_width(checkpoint: Checkpoint) -> int:
    """Length of a model's z; a model without z is refused."""
    z_dim = architecture_of(checkpoint.path, checkpoint.facts).z_dim
    if z_dim is None:
        raise InputError(
            f"{checkpoint.path}: has no projector, so no z; use --layer h, or create "
            "the model with init --head projector"
        )
    return z_dim
