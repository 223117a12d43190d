"""Images for models: a folder's are brought to the size and channels of a model."""

from collections.abc import Iterable

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.decoded import Fit
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.matching import check_channels
from furlkit.models.loading import architecture_of


def open_images(source: Source, model: Checkpoint, size: int | None = None) -> ImageSet:
    """The images, which fit the model; `size` if it sees them in another than its own."""
    images = source.images(fit_of([model], size))
    check_channels(images, model)
    return images


def fit_of(models: Iterable[Checkpoint], size: int | None = None) -> Fit:
    """What all models can see: the size of the largest, and grey if one sees only that."""
    seen = [architecture_of(model.path, model.facts) for model in models]
    largest = max(each.image_size for each in seen)
    return Fit(size or largest, min(each.channels for each in seen))
