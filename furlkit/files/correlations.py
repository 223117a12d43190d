"""Correlation files: the mean of z z^T over images, for FedSC."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from furlkit.errors import InputError

ROUNDING = 1e-4  # Difference between R and R^T, relative to the largest number.


def check_symmetric(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Check that R (d, d) equals its transpose, up to rounding."""
    R = tensors["R"]
    most = np.abs(R - R.T).max(initial=0)
    if most > ROUNDING * max(float(np.abs(R).max(initial=0)), 1.0):
        raise InputError(
            f"{path}: R differs from its transpose by {most:.3g}; correlations are "
            "symmetric; create the file with local-train --correlations-out"
        )
