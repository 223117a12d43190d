"""Mean of clipped updates with Gaussian noise: differential privacy for each client.

McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018,
Algorithm 1 (fixed divisor). Andrew et al., "Differentially Private Learning with Adaptive
Clipping", NeurIPS 2021, Algorithm 1: the clip norm follows a quantile of the lengths.

    w_g      the global model at the start of the round: --parent
    C        clip norm, the longest update: --clip
    S        --clip-statistics: a change of BatchNorm's statistics of length S counts as
             much as an update of length C
    z        noise multiplier: --noise
    M        number of clients of a round: --cohort, a fixed number
    gamma    --clip-quantile; sigma_b: --count-noise; eta_C: --clip-rate

    u_k = w_k - w_g, statistics times C / S;    c_k = u_k min(1, C / ||u_k||)
    w   = w_g + (sum_k c_k + N(0, z^2 C^2)) / M
    b   = 1/2 + (sum_k (1[||u_k|| <= C] - 1/2) + N(0, sigma_b^2)) / M
    C  <- C exp(-eta_C (b - gamma)), the exponent limited to -1 ... 1

A client changes the sum by at most C, and the sum of the count by 1/2. Weights are equal:
a weight would be a further number of the client. Counters come from the parent. A noisy
variance is at least a tenth of the parent's: no further cost, because w_g is public.

Noise comes from the operating system. Each number is half the sum of four normal numbers,
which leaves no trace of single numbers in the last digits (Holohan and Braghin, "Secure
Random Sampling in Differential Privacy", 2021); sums are float64, the result is rounded.
"""

import os
from collections.abc import Callable, Iterator
from math import exp, inf, sqrt

import numpy as np

from furlkit.aggregators.clip import clip_factors
from furlkit.aggregators.distances import distances_from_parent
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import is_batchnorm_statistic

Draw = Callable[[int], np.ndarray]
LARGEST = 1e90  # Longer updates are left out: squares may have been cut off.
VARIANCE, FLOOR = "running_var", 0.1
STEP = 1.0  # Largest change of log C in a round, for any noise of the count.
TERMS = 4  # Normal numbers in a number of noise.


def system_noise(count: int) -> np.ndarray:
    """Draw `count` normal numbers from the operating system, float64."""
    return _box_muller(TERMS * count).reshape(TERMS, count).sum(axis=0) / sqrt(TERMS)


def _box_muller(count: int) -> np.ndarray:
    """Normal numbers from pairs of uniform numbers with 53 random bits, in (0, 1]."""
    half = -(-count // 2)
    bits = np.frombuffer(os.urandom(16 * half), np.uint64) >> np.uint64(11)
    uniform = (bits.astype(np.float64) + 1) / 2**53
    radius, angle = np.sqrt(-2 * np.log(uniform[:half])), 2 * np.pi * uniform[half:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return both[:count]


def update_lengths(uploads: Uploads, scale: float) -> np.ndarray:
    """||u_k|| for each client, statistics times `scale` = C / S."""
    return distances_from_parent(uploads, statistics=scale)


def private_mean(
    uploads: Uploads,
    *,
    clip: float,
    clip_statistics: float | None,
    noise: float,
    cohort: int,
    draw: Draw = system_noise,
) -> Pieces:
    """McMahan et al., Algorithm 1: clip, add, add noise, divide by the cohort."""
    scale = clip / (clip_statistics or clip)
    factors = _factors(update_lengths(uploads, scale), clip)

    def pieces(name: str) -> Iterator[np.ndarray]:
        unit = scale if is_batchnorm_statistic(name) else 1.0

        def moved(column: Iterator[np.ndarray]) -> np.ndarray:
            w_g = next(column).copy()
            if w_g.dtype.kind != "f":
                return w_g
            wide = w_g.astype(np.float64)
            total = noise * clip / unit * draw(wide.size).reshape(wide.shape)
            for factor, w_k in zip(factors, column, strict=True):
                total += factor * (w_k - wide) if factor else 0.0
            result = _kept_positive(name, wide, wide + total / cohort)
            with np.errstate(over="ignore"):  # aggregate refuses infinite values.
                return result.astype(w_g.dtype)

        return uploads.combine(name, moved, parent=True)

    return pieces


def _factors(lengths: np.ndarray, clip: float) -> np.ndarray:
    """min(1, C / ||u_k||) for each client; 0 for an update too long to measure."""
    return np.where(lengths < LARGEST, clip_factors(lengths, clip), 0.0)


def _kept_positive(name: str, w_g: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.maximum(w, FLOOR * w_g) if name.endswith(VARIANCE) else w


def next_clip(
    lengths: np.ndarray,
    *,
    clip: float,
    clip_quantile: float,
    count_noise: float,
    clip_rate: float,
    cohort: int,
    draw: Draw = system_noise,
) -> float:
    """Andrew et al., Algorithm 1: move C towards the quantile gamma of the lengths."""
    signs = float(np.sum((lengths <= clip) - 0.5))
    b = 0.5 + (signs + count_noise * float(draw(1)[0])) / cohort
    step = clip_rate * (b - clip_quantile)
    return clip * exp(-max(-STEP, min(STEP, step)))


def noise_of_sum(noise: float, count_noise: float | None) -> float:
    """z of the sum if sum and count together cost as much as one release with `noise`.

    Andrew et al., Theorem 1: z_Delta = (z^-2 - (2 sigma_b)^-2)^-1/2; infinite if the
    count alone costs as much.
    """
    if count_noise is None:
        return noise
    left = noise**-2 - (2 * count_noise) ** -2
    return left**-0.5 if left > 0 else inf
