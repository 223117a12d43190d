"""Batched augmentation on the device of the images, with random values per image.

Every operation is a pair: `draw_*` draws the parameters of n images from a generator,
and a second function applies given parameters. `augment` composes them.
"""

from furlkit.data.augment.views import (
    Augmentation,
    augment,
    normalise,
    plain,
    two_views,
)

__all__ = ["Augmentation", "augment", "normalise", "plain", "two_views"]
