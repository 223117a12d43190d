"""Digits in two styles, black on white and white on black."""

from collections.abc import Iterator

import numpy as np

from furlkit.data.sets.source import Source

STYLES = ("ink", "Real World")


def digits_in_styles() -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield each split with images, labels and domains; a third is white on black."""
    for split, count in (("train", 240), ("test", 90)):
        digits = Source("digits", split=split).images()
        images, labels = digits.images[:count].copy(), digits.labels[:count]
        domains = (np.arange(count) % 3 == 0).astype(int)
        images[domains == 1] = 255 - images[domains == 1]
        yield split, {"images": images, "labels": labels, "domains": domains}
