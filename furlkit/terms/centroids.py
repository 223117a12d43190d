"""Prototypes without classes: each image is drawn to the nearest global centroid.

Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI
2022, pulls an image to the global prototype of the image's class. Without labels the
nearest centroid takes the place of the prototype.

    u_i     unit rows, projections of the batch              (B, d)
    mu_k    global centroids, unit rows                      (K, d)
    lambda  weight of the term

    lambda mean_i min_k ||u_i - mu_k||^2
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def centroid_loss(z: Tensor, mu: Tensor) -> Tensor:
    """Mean squared distance of unit rows to the nearest centroid: 2 - 2 max_k cosine."""
    cosines = F.normalize(z, dim=1) @ F.normalize(mu, dim=1).detach().T  # (B, K)
    return (2 - 2 * cosines.amax(dim=1)).mean()


def centroids(
    net: nn.Module, given: Mapping[str, Any], *, centroid_weight: float
) -> Callable | None:
    """The term with lambda = `centroid_weight`; none in a round without centroids."""
    if not centroid_weight or "centroids" not in given:
        return None

    def term(batch, forward) -> Tensor:
        with torch.autocast(forward.z.device.type, enabled=False):
            loss = centroid_loss(forward.z.float(), given["centroids"])
            return centroid_weight * loss

    return term
