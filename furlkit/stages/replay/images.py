"""Find the images of a file by fingerprint."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from furlkit.data.sets.datasets import SPLITS, is_name
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import FurlkitError
from furlkit.files.dataset import read_dataset
from furlkit.stages.replay.chain import Link
from furlkit.stages.replay.words import Find, path_word

Known = tuple[list[str], dict[str, Any]]  # Words for images, and the fingerprint.


def finder(names: Iterable[str], where: dict[str, Any], found: dict[str, Link]) -> Find:
    """Return a function from a fingerprint to --data, and perhaps --split.

    The function compares the named datasets, packed files among `found`, and the digits,
    which need no files.
    """
    packed = [link.path for link in found.values() if link.header.kind == "dataset"]

    @cache
    def known() -> list[Known]:
        given = [pair for name in names for pair in _of_name(name, where)]
        own = (pair for path in packed for pair in _of_packed(path))
        return [*given, *own, *_of_name("digits", where)]

    def find(fingerprint: Any) -> list[str] | None:
        if not isinstance(fingerprint, dict):
            return None
        if type(fingerprint.get("examples")) is not int:
            return None
        fits = (w for w, each in known() if not same_dataset(fingerprint, each))
        return next(fits, None)

    return find


def _of_packed(path: Path) -> Iterator[Known]:
    with suppress(
        FurlkitError
    ):  # The user did not name this file, so damage is no error.
        yield [path_word(path)], read_dataset(path).facts.fingerprint


def _of_name(name: str, where: dict[str, Any]) -> Iterator[Known]:
    divided = Source(name).has_splits
    for split in SPLITS if divided else ("train",):
        source = Source(name, where["data_root"], False, split)
        # The fingerprint of a folder needs no decoding.
        known = source.labels() if source.is_folder else source.images()
        word = name if is_name(name) else path_word(name)
        yield [word, split] if divided else [word], known.fingerprint
