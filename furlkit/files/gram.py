"""Check that numbers can be cosines of vectors, by samples of images.

    G     cosines of s unit vectors                                    (s, s)
    M     stored cosines; every number differs from G's by at most e   (s, s)

G has no eigenvalue below 0. An eigenvalue changes by at most ||M - G||, which is at most
s e. If M has an eigenvalue below -s e, no vectors have the cosines M. The bound holds for
every encoding with the error e, so no honest file is refused.

A small s finds a few false numbers among the sampled images, because s e is small; a
large s finds a pattern in many numbers, because the eigenvalue grows with s.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SIZES = (4, 16, 64, 256)


class Impossible(NamedTuple):
    """Places of images with impossible cosines, the eigenvalue and the lower limit."""

    places: np.ndarray
    eigenvalue: float
    limit: float


def sampled_places(n: int, content: str) -> np.ndarray:
    """Draw at most max(SIZES) of n images; `content` is the hash of the file."""
    rng = np.random.default_rng(list(content.encode()))
    return rng.choice(n, min(n, max(SIZES)), replace=False)


def find_impossible(M: np.ndarray, error: float) -> Impossible | None:
    """Return images whose cosines no vectors have, or None; `error` is e."""
    both = (M + M.T).astype(np.float64) / 2
    for size in sorted({min(size, len(M)) for size in SIZES} - {0}):
        blocks = np.stack([*_diagonal_blocks(both, size)])
        lowest = np.linalg.eigvalsh(blocks)[:, 0]
        worst = int(lowest.argmin())
        if lowest[worst] < -size * error:
            places = np.arange(worst * size, (worst + 1) * size)
            return Impossible(places, float(lowest[worst]), -size * error)
    return None


def _diagonal_blocks(M: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(M) - size + 1, size):
        yield M[start : start + size, start : start + size]


def known_together(known: np.ndarray) -> list[int]:
    """Images, the first included, of which all cosines are known, (s, s) flags."""
    members = [0]
    for place in range(1, len(known)):
        if known[place, members].all():
            members.append(place)
    return members
