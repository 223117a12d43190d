"""furlkit's own encoders under names that timm finds, once this module is imported.

    import timm
    import furlkit.models.timm
    net = timm.create_model("local-dir:encoder", pretrained=True)

timm has no ResNet with a stem of 3x3 and without pooling, and no cnn5.
"""

from functools import partial
from typing import Any

import timm
from timm.models import build_model_with_cfg, register_model
from torch import nn

from furlkit.models.encoders import Cnn5
from furlkit.models.heads import conv3x3


def _small_stem(like: str, in_chans: int = 3, **options: Any) -> nn.Module:
    """timm's network of this name, with furlkit's small stem."""
    net = timm.create_model(like, in_chans=in_chans, **options)
    net.conv1, net.maxpool = conv3x3(in_chans, 64), nn.Identity()
    return net


def _cnn5(in_chans: int = 3, width: float = 1.0, num_classes: int = 0) -> nn.Module:
    if num_classes:
        raise ValueError(f"furlkit_cnn5 has no classifier: num_classes={num_classes}")
    return Cnn5(in_chans, width)


@register_model
def furlkit_resnet18(pretrained: bool = False, **options: Any) -> nn.Module:
    """ResNet-18 for small images."""
    make = partial(_small_stem, "resnet18")
    return build_model_with_cfg(make, "furlkit_resnet18", pretrained, **options)


@register_model
def furlkit_resnet34(pretrained: bool = False, **options: Any) -> nn.Module:
    """ResNet-34 for small images."""
    make = partial(_small_stem, "resnet34")
    return build_model_with_cfg(make, "furlkit_resnet34", pretrained, **options)


@register_model
def furlkit_resnet50(pretrained: bool = False, **options: Any) -> nn.Module:
    """ResNet-50 for small images."""
    make = partial(_small_stem, "resnet50")
    return build_model_with_cfg(make, "furlkit_resnet50", pretrained, **options)


@register_model
def furlkit_cnn5(pretrained: bool = False, **options: Any) -> nn.Module:
    """Five convolutions and a linear layer; `width` scales them."""
    return build_model_with_cfg(_cnn5, "furlkit_cnn5", pretrained, **options)
