"""Datasets of torchvision, as plain arrays.

CIFAR's files are pickles. torchvision unpickles them only after their MD5 has matched
the published one, so a different pickle is never read. The other sets are plain binary
files, MATLAB files or text; from MNIST's old `processed/*.pt` copies torch reads only
tensors.
"""

import contextlib
import io
import pickle
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError, UsageError

DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class TorchvisionSet:
    """A torchvision dataset: its class, the argument of its splits, its mean and std.

    The argument is `train`, true or false, or `split`, the split's name. An unlabelled
    set is the unlabelled part of another, and has images to train on only.
    """

    dataset: str
    argument: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labelled: bool = True


_STL = ((0.4467, 0.4398, 0.4066), (0.2603, 0.2566, 0.2713))
TORCHVISION_SETS = {
    "cifar10": TorchvisionSet(
        "CIFAR10", "train", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    ),
    "cifar100": TorchvisionSet(
        "CIFAR100", "train", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    ),
    "stl10": TorchvisionSet("STL10", "split", *_STL),
    "stl10-unlabelled": TorchvisionSet("STL10", "split", *_STL, labelled=False),
    "svhn": TorchvisionSet(
        "SVHN", "split", (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)
    ),
    "mnist": TorchvisionSet("MNIST", "train", (0.1307,), (0.3081,)),
    "usps": TorchvisionSet("USPS", "train", (0.2469,), (0.2989,)),
    "fashion-mnist": TorchvisionSet("FashionMNIST", "train", (0.2860,), (0.3530,)),
}


def read_torchvision(
    name: str, split: str, root: Path, *, download: bool
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Images (N, H, W, C) uint8, labels and class names of one of TORCHVISION_SETS."""
    entry = TORCHVISION_SETS[name]
    if not entry.labelled and split != "train":
        raise UsageError(f"{name} has no {split} split, only train")
    loaded = _load(name, entry, split, root, download)
    images = _channels_last(np.asarray(loaded.data))
    if not entry.labelled:
        return images, None, ()
    labels = getattr(loaded, "targets", None)
    labels = np.asarray(loaded.labels if labels is None else labels).astype(np.int64)
    if labels.shape != (len(images),):
        raise InputError(
            f"{root}: {name} has {len(images):,} images but {len(labels):,} labels; "
            "remove its files and pass --download"
        )
    return images, labels, tuple(getattr(loaded, "classes", DIGITS))


def _load(
    name: str, entry: TorchvisionSet, split: str, root: Path, download: bool
) -> Any:
    import torchvision

    dataset = getattr(torchvision.datasets, entry.dataset)
    chosen = split == "train" if entry.argument == "train" else split
    arguments = {entry.argument: chosen if entry.labelled else "unlabeled"}
    try:
        # torchvision prints to stdout, which is only for the result of the command.
        with contextlib.redirect_stdout(io.StringIO()):
            return dataset(root=str(root), download=download, **arguments)
    except (  # what torchvision raises for missing or damaged files
        RuntimeError, OSError, ValueError, EOFError, AssertionError, KeyError, TypeError,
        IndexError, pickle.UnpicklingError, zlib.error,
    ) as error:  # fmt: skip
        advice = (
            "the download failed; check the network connection"
            if download
            else "pass --download, or --data-root with the folder that has it"
        )
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{name}: not found, or broken, in {root.absolute()}; {advice} ({reason})"
        ) from error


def _channels_last(images: np.ndarray) -> np.ndarray:
    if images.ndim == 3:
        return images[..., None]  # (N, H, W, 1)
    if images.shape[1] == 3 and images.shape[3] != 3:
        images = images.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images)
