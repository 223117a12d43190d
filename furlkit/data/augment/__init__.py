"""Batched augmentation on the device of the images, with random values per image.

Every operation has two steps: the parameters of n images are drawn from a generator, and
a function applies given parameters. `augment` composes them.
"""

from furlkit.data.augment.sobel import sobel
from furlkit.data.augment.views import (
    Augmentation,
    augment,
    draw_views,
    normalise,
    plain,
)

__all__ = ["Augmentation", "augment", "draw_views", "normalise", "plain", "sobel"]
