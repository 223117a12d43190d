"""MNIST, SVHN and USPS as tiny files in the formats that torchvision reads."""

import bz2
import hashlib
import struct
from pathlib import Path

import numpy as np
import scipy.io
import torchvision


def write(path: Path, content: bytes) -> list[str]:
    """Write bytes and return [name, md5], an entry of torchvision's lists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return [path.name, hashlib.md5(content).hexdigest()]


def write_mnist(root: Path, images, labels, folder="MNIST") -> None:
    """Images (N, 28, 28); torchvision asks for both splits."""
    for part in ("train", "t10k"):
        head = struct.pack(">4i", 0x803, len(images), 28, 28)
        raw = root / folder / "raw"
        write(raw / f"{part}-images-idx3-ubyte", head + images.tobytes())
        head = struct.pack(">2i", 0x801, len(labels))
        write(raw / f"{part}-labels-idx1-ubyte", head + bytes(labels))


def write_svhn(root: Path, images, labels, monkeypatch) -> None:
    """Images (32, 32, 3, N); a label of 10 stands for 0."""
    path = root / "train_32x32.mat"
    scipy.io.savemat(path, {"X": images, "y": np.array(labels, np.uint8)[:, None]})
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    table = {"train": ["no url", path.name, md5]}
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", table)


def write_usps(root: Path, values, labels) -> None:
    """Values (N, 256) from -1 to 1; labels from 1 to 10."""
    lines = [
        " ".join([str(label), *(f"{i + 1}:{v:.6f}" for i, v in enumerate(row))])
        for label, row in zip(labels, values, strict=True)
    ]
    write(root / "usps.bz2", bz2.compress("\n".join(lines).encode()))
