"""Images of one grey each, and an encoder that returns their mean grey."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def save_greys(
    path: Path,
    values: Sequence[int],
    labels: Sequence[int] | None = None,
    channels: int = 1,
    **more: Any,
) -> Path:
    """Write one image of 8 x 8 equal pixels for each value."""
    images = np.zeros((len(values), 8, 8, channels), np.uint8)
    images += np.array(values, np.uint8)[:, None, None, None]
    if labels is not None:
        more["labels"] = np.array(labels)
    np.savez(path, images=images, **more)
    return path


def mean_grey_encoder(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return weights with the mean grey of an image as the first number of h.

    The first channel of every layer passes the image on, the other weights are 0.
    """
    names = ("fc.weight", "fc.bias", *(f"conv{i}.weight" for i in range(1, 6)))
    tensors = {f"encoder.{n}": np.zeros(shapes[f"encoder.{n}"], "f4") for n in names}
    for i in range(1, 6):
        tensors[f"encoder.conv{i}.weight"][0, 0, 1, 1] = 1
    tensors["encoder.fc.weight"][0, 0] = 1
    return tensors
