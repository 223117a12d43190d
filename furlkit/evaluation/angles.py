"""Angles between the features of two models, and their boxplot.

Zhang et al., "Federated Unsupervised Representation Learning" (FedCA), the alignment
module and Figure 4: angles between normalised representations of local models.
"""

import numpy as np
import torch
from torch import Tensor

from furlkit.errors import InputError
from furlkit.evaluation.scores import check_pair

BLOCK = 2**20  # Values of a model converted to float64 at once.
REACH = 1.5  # Longest whisker, in heights of the box.


def angles(a: Tensor, b: Tensor) -> Tensor:
    """Degrees between corresponding rows: a, b (n, d) -> (n), float64, 0 to 180.

        angle = 2 atan2(|u - v|, |u + v|),    u = a / |a|, v = b / |b|

    This equals arccos(u v), which loses half the digits near 0 and 180 (Kahan, "How
    Futile are Mindless Assessments of Roundoff", 2006, section 12); here equal rows
    give exactly 0. A row of zeros has no direction and is an InputError.
    """
    check_pair(a, b)
    rows = max(1, BLOCK // max(1, a.shape[1]))
    found = []
    for part, other in zip(a.split(rows), b.split(rows), strict=True):
        u, v = _unit(part), _unit(other)
        half = torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))  # (rows,)
        found.append(torch.rad2deg(2 * half))
    return torch.cat(found)


def _unit(rows: Tensor) -> Tensor:
    rows = rows.double()
    length = rows.norm(dim=1, keepdim=True)  # (rows, 1)
    if not length.all():
        raise InputError(
            "features: found a row of zeros, which has no direction; "
            "the model has collapsed"
        )
    return rows / length


def box(values: np.ndarray) -> dict[str, float | list[float]]:
    """Numbers of Tukey's boxplot of the values.

    `quartiles` are interpolated linearly. `whiskers` end at the outermost values
    within 1.5 heights of the box, but never inside the box; `fliers` is the share of
    values beyond the whiskers. `mean` and `std` cover all values.
    """
    # Sorted: the order of the values must not change the rounding of the sums.
    values = np.sort(np.asarray(values, dtype=np.float64))
    low, median, high = (float(q) for q in np.percentile(values, (25, 50, 75)))
    reach = REACH * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "quartiles": [low, median, high],
        "whiskers": [min(low, float(inside[0])), max(high, float(inside[-1]))],
        "min": float(values[0]),
        "max": float(values[-1]),
        "fliers": (len(values) - len(inside)) / len(values),
    }
