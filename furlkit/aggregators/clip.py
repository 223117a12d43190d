"""Mean of updates of bounded length.

Sun et al., "Can You Really Backdoor Federated Learning?", 2019: norm clipping.

    w_g      the global model at the start of the round: --parent
    p_k      the share of client k: --weights
    C        length limit of an update: --clip, or the median length

    w = w_g + sum_k p_k u_k min(1, C / ||u_k||),    u_k = w_k - w_g

Clients keep their weights, but no client can move the result by more than p_k C.
u_k excludes BatchNorm's statistics; their coordinate-wise median is used.

Memory is a slice of the uploads for each thread, a few MB; the uploads are read twice.
"""

from collections.abc import Iterator
from itertools import chain

import numpy as np

from furlkit.aggregators.distances import distances_from_parent
from furlkit.aggregators.median import blended, median_of
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import is_batchnorm_statistic


def clipped_mean(uploads: Uploads, *, clip: float | None) -> Pieces:
    """Sun et al.: shorten updates to at most `clip` = C."""
    factors = clip_factors(distances_from_parent(uploads), clip)

    def pieces(name: str) -> Iterator[np.ndarray]:
        if is_batchnorm_statistic(name):
            return median_of(uploads, name)
        kept = (np.asarray(uploads.shares(name)) * factors).tolist()
        rest = 1 - sum(kept)

        def moved(column: Iterator[np.ndarray]) -> np.ndarray:
            parent = next(column).copy()
            if parent.dtype.kind != "f":
                return blended(column, kept)
            return blended(chain([parent], column), [rest, *kept])

        return uploads.combine(name, moved, parent=True)

    return pieces


def clip_factors(norms: np.ndarray, bound: float | None) -> np.ndarray:
    """min(1, C / ||u_k||) for each client; without a bound, C is the median length."""
    C = float(np.median(norms)) if bound is None else bound
    return np.where(norms > C, C / np.where(norms > 0, norms, 1), 1.0)
