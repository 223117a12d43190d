"""The options of augmentation, shared by all stages that train."""

from typing import Any

import click

from furlkit.cli.options import Decorator, Numbers, Real, stacked


def augmenting(crop_scale: str, jitter: float, grey: float) -> Decorator:
    """The options, with defaults for the crop and for two probabilities."""
    return stacked(
        click.option("--crop-scale", type=Numbers(float, 2), default=crop_scale,
                     show_default=True, help="Random resized crop: range of the area."),
        click.option("--crop-ratio", type=Numbers(float, 2), default="0.75,1.3333",
                     show_default=True,
                     help="Random resized crop: range of width / height."),
        click.option("--flip", type=Real(0, 1), default=0.5, show_default=True,
                     help="Probability of a horizontal flip."),
        click.option("--jitter", type=Numbers(float, 4), default="0.4,0.4,0.4,0.1",
                     show_default=True, help="Brightness, contrast, saturation, hue."),
        click.option("--jitter-probability", type=Real(0, 1), default=jitter,
                     show_default=True, help="Probability of colour jitter."),
        click.option("--grey", type=Real(0, 1), default=grey, show_default=True,
                     help="Probability of greyscale."),
        click.option("--blur", type=Real(0, 1), default=0.0, show_default=True,
                     help="Probability of Gaussian blur."),
        click.option("--blur-sigma", type=Numbers(float, 2), default="0.1,2",
                     show_default=True, help="Range of the blur's sigma, in pixels."),
        click.option("--solarise", type=Real(0, 1), default=0.0,
                     show_default=True, help="Probability of solarising."),
        click.option("--cutout", type=click.IntRange(0), default=0, show_default=True,
                     help="Side of a square that is cut out, in pixels; 0 is off."),
        click.option("--randaugment", type=Numbers(int, 2), default="0,9",
                     show_default=True,
                     help="Operations an image, and magnitude of 30."),
    )  # fmt: skip


augmentation = augmenting(crop_scale="0.2,1", jitter=0.8, grey=0.2)
FIELDS = (
    "crop_scale", "crop_ratio", "flip", "jitter", "jitter_probability", "grey", "blur",
    "blur_sigma", "solarise", "cutout", "randaugment",
)  # fmt: skip


def build_augmentation(values: dict[str, Any]):
    """Take the options of augmentation out of `values`."""
    from furlkit.data.augment import Augmentation

    return Augmentation(**{name: values.pop(name) for name in FIELDS})
