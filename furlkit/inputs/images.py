"""Images for models: images of a folder get the size and channels of a model."""

from collections.abc import Iterable
from dataclasses import replace

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.decoded import Fit, colours_of
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Reading
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.matching import check_channels
from furlkit.models.description import architecture_of


def open_images(source: Source, model: Checkpoint, size: int | None = None) -> ImageSet:
    """Open images that fit the model; `size` replaces the model's image size."""
    images = replace(source, reading=reading_of(model)).images(fit_of([model], size))
    check_channels(images, model)
    check_reading(images, model)
    if size is None:
        warn_of_change(images, model)
    return images


def reading_of(model: Checkpoint) -> Reading:
    """Return how image files become pixels for this model."""
    return Reading.from_facts(model.facts.reading, model.path)


def check_reading(images: ImageSet, model: Checkpoint) -> None:
    """Check that the images have the window of the model."""
    ours, theirs = images.reading.window, reading_of(model).window
    if ours == theirs:
        return
    if ours is None:
        console.warn(
            f"{images.name}: images have 8 bits and no window, {model.path} was made "
            f"for images with --window {theirs}; the images are used unchanged"
        )
        return
    found = "images of 8 bits" if theirs is None else f"images with --window {theirs}"
    raise InputError(
        f"{model.path}: was made for {found}, {images.name} has --window {ours}; pack "
        "the images with the model's window, or create the model with init --window "
        f"{ours}"
    )


def warn_of_change(images: ImageSet, model: Checkpoint) -> None:
    """Warn if a model sees images in another size, or grey images in colour."""
    seen = architecture_of(model.path, model.facts)
    height, width, channels = images.images.shape[1:]
    found, expected = (width, height), (seen.image_size, seen.image_size)
    if (found, channels) != (expected, seen.channels):
        console.warn(
            f"{images.name}: images are {_described(found, channels)}, {model.path} "
            f"sees {_described(expected, seen.channels)}; the images are converted"
        )


def _described(size: tuple[int, int], channels: int) -> str:
    return f"{size[0]} x {size[1]} pixels in {colours_of(channels)}"


def fit_of(models: Iterable[Checkpoint], size: int | None = None) -> Fit:
    """Size of the largest model; grey if any model sees only grey."""
    seen = [architecture_of(model.path, model.facts) for model in models]
    largest = max(each.image_size for each in seen)
    return Fit(size or largest, min(each.channels for each in seen))
