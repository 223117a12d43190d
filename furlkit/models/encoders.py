"""Networks that compute h: a function from an architecture for each network."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.models.description import Architecture
from furlkit.models.heads import conv3x3


def cnn5(a: Architecture) -> nn.Module:
    """Five convolutions and a linear layer, of any width."""
    return Cnn5(a.channels, a.width)


def resnet(a: Architecture) -> nn.Module:
    """torchvision's ResNet without the classifier, with torchvision's tensor names."""
    from torchvision import models

    net = getattr(models, a.encoder)(weights=None)
    net.fc = nn.Identity()
    if a.stem == "small":
        net.conv1 = conv3x3(a.channels, 64)
        net.maxpool = nn.Identity()
    elif a.channels != 3:
        net.conv1 = nn.Conv2d(a.channels, 64, 7, stride=2, padding=3, bias=False)
    return net


class Cnn5(nn.Module):
    """Five 3x3 convolutions and a linear layer; pools after 1, 2 and 5."""

    def __init__(self, channels: int, width: float) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = (_scaled(c, width) for c in (64, 192, 384, 256, 256))
        self.conv1, self.bn1 = conv3x3(channels, c1), nn.BatchNorm2d(c1)
        self.conv2, self.bn2 = conv3x3(c1, c2), nn.BatchNorm2d(c2)
        self.conv3, self.bn3 = conv3x3(c2, c3), nn.BatchNorm2d(c3)
        self.conv4, self.bn4 = conv3x3(c3, c4), nn.BatchNorm2d(c4)
        self.conv5, self.bn5 = conv3x3(c4, c5), nn.BatchNorm2d(c5)
        self.fc = nn.Linear(c5 * 4 * 4, _scaled(2048, width))

    def forward(self, x: Tensor) -> Tensor:
        # Pooling before the ReLU gives equal numbers, with a quarter of the ReLUs.
        x = F.relu_(F.max_pool2d(self.bn1(self.conv1(x)), 2))  # (B, c1, H/2, W/2)
        x = F.relu_(F.max_pool2d(self.bn2(self.conv2(x)), 2))  # (B, c2, H/4, W/4)
        x = F.relu_(self.bn3(self.conv3(x)))
        x = F.relu_(self.bn4(self.conv4(x)))
        x = F.relu_(F.max_pool2d(self.bn5(self.conv5(x)), 2))  # (B, c5, H/8, W/8)
        return self.fc(_average_pool_4x4(x).flatten(1))


def _average_pool_4x4(x: Tensor) -> Tensor:
    """Adaptive average pooling to 4x4, by two matrix products.

    PyTorch's pooling has no deterministic gradient on CUDA, and equal runs must give
    equal bytes; the 4x4 maps of 32x32 images need no pooling.
    """
    rows, columns = x.shape[2:]
    if (rows, columns) == (4, 4):
        return x
    eye_rows = torch.eye(rows, dtype=x.dtype, device=x.device)
    eye_columns = torch.eye(columns, dtype=x.dtype, device=x.device)
    down = F.adaptive_avg_pool1d(eye_rows, 4).T  # (4, rows)
    across = F.adaptive_avg_pool1d(eye_columns, 4)  # (columns, 4)
    return down @ (x @ across)  # (B, C, 4, 4)


def _scaled(count: int, width: float) -> int:
    return max(1, round(count * width))
