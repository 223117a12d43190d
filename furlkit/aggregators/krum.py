"""Krum: the upload with the nearest neighbours; multi-Krum: the mean of several.

Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant Gradient
Descent", NeurIPS 2017.

    m    uploads; the paper's n
    f    upper limit of hostile uploads, 2 f + 2 < m
    k    number of chosen uploads; the paper's m

The score of an upload is the sum of squared distances to the m - f - 2 nearest uploads.
Scores ignore the clients' weights; multi-Krum averages the chosen uploads by weight.
Scores also ignore BatchNorm's statistics; the result has the median statistics of the
chosen uploads.

Memory is a slice of the uploads for each thread, a few MB, and the m x m distances; the
uploads are read twice.
"""

from collections.abc import Iterator

import numpy as np

from furlkit.aggregators.distances import inner_products, squared_distance_rows
from furlkit.aggregators.mean import shares_of
from furlkit.aggregators.median import blended, weighted_median
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.errors import UsageError
from furlkit.weights import is_batchnorm_statistic


def krum(uploads: Uploads, *, assumed_hostile: int, chosen: int) -> Pieces:
    """Mean of the `chosen` = k uploads with the lowest scores; Krum is k = 1."""
    m, f = len(uploads.clients), assumed_hostile
    if not 2 * f + 2 < m:
        raise UsageError(
            f"--assumed-hostile {f}: krum needs more than {2 * f + 2} uploads, there "
            f"are {m}"
        )
    if chosen > m - f:
        raise UsageError(
            f"--chosen {chosen}: {f} of {m} uploads may be hostile; expected at "
            f"most {m - f}"
        )
    scores = krum_scores(inner_products(uploads), f)
    picked = sorted(np.argsort(scores, kind="stable")[:chosen].tolist())
    members = set(picked)

    def pieces(name: str) -> Iterator[np.ndarray]:
        shares = uploads.shares(name)
        some = shares_of([shares[k] for k in picked])

        if is_batchnorm_statistic(name):
            return uploads.stacked(name, lambda x: weighted_median(x[picked], some))

        def of_picked(column: Iterator[np.ndarray]) -> np.ndarray:
            return blended((a for k, a in enumerate(column) if k in members), some)

        return uploads.combine(name, of_picked)

    return pieces


def krum_scores(G: np.ndarray, f: int) -> np.ndarray:
    """s(i): sum over the m - f - 2 uploads j != i nearest to i, (m,).

    `G`: inner products of the uploads, from any origin.
    """
    nearest, scores = len(G) - f - 2, []
    for rows, squares in squared_distance_rows(G):
        squares[np.arange(len(squares)), np.arange(rows.start, rows.stop)] = np.inf
        squares.sort(axis=1)
        scores.append(squares[:, :nearest].sum(axis=1))
    return np.concatenate(scores)
