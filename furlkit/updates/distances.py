"""Distances between two models, over the tensors of w_k, which w_g contains too.

BatchNorm statistics are left out: they are computed, not trained.
"""

import numpy as np

from furlkit.errors import UsageError
from furlkit.weights import Tensors, is_batchnorm_statistic


def mean_conv(w_g: Tensors, w_k: Tensors) -> float:
    """Mean over convolutions of ||w_g - w_k||, the distance of FedU.

    A tensor with four dimensions is the weight of a convolution, with any name.
    """
    convolutions = [name for name, array in w_k.items() if array.ndim == 4]
    if not convolutions:
        raise UsageError(
            "distance mean-conv: the model has no convolutions; with --update dum, "
            "give --distance relative"
        )
    norms = [_square(w_g[name], w_k[name]) ** 0.5 for name in convolutions]
    return float(np.mean(norms))


def sum_squares(w_g: Tensors, w_k: Tensors) -> float:
    """||w_g - w_k||^2 over all weights: FedUSC Eq. 4 in print."""
    return sum(_square(w_g[name], w_k[name]) for name in _trained(w_k))


def relative(w_g: Tensors, w_k: Tensors) -> float:
    """||w_g - w_k|| / ||w_g||, independent of the size of the model."""
    length = sum(_square(w_g[name], 0) for name in _trained(w_k)) ** 0.5
    return sum_squares(w_g, w_k) ** 0.5 / max(length, np.finfo(np.float64).tiny)


def _trained(tensors: Tensors) -> list[str]:
    return [name for name in tensors if not is_batchnorm_statistic(name)]


def _square(a: np.ndarray, b: np.ndarray | int) -> float:
    return float(np.square(a.astype(np.float64) - b).sum())
