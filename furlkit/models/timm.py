"""furlkit's encoders, registered with timm by the import of this module.

    import timm
    import furlkit.models.timm
    net = timm.create_model("local-dir:encoder", pretrained=True)  # gives h
    net = timm.create_model("local-dir:encoder", pretrained=True, num_classes=4)

timm has no ResNet with a stem of 3x3 and without pooling, and no cnn5.
"""

from functools import partial
from typing import Any

import timm
from timm.models import build_model_with_cfg, register_model
from torch import Tensor, nn

from furlkit.models.encoders import Cnn5
from furlkit.models.heads import conv3x3


def _small_stem(like: str, in_chans: int = 3, **options: Any) -> nn.Module:
    """timm's network for the name, with furlkit's small stem."""
    net = timm.create_model(like, in_chans=in_chans, **options)
    net.conv1, net.maxpool = conv3x3(in_chans, 64), nn.Identity()
    return net


class Cnn5Classifier(Cnn5):
    """cnn5 with the methods of timm's networks, and a classifier on top of h."""

    def __init__(self, in_chans: int = 3, width: float = 1.0, num_classes: int = 0):
        super().__init__(in_chans, width)
        self.num_features = self.head_hidden_size = self.fc.out_features
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the classifier; 0 classes give h."""
        self.num_classes = num_classes
        linear = nn.Linear(self.num_features, num_classes) if num_classes else None
        self.classifier = linear or nn.Identity()

    def get_classifier(self) -> nn.Module:
        """The layer on top of h."""
        return self.classifier

    def forward_features(self, x: Tensor) -> Tensor:
        """Return h."""
        return super().forward(x)

    def forward_head(self, h: Tensor, pre_logits: bool = False) -> Tensor:
        """Return scores of the classes, or h if `pre_logits`."""
        return h if pre_logits else self.classifier(h)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of the classes, or h without classes."""
        return self.forward_head(self.forward_features(x))


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
    return build_model_with_cfg(Cnn5Classifier, "furlkit_cnn5", pretrained, **options)
