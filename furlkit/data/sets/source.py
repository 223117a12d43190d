"""A dataset as the command line names it."""

from dataclasses import dataclass
from pathlib import Path

from furlkit.data.sets.datasets import ImageSet, open_images, open_labels
from furlkit.data.sets.labels import LabelSet


@dataclass(frozen=True)
class Source:
    """A name or path, where torchvision's files lie, and whether to fetch them."""

    name: str
    root: Path | None = None
    download: bool = False
    image_size: int | None = None
    split: str = "train"

    def images(self) -> ImageSet:
        """Open the images."""
        return open_images(
            self.name, self.split, root=self.root, download=self.download,
            image_size=self.image_size,
        )  # fmt: skip

    def labels(self) -> LabelSet:
        """Open the labels alone, decoding no image."""
        return open_labels(
            self.name, self.split, root=self.root, download=self.download
        )
