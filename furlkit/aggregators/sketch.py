"""Sketches of models: two thousand numbers that estimate distances of models.

Charikar et al., "Finding Frequent Items in Data Streams", ICALP 2002: the count sketch.

    w    the weights of a model, each divided by the root of its tensor's size    (n,)
    S    one entry, 1 or -1, in each column; all others are 0                     (WIDTH, n)

With the division every tensor weighs alike. Without it the largest matrices decide, and
honest updates of those are almost orthogonal after a few steps; biases and small layers
agree far better.

aggregate computes S w in the pass that checks an upload, piece by piece, so nothing is
read twice. S is linear: S w_i - S w_j is the sketch of w_i - w_j. The cosine of two
sketches is the cosine of the vectors, with an error of about 1 / sqrt(WIDTH), 0.022. An
attacker who knows S can hide a change from it: a sketch finds mistakes and plain attacks,
and is no defence.
"""

from functools import cache
from hashlib import shake_128
from math import sqrt

import numpy as np

WIDTH = 2039  # A prime: the numbers of one input or channel fall into different places.
BLOCK = (
    129  # Rows of WIDTH numbers; a piece of a tensor of float32 fits into one block.
)


def sketch_of(values: np.ndarray, name: str, number: int, size: int) -> np.ndarray:
    """The sketch (WIDTH,) of one piece: its `number` in the tensor, the tensor's `size`."""
    total = np.zeros(WIDTH)
    step = BLOCK * WIDTH
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(values), step):
            signs = _signs(f"{name}/{number}/{start}", BLOCK)
            total += _sketch_of_block(values[start : start + step], signs)
    return np.roll(np.nan_to_num(total) / sqrt(size), _place_of(name))


def _sketch_of_block(values: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Sum rows of WIDTH numbers, each number with its sign and the sign of its row.

    Weights of one layer often move alike. With a sign for each row alone, rows that are
    alike would add up or cancel as a whole, and the error would be far larger.
    """
    numbers = values.astype(np.float32, copy=False) * _pattern()[: len(values)]
    rows, left = divmod(len(numbers), WIDTH)
    total = signs[:rows] @ numbers[: rows * WIDTH].reshape(rows, WIDTH)
    if left:
        total[:left] += signs[rows] * numbers[rows * WIDTH :]
    return total


@cache
def _pattern() -> np.ndarray:
    """The signs of the numbers of every block; blocks differ in the signs of rows."""
    return _signs("pattern", BLOCK * WIDTH)


def _place_of(name: str) -> int:
    """The place of a tensor's first number: small tensors should not share places."""
    return int.from_bytes(shake_128(name.encode()).digest(4), "little") % WIDTH


def _signs(seed: str, count: int) -> np.ndarray:
    """Return `count` numbers 1 or -1, determined by the seed."""
    bits = np.frombuffer(shake_128(seed.encode()).digest(-(-count // 8)), np.uint8)
    return 1 - 2 * np.unpackbits(bits)[:count].astype(np.float32)
