"""Public images of a term: opened once, and read in batches by step."""

from collections.abc import Callable

import numpy as np
import torch

from furlkit.data.batches import Batch, Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.exchanges.exchange import Setup
from furlkit.exchanges.usage import Values
from furlkit.training.loop import Purpose, positions


def public_source(values: Values, flag: str) -> Source:
    """Images of the options --FLAG-data and --FLAG-split."""
    place = {key: values[key] for key in ("data_root", "download", "cache")}
    split = values[f"{flag}_split"]
    return Source(values[f"{flag}_data"] or "", **place, split=split)


def public_batches(
    setup: Setup, images: ImageSet, index: np.ndarray, order: Purpose
) -> Callable[[int, int], Batch]:
    """Function of step and size: a batch of the images at `index`, without augmentation.

    Every pass over the set has a new random order, without an incomplete last batch.
    """
    view = setup.plain_view(setup.channels_last)
    public = Images(images.images, None, index, view, setup.device)

    def batch_of(step: int, size: int) -> Batch:
        # Plain images draw nothing from the generator.
        places = positions(public, size, order, step)
        return public.batch(places, torch.Generator(), step)

    return batch_of
