"""Datasets of torchvision in plain arrays.

CIFAR's files are pickles. torchvision unpickles them only after a check of the
published MD5, so a different pickle is never read. The other sets are plain binary
files, MATLAB files or text; from MNIST's old `processed/*.pt` copies torch reads only
tensors.
"""

import contextlib
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit.data.sets import digits
from furlkit.errors import InputError, UsageError


class TorchvisionSet(NamedTuple):
    """A torchvision dataset: class, argument of splits, mean and std.

    `place`: position of the files in --data-root. The argument is `train`, true or
    false, or `split`, the split's name. An unlabelled set is the unlabelled part of
    another set, with training images only.
    """

    name: str
    dataset: str
    place: str
    argument: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labelled: bool = True

    def read(
        self, split: str, root: Path, *, download: bool
    ) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
        """Images (N, H, W, C) uint8, labels and class names."""
        if not self.labelled and split != "train":
            raise UsageError(f"{self.name} has no {split} split, only train")
        loaded = self._load(split, root, download)
        images = _channels_last(np.asarray(loaded.data))
        if not self.labelled:
            return images, None, ()
        labels = getattr(loaded, "targets", None)
        labels = np.asarray(loaded.labels if labels is None else labels, np.int64)
        if labels.shape != (len(images),):
            raise InputError(
                f"{root}: {self.name} has {len(images):,} images but {len(labels):,} "
                "labels; remove its files and pass --download"
            )
        return images, labels, tuple(getattr(loaded, "classes", digits.CLASSES))

    def _load(self, split: str, root: Path, download: bool) -> Any:
        import torchvision

        dataset = getattr(torchvision.datasets, self.dataset)
        chosen = split == "train" if self.argument == "train" else split
        arguments = {self.argument: chosen if self.labelled else "unlabeled"}
        try:
            # torchvision prints to stdout, which is reserved for the command's result.
            with contextlib.redirect_stdout(io.StringIO()):
                return dataset(root=str(root), download=download, **arguments)
        except Exception as error:  # Damaged files raise many kinds of errors.
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{self.name}: not found, or broken, in {root.absolute()}, expected "
                f"{self.place}; {self._advice(download)} ({reason})"
            ) from error

    def _advice(self, download: bool) -> str:
        if download:
            return "the download failed; check the network connection"
        idx = "; idx files are read as --data FOLDER" * self.place.endswith("raw/")
        return f"pass --download, or --data-root with the folder of the files{idx}"


def _channels_last(images: np.ndarray) -> np.ndarray:
    if images.ndim == 3:
        return images[..., None]  # (N, H, W, 1)
    if images.shape[1] == 3 and images.shape[3] != 3:
        images = images.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images)


_CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
_CIFAR100 = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
_STL = ((0.4467, 0.4398, 0.4066), (0.2603, 0.2566, 0.2713))
_SVHN = ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
_FASHION = ((0.2860,), (0.3530,))
_SETS = (
    TorchvisionSet("cifar10", "CIFAR10", "cifar-10-batches-py/", "train", *_CIFAR10),
    TorchvisionSet("cifar100", "CIFAR100", "cifar-100-python/", "train", *_CIFAR100),
    TorchvisionSet("stl10", "STL10", "stl10_binary/", "split", *_STL),
    TorchvisionSet(
        "stl10-unlabelled", "STL10", "stl10_binary/", "split", *_STL, labelled=False
    ),
    TorchvisionSet("svhn", "SVHN", "train_32x32.mat", "split", *_SVHN),
    TorchvisionSet("mnist", "MNIST", "MNIST/raw/", "train", (0.1307,), (0.3081,)),
    TorchvisionSet("usps", "USPS", "usps.bz2", "train", (0.2469,), (0.2989,)),
    TorchvisionSet(
        "fashion-mnist", "FashionMNIST", "FashionMNIST/raw/", "train", *_FASHION
    ),
)
TORCHVISION_SETS = {entry.name: entry for entry in _SETS}
