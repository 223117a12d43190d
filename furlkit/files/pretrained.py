"""Weights to start from: furlkit's checkpoints and exports, and other programs' files."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_all_finite, read_checkpoint
from furlkit.files.container.header import with_article
from furlkit.files.container.read import Container, is_plain, read_plain

WEIGHTS = "model.safetensors"  # What a folder of an export, or of Hugging Face's, has.


class Pretrained(NamedTuple):
    """Tensors under furlkit's names, encoder.* first of all.

    `whole` says that the encoder is all there, with the classifier that it may have been
    trained with; a checkpoint may lack parts that clients keep.
    """

    path: Path
    tensors: dict[str, np.ndarray]
    content: str
    whole: bool


def read_pretrained(path: Path) -> Pretrained:
    """Read weights from a file, or from a folder that holds them."""
    if path.is_dir():
        if not (path / WEIGHTS).is_file():
            raise InputError(
                f"{path}: is a folder without {WEIGHTS}; expected a file of weights, or "
                "the folder of an export"
            )
        path = path / WEIGHTS
    if is_plain(path):
        tensors, content = read_plain(path)
        return _bare(path, tensors, content)
    opened = Container(path)
    kind = opened.header.kind
    if kind == "encoder":
        return _bare(path, opened.tensors(), opened.content)
    if kind != "checkpoint":
        raise InputError(
            f"{path}: is {with_article(kind)} file; expected a checkpoint, an exported "
            "encoder, or a safetensors file of torchvision's or timm's"
        )
    source = read_checkpoint(path)
    return Pretrained(path, source.tensors, source.content, whole=False)


def _bare(path: Path, tensors: dict[str, np.ndarray], content: str) -> Pretrained:
    """An encoder alone, whose tensors have no part before their names."""
    check_all_finite(path, tensors)
    named = {f"encoder.{name}": array for name, array in tensors.items()}
    return Pretrained(path, named, content, whole=True)
