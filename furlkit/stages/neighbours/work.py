"""Embed images, and find the nearest images of each image."""

import numpy as np

from furlkit import runtime
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.knn import nearest_others
from furlkit.files.checkpoint import Checkpoint
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.stages.neighbours import NeighboursOptions


def nearest_images(
    options: NeighboursOptions,
    model: Checkpoint,
    images: ImageSet,
    index: np.ndarray,
    k: int,
) -> np.ndarray:
    """Positions in the dataset of the k nearest of each image at `index`."""
    device = runtime.start(options.runtime)
    net = load_net(model, device)
    view = view_of(model, Augmentation())
    rows = embed(net, images.images, index, view, options.layer)
    return index[nearest_others(rows.to(device), k).cpu().numpy()]
