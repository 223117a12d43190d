"""A dataset as given on the command line."""

from dataclasses import dataclass
from pathlib import Path

from furlkit.data.sets.datasets import ImageSet, open_images, open_labels
from furlkit.data.sets.labels import LabelSet


@dataclass(frozen=True)
class Source:
    """A name or path, the folder of torchvision's files, whether to download them.

    Images are resized to `size`, if it is given.
    """

    data: str
    data_root: Path | None = None
    download: bool = False
    split: str = "train"
    size: int | None = None

    @property
    def name(self) -> str:
        """What the user gave, for messages."""
        return self.data

    def images(self) -> ImageSet:
        """Open the images."""
        return open_images(
            self.data,
            self.split,
            root=self.data_root,
            download=self.download,
            image_size=self.size,
        )

    def labels(self) -> LabelSet:
        """Open the labels without decoding images."""
        return open_labels(
            self.data, self.split, root=self.data_root, download=self.download
        )
