"""Options of the augmentation, without torch; `augment.views` applies the operations."""

from dataclasses import dataclass

from furlkit.errors import UsageError

TOP_MAGNITUDE = 30  # Of RandAugment.


@dataclass(frozen=True)
class Augmentation:
    """The operations on an image, in the order in which they are applied.

    flip, jitter_probability, grey, blur and solarise are probabilities. crop_scale and
    crop_ratio of (1, 1) disable the crop. randaugment is the number of operations
    (0 disables it) and their magnitude, 0 to 30; it is applied between flip and jitter.
    """

    crop_scale: tuple[float, float] = (0.2, 1.0)
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_probability: float = 0.8
    grey: float = 0.2
    blur: float = 0.0
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    solarise: float = 0.0
    cutout: int = 0
    randaugment: tuple[int, int] = (0, 9)

    def __post_init__(self) -> None:
        scale, ratio, sigma = self.crop_scale, self.crop_ratio, self.blur_sigma
        *factors, hue = self.jitter
        operations, magnitude = self.randaugment
        pair = "two positive numbers, the smaller first"
        expected = {
            "crop_scale": (0 < scale[0] <= scale[1] <= 1, f"{pair} (area, at most 1)"),
            "crop_ratio": (0 < ratio[0] <= ratio[1], f"{pair} (width / height)"),
            "blur_sigma": (0 < sigma[0] <= sigma[1], f"{pair} (pixels)"),
            "jitter": (
                min(factors) >= 0 and 0 <= hue <= 0.5,
                "brightness, contrast, saturation of at least 0, hue of 0 to 0.5",
            ),
            "randaugment": (
                operations >= 0 and 0 <= magnitude <= TOP_MAGNITUDE,
                "a number of operations, 0 for none, and a magnitude from 0 to 30",
            ),
        }
        for name, (good, values) in expected.items():
            if not good:
                flag, found = "--" + name.replace("_", "-"), getattr(self, name)
                raise UsageError(f"{flag}: found {found}, expected {values}")

    def check_channels(self, channels: int) -> None:
        """Refuse operations on colours for images that are neither grey nor RGB."""
        jitters = self.jitter_probability > 0 and any(self.jitter)
        off = {
            "--jitter-probability 0": jitters,
            "--grey 0": self.grey > 0,
            "--randaugment 0,9": self.randaugment[0] > 0,
        }
        flags = [flag for flag, on in off.items() if on]
        if flags and channels not in (1, 3):
            raise UsageError(
                f"{' '.join(flags)}: give {'this' if len(flags) == 1 else 'these'}, since "
                f"images of {channels} channels have no colours (--preset medical has no "
                "operation on colours)"
            )

    @property
    def weak(self) -> "Augmentation":
        """Its crop and flip alone."""
        return Augmentation(
            self.crop_scale, self.crop_ratio, self.flip, jitter_probability=0, grey=0
        )

    @property
    def crops(self) -> bool:
        """Whether images are cropped."""
        return (*self.crop_scale, *self.crop_ratio) != (1, 1, 1, 1)
