"""An encoder of two convolutions."""

from furlkit.catalogue import Encoder

ENCODER = Encoder("tiny", "furlkit_toys.tiny:build", features=32)


def build(architecture):
    """(B, C, S, S) -> (B, 32)."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(architecture.channels, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
