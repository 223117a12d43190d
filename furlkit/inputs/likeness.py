"""Warnings about uploads that are too similar or too different.

Both are legal, hence warnings: clients may have trained on equal images, and a server
may combine models trained with different options.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.files.container.header import canonical, short
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container
from furlkit.files.container.seal import starts_in
from furlkit.files.opening import open_regular
from furlkit.files.published import RECORD
from furlkit.inputs.uploads import Taken, Upload, usual
from furlkit.weights import is_batchnorm_statistic

SAMPLE = 4096
SHOWN = 3
# Options that depend on a client's machine and connection, and on disclosure.
OWN = (
    *("channels-last", "compile", "device", "encoding", "precision", "tell", "threads"),
    RECORD,
)


def name_copies(taken: Sequence[Taken]) -> None:
    """Warn about clients that sent another client's numbers, once for each model."""
    found: dict[Path, list[Upload]] = {}
    firsts: dict[Path, Upload] = {}
    for copy, first in copies(taken):
        firsts[first.path] = first
        found.setdefault(first.path, []).append(copy)
    for path, same in found.items():
        first, copy, others = firsts[path], same[0], len(same) - 1
        more = f", and {others:,} more clients too; all" if others else "; both"
        console.warn(
            f"{copy.path}: client {copy.facts.client} sent the same numbers as client "
            f"{first.facts.client} ({path}){more} count"
        )


def copies(taken: Sequence[Taken]) -> Iterator[tuple[Upload, Upload]]:
    """Yield each upload with the numbers of an earlier upload, and the earlier upload.

    BatchNorm's statistics and the numbering of rows are ignored. Complete bytes are
    compared only if a sample is equal. Files with digests are not read again.
    """
    seen: dict[tuple, list[Taken]] = {}
    for each in taken:
        alike = seen.setdefault(_key(each.file), [])
        first = next((one for one in alike if _same(one.file, each.file)), None)
        if first:
            yield each.upload, first.upload
        else:
            alike.append(each)


def _compared(entry: Entry) -> bool:
    return entry.name != "index" and not is_batchnorm_statistic(entry.name)


def _key(file: Container) -> tuple:
    """Layout, and the first bytes of the largest tensor."""
    layout = tuple((e.name, e.dtype.str, e.shape) for e in file.entries)
    largest = max(filter(_compared, file.entries), key=lambda e: e.size, default=None)
    if largest is None:
        return layout, b""
    if file.digests is not None:
        return layout, tuple(_digests(file))
    sample = np.empty(min(SAMPLE, largest.size), np.uint8)
    with open_regular(file.path) as stream:
        file.fill(sample, largest.start, stream.fileno())
    return layout, sample.tobytes()


def _digests(file: Container) -> Iterator[bytes]:
    """Yield the sha256 of each compared piece."""
    left = iter(file.digests or ())
    for entry in file.entries:
        found = [*islice(left, len(starts_in(entry.size)))]
        yield from found if _compared(entry) else ()


def _same(one: Container, other: Container) -> bool:
    if one.digests is not None and other.digests is not None:
        return True  # Equal keys contain equal digests.
    pairs = zip(one.pieces(), other.pieces(), strict=True)
    return all(
        np.array_equal(piece, their) or not _compared(entry)
        for (entry, piece), (_, their) in pairs
    )


def name_differences(taken: Sequence[Taken]) -> None:
    """Warn if uploads of a round were made with different options or partitions."""
    rounds: dict[Any, list[Taken]] = {}
    for each in taken:
        rounds.setdefault(each.upload.facts.round, []).append(each)
    for together in rounds.values():
        options = [each.file.header.options.items() for each in together]
        _name_odd(together, [{k: v for k, v in o if k not in OWN} for o in options])
        told = [getattr(each.upload.facts, "partition", None) for each in together]
        inputs = [each.file.header.inputs.get("partition") for each in together]
        both = zip(told, inputs, strict=True)
        _name_odd(together, [{"partition": one or other} for one, other in both])


def _name_odd(opened: list[Taken], made: list[dict[str, Any]]) -> None:
    """Print a line: the first odd upload, the difference, and the number of others."""
    texts = [canonical(each) for each in made]
    if len(Counter(texts)) == 1:
        return
    uploads = [each.upload for each in opened]
    common = usual(uploads, texts)
    theirs = made[uploads.index(common)]
    odd = [k for k, text in enumerate(texts) if text != canonical(theirs)]
    path, client = uploads[odd[0]].path, uploads[odd[0]].facts.client
    more = f"; {len(odd) - 1} more clients differ" if len(odd) > 1 else ""
    console.warn(
        f"{path}: client {client} has other {_differing(made[odd[0]], theirs)} than "
        f"{common.path}{more}"
    )


def _differing(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    names = [n for n in sorted({*ours, *theirs}) if ours.get(n) != theirs.get(n)]
    shown = [
        f"{name} ({short(ours.get(name))}, not {short(theirs.get(name))})"
        for name in names[:SHOWN]
    ]
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + rest
