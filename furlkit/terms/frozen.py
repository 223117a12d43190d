"""Frozen copies of a net, for terms that compare the net with an earlier model."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PARTS = ("encoder", "projector")


class Frozen(nn.ModuleDict):
    """Encoder and projector with other weights, in eval mode, without gradients."""

    def __init__(self, net: Any, tensors: Mapping[str, np.ndarray]) -> None:
        super().__init__({part: deepcopy(getattr(net, part)) for part in PARTS})
        for name, tensor in self.state_dict().items():
            tensor.copy_(torch.from_numpy(tensors[name]))
        self.requires_grad_(False).eval()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """z of x."""
        return self["projector"](self["encoder"](x))
