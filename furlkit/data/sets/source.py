"""A dataset as given on the command line."""

from dataclasses import dataclass
from pathlib import Path

from furlkit.data.sets.datasets import ImageSet, open_images, open_labels
from furlkit.data.sets.labels import LabelSet


@dataclass(frozen=True)
class Source:
    """A name or path, the folder of torchvision's files, whether to download them."""

    name: str
    root: Path | None = None
    download: bool = False
    image_size: int | None = None
    split: str = "train"

    def images(self) -> ImageSet:
        """Open the images."""
        return open_images(
            self.name,
            self.split,
            root=self.root,
            download=self.download,
            image_size=self.image_size,
        )

    def labels(self) -> LabelSet:
        """Open the labels without decoding images."""
        return open_labels(
            self.name, self.split, root=self.root, download=self.download
        )
