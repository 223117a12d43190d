"""Choose neighbours by labels, to measure clustering with correct neighbours.

    python examples/fedusc/same_class.py NEAR.safetensors DATA OUTPUT.safetensors --seed 0

NEAR is a file of `furlkit neighbours`. For each image, the program draws an equal number
of images with the image's class from the file; `local-train --neighbours-from` reads the
output. The program reads labels, so the output is for controlled runs only.
"""

import argparse
from pathlib import Path

import numpy as np

from furlkit.data.sets.source import Source
from furlkit.files.facts import Provenance
from furlkit.files.neighbours import read_neighbours, write_neighbours


def same_class(labels: np.ndarray, index: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Draw k images with an equal label for each image of index (n): (n, k).

    If the class has fewer than k other images, draw with replacement.
    """
    rng = np.random.default_rng(seed)
    nearest = np.empty((len(index), k), np.int64)
    for row, image in enumerate(index):
        others = index[(labels[index] == labels[image]) & (index != image)]
        if not len(others):
            raise SystemExit(f"image {image} is the only one of class {labels[image]}")
        nearest[row] = rng.choice(others, k, replace=len(others) < k)
    return nearest


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("near", type=Path)
    parser.add_argument("data")
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found, labels = read_neighbours(given.near), Source(given.data).labels().labels
    if labels is None:
        raise SystemExit(f"{given.data}: has no labels")
    nearest = same_class(labels, found.index, found.nearest.shape[1], given.seed)
    provenance = Provenance("neighbours", {}, given.seed, {"near": found.content})
    write_neighbours(given.output, nearest, found.index, found.facts, provenance)


if __name__ == "__main__":
    main()
