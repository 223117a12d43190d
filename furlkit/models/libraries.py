"""Encoders of torchvision and timm: networks without the classifier.

Tensors have the library's names and initial distributions. Dropout and stochastic depth
are off: furlkit derives all random numbers from a seed, so a resumed training writes
equal bytes; the libraries' dropout does not.
"""

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from furlkit.errors import UsageError, did_you_mean
from furlkit.models.description import Architecture

CLASSES = 1000  # Default number of classes in torchvision.
# Networks with additional classifiers inside, used only in training.
AUXILIARY = ("googlenet", "inception_v3")


def timm_encoder(a: Architecture) -> nn.Module:
    """timm's network for the name, image size and channels."""
    timm, name = _timm(a), name_of(a)
    if "." in name:
        raise UsageError(
            f"--encoder {a.encoder}: leave out .{name.partition('.')[2]}, a name of "
            "weights; give weights with init --from"
        )
    if not timm.is_model(name):
        raise _unknown(a, timm.list_models())
    sized = {"img_size": a.image_size} if has_fixed_size(a) else {}
    net = timm.create_model(name, num_classes=0, in_chans=a.channels, **sized)
    return _without_dropout(net)


def has_fixed_size(a: Architecture) -> bool:
    """Return True if timm's network requires one image size (position embeddings)."""
    found = _timm(a).get_pretrained_cfg(name_of(a))
    return found is not None and found.fixed_input_size


def timm_layers(a: Architecture) -> dict[str, Any]:
    """Names of the classifier and first convolution of a network timm can load."""
    if a.encoder == "cnn5":
        return {"classifier": "classifier", "first_conv": "conv1"}
    if not a.encoder.startswith("timm:"):  # A ResNet.
        return {"classifier": "fc", "first_conv": "conv1"}
    found = _timm(a).get_pretrained_cfg(name_of(a))
    names = ("classifier", "first_conv")
    return {name: getattr(found, name) for name in names if getattr(found, name, None)}


def torchvision_encoder(a: Architecture) -> nn.Module:
    """torchvision's network for the name, changed by `torchvision_changes`."""
    from torchvision import models

    if name_of(a) not in models.list_models(module=models):
        raise _unknown(a, models.list_models(module=models))
    net = models.get_model(name_of(a), weights=None, **torchvision_options(a))
    for place, layer in torchvision_changes(net, a.channels).items():
        owner, _, name = place.rpartition(".")
        setattr(net.get_submodule(owner), name, layer)
    return _without_dropout(net)


def torchvision_options(a: Architecture) -> dict[str, Any]:
    """Arguments of torchvision's function besides the name."""
    name, size = name_of(a), a.image_size
    if name in AUXILIARY:
        return {"aux_logits": False, "init_weights": True}
    if name.startswith("vit_"):
        return {"image_size": size}
    return {"input_size": (size, size)} if name.startswith("maxvit") else {}


def torchvision_changes(net: nn.Module, channels: int) -> dict[str, nn.Module]:
    """Replacements: an identity for the classifier, a new first layer for grey."""
    layers = dict(net.named_modules())
    last = [name for name, layer in layers.items() if _outputs(layer) == CLASSES][-1]
    changes: dict[str, nn.Module] = {last: nn.Identity()}
    first = first_convolution(net)
    if first is not None and channels != 3:
        changes[first] = _reading(layers[first], channels)
    return changes


def first_convolution(net: nn.Module) -> str | None:
    """Name of the layer that reads images."""
    found = (n for n, m in net.named_modules() if isinstance(m, nn.Conv2d))
    return next(found, None)


def name_of(a: Architecture) -> str:
    """Name of an encoder without the library's prefix."""
    return a.encoder.partition(":")[2] or a.encoder


def _outputs(layer: nn.Module) -> int | None:
    return getattr(layer, "out_features", getattr(layer, "out_channels", None))


def _reading(layer: Any, channels: int) -> nn.Conv2d:
    """Convolution like `layer` with another number of channels."""
    return nn.Conv2d(
        channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
        bias=layer.bias is not None,
    )  # fmt: skip


def _without_dropout(net: nn.Module) -> nn.Module:
    # Classes of stochastic depth in torchvision and timm, and their probability.
    depth = {"StochasticDepth": "p", "DropPath": "drop_prob"}
    for module in net.modules():
        dropout = isinstance(module, _DropoutNd)
        name = "p" if dropout else depth.get(type(module).__name__)
        if name is not None:
            setattr(module, name, 0.0)
    return net


def _timm(a: Architecture) -> Any:
    try:
        import timm
    except ImportError as error:
        raise UsageError(
            f"--encoder {a.encoder}: timm is not installed; run pip install "
            "'furlkit[timm]'"
        ) from error
    return timm


def _unknown(a: Architecture, names: Iterable[str]) -> UsageError:
    library = a.encoder.partition(":")[0]
    hint = did_you_mean(name_of(a), names, f"{library}:")
    return UsageError(f"--encoder {a.encoder}: {library} has no such network{hint}")
