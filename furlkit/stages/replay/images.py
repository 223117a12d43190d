"""Finding the images that a file was made from by their fingerprint."""

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

Known = tuple[list[str], dict[str, Any]]  # The words for images, their fingerprint.


def finder(names: Iterable[str], where: dict[str, Any], found: dict[str, Link]) -> Find:
    """A function that gives --data, and perhaps --split, for a fingerprint.

    It looks at the datasets that were named, at packed files among those that were
    found, and at the digits, which need no files.
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
    with suppress(FurlkitError):  # Nobody has asked for it, so it need not be whole.
        yield [path_word(path)], read_dataset(path).facts.fingerprint


def _of_name(name: str, where: dict[str, Any]) -> Iterator[Known]:
    divided = Source(name).has_splits
    for split in SPLITS if divided else ("train",):
        source = Source(name, where["data_root"], False, split)
        # A folder is known by its files, which need not be decoded.
        known = source.labels() if source.is_folder else source.images()
        word = name if is_name(name) else path_word(name)
        yield [word, split] if divided else [word], known.fingerprint
