"""Weights to start from: checkpoints and exports of furlkit, and foreign files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_all_finite, read_checkpoint
from furlkit.files.container.header import with_article
from furlkit.files.container.read import Container, is_plain, read_plain
from furlkit.files.metrics import read_json

# Files in the folder of an export, or of a Hugging Face model.
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
Numbers = tuple[float, ...]


class Pretrained(NamedTuple):
    """Tensors under furlkit's names, encoder.* first.

    `whole`: the file has the complete encoder, perhaps with a classifier; a checkpoint
    may lack parts that clients keep. `normalisation`: mean and std of the training
    images, if the file or the folder records them; `reading`: the window of these
    images. `privacy`: the guarantee of aggregate --noise, which a copy keeps.
    """

    path: Path
    tensors: dict[str, np.ndarray]
    content: str
    whole: bool
    normalisation: tuple[Numbers, Numbers] | None = None
    reading: dict[str, Any] | None = None
    privacy: dict[str, Any] | None = None


def read_pretrained(path: Path) -> Pretrained:
    """Read weights from a file, or from a folder with a file of weights."""
    if path.is_dir():
        if not (path / WEIGHTS).is_file():
            raise InputError(
                f"{path}: is a folder without {WEIGHTS}; expected a file of weights, or "
                "the folder of an export"
            )
        path = path / WEIGHTS
    if is_plain(path):
        tensors, content = read_plain(path)
        return _bare(path, tensors, content, _config_beside(path))
    opened = Container(path)
    kind = opened.header.kind
    if kind == "encoder":
        facts = opened.header.facts
        return _bare(path, opened.tensors(), opened.content, facts)
    if kind != "checkpoint":
        raise InputError(
            f"{path}: is {with_article(kind)} file; expected a checkpoint, an exported "
            "encoder, or a safetensors file of torchvision's or timm's"
        )
    source = read_checkpoint(path)
    normalisation = _normalisation(vars(source.facts))
    more = (
        normalisation,
        source.facts.reading,
        _entries(vars(source.facts), "privacy"),
    )
    return Pretrained(path, source.tensors, source.content, False, *more)


def _bare(
    path: Path, tensors: dict[str, np.ndarray], content: str, about: Mapping[str, Any]
) -> Pretrained:
    """Wrap a bare encoder: add `encoder.` to the names of the tensors."""
    check_all_finite(path, tensors)
    named = {f"encoder.{name}": array for name, array in tensors.items()}
    more = (_entries(about, "reading"), _entries(about, "privacy"))
    return Pretrained(path, named, content, True, _normalisation(about), *more)


def _entries(about: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return a fact with several entries; None if the file has another value."""
    value = about.get(name)
    return value if isinstance(value, dict) else None


def _config_beside(path: Path) -> dict[str, Any]:
    """Read the part of timm's config.json about images, if the folder has the file."""
    config = path.parent / CONFIG
    if path.name != WEIGHTS or not config.is_file():
        return {}
    found = read_json(config)
    about = found.get("pretrained_cfg") if isinstance(found, dict) else None
    return about if isinstance(about, dict) else {}


def _normalisation(about: Mapping[str, Any]) -> tuple[Numbers, Numbers] | None:
    """Return mean and std, a number for each channel; None if either is invalid."""
    mean, std = about.get("mean"), about.get("std")
    if not isinstance(mean, list) or not isinstance(std, list):
        return None
    numbers = all(type(x) in (int, float) and -1e6 < x < 1e6 for x in [*mean, *std])
    if not numbers or len(mean) != len(std) or min(std, default=0) <= 0:
        return None
    return tuple(map(float, mean)), tuple(map(float, std))
