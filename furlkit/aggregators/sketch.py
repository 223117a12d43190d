"""Sketches of models: a thousand numbers, by which distances of models are estimated.

Charikar et al., "Finding Frequent Items in Data Streams", ICALP 2002: the count sketch.

    w    the weights of a model                                               (n,)
    S    one entry, 1 or -1, in each column; all others are 0                 (WIDTH, n)

S w is computed in the pass that checks an upload, piece by piece, so nothing is read
twice. S is linear: S w_i - S w_j is the sketch of w_i - w_j, and its length is that of
w_i - w_j, give or take 2 %. Whoever knows S can hide a change from it: a sketch finds
mistakes and plain attacks, and is no defence.
"""

from hashlib import shake_128

import numpy as np

WIDTH = 1021  # A prime: the numbers of one input or channel fall into different places.


def sketch_of(values: np.ndarray, name: str, number: int) -> np.ndarray:
    """The sketch of one piece of a tensor, (WIDTH,): its `number` among the pieces."""
    rows, left = divmod(len(values), WIDTH)
    signs = _signs(f"{name}/{number}", rows + 1)
    numbers = values.astype(np.float32, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        total = signs[:rows] @ numbers[: rows * WIDTH].reshape(rows, WIDTH)
        total[:left] += signs[rows] * numbers[rows * WIDTH :]
    return np.nan_to_num(total.astype(np.float64))


def _signs(seed: str, count: int) -> np.ndarray:
    """So many numbers 1 or -1, always the same for a seed."""
    bits = np.frombuffer(shake_128(seed.encode()).digest(-(-count // 8)), np.uint8)
    return 1 - 2 * np.unpackbits(bits)[:count].astype(np.float32)
