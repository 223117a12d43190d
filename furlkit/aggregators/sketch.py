"""Sketches of models: a thousand numbers, from which distances are estimated.

Charikar et al., "Finding Frequent Items in Data Streams", ICALP 2002: the count sketch.

    w    the weights of a model                                               (n,)
    S    one entry, 1 or -1, in each column; the remaining entries are 0      (WIDTH, n)

The pass that checks an upload computes S w piece by piece, without a second reading. S
is linear: S w_i - S w_j is the sketch of w_i - w_j, with the length of w_i - w_j to
within 2 %. An attacker who knows S can hide a change: a sketch finds mistakes and plain
attacks, and is no defence.
"""

from hashlib import shake_128

import numpy as np

WIDTH = 1021  # A prime: numbers of an input or channel fall into different places.


def sketch_of(values: np.ndarray, name: str, number: int) -> np.ndarray:
    """Sketch of a piece of a tensor, (WIDTH,); `number`: index of the piece."""
    rows, left = divmod(len(values), WIDTH)
    signs = _signs(f"{name}/{number}", rows + 1)
    numbers = values.astype(np.float32, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        total = signs[:rows] @ numbers[: rows * WIDTH].reshape(rows, WIDTH)
        total[:left] += signs[rows] * numbers[rows * WIDTH :]
    return np.nan_to_num(total.astype(np.float64))


def _signs(seed: str, count: int) -> np.ndarray:
    """Return `count` numbers 1 or -1, determined by the seed."""
    bits = np.frombuffer(shake_128(seed.encode()).digest(-(-count // 8)), np.uint8)
    return 1 - 2 * np.unpackbits(bits)[:count].astype(np.float32)
