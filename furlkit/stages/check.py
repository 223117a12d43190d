"""check: find unreadable images of a dataset, and describe the images."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.data.sets.checked import Checked, checked_folder, image_hash
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.decoded import Fit
from furlkit.data.sets.folder import index_folder, size_range
from furlkit.data.sets.groups import group_names
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.cache import MOST_BYTES, bytes_in, default_cache
from furlkit.files.container.atomic import write_bytes
from furlkit.files.replaceable import mark_of
from furlkit.inputs.settings import fill
from furlkit.reports.sheet import contact_sheet
from furlkit.reports.text import byte_size, counted, plain

Result = tuple[str, dict[str, Any]]
DRAWN = 64  # Images of a contact sheet.


@dataclass(frozen=True)
class CheckOptions:
    """Dataset, test images to compare, and contact sheet to draw."""

    data: Source
    test_data: str | None
    sheet: Path | None
    model: Path | None
    channels: int | None
    groups: str | None


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Yield a description and the unreadable files; raise if a file is unreadable."""
    given = dict(values)
    given["size"] = given.pop("image_size")
    options = fill(CheckOptions, given)
    source = options.data
    found = checked_folder(Path(source.name)) if source.is_folder else None
    yield _folder(source, found) if found else _whole(source)
    if found and found.broken:
        raise InputError(
            f"{source.name}: {counted(len(found.broken), 'file')} cannot be read; replace "
            "or remove these files, or skip them with pack --skip-broken"
        )
    if found:
        index_folder(Path(source.name))
    if options.test_data:
        _compare(options, found)
    if options.sheet:
        _draw(options, options.sheet)


def _folder(source: Source, found: Checked) -> Result:
    root = Path(source.name)
    lines = [f"{root / name}: {why}" for name, why in sorted(found.broken.items())]
    cache = source.cache or default_cache()
    text = [*map(plain, lines), _summary(root, found), *_details(root, found)]
    return "\n".join([*text, _place(cache)]), _to_json(found, cache)


def _whole(source: Source) -> Result:
    """Describe a dataset that is a single file or a name."""
    opened = source.images(again=True)
    n, (height, width, channels) = len(opened.images), opened.images.shape[1:]
    line = f"{source.name}: {n:,} images of {height} x {width} x {channels}"
    if opened.reading.window:
        line += f", made with --window {opened.reading.window}"
    data = {"images": n, "broken": {}, **opened.reading.facts()}
    return f"{line}, all can be read", data


def _summary(root: Path, found: Checked) -> str:
    line = f"{root}: {counted(found.images, 'image')}"
    if found.sizes:
        line += f" of {size_range(found.sizes)}, {found.grey:,} grey"
    line += f"; {counted(len(found.broken), 'file')} cannot be read"
    return f"{line}; skipped {found.skipped}" if found.skipped else line


def _details(root: Path, found: Checked) -> Iterator[str]:
    """Yield formats, types and ranges; then channels, pages and copies to decide on."""
    formats = (f"{count:,} {name}" for name, count in sorted(found.formats.items()))
    types = (
        f"{count:,} {name} from {found.ranges[name][0]:.6g} to {found.ranges[name][1]:.6g}"
        for name, count in sorted(found.types.items())
    )
    if found.images:
        yield f"{root}: {', '.join(formats)}; {', '.join(types)}"
    if found.channels.keys() - {1, 3}:
        yield f"{root}: images have {_counts(found.channels)} channels; give --channels"
    if found.pages.keys() - {1}:
        yield f"{root}: files have {_counts(found.pages)} pages; give --pages or --slices"
    if several := found.animations[True]:
        yield f"{root}: {counted(several, 'file')} with an animation; give --pages first"
    if window := found.proposal:
        yield f"{root}: more than 8 bits: give pack or init --window {window}"
    if copies := found.duplicates:
        first, second = copies[0][:2]
        yield (
            f"{root}: {counted(len(copies), 'image')} more than once, such as {first} and "
            f"{second}"
        )


def _counts(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _place(cache: Path | None) -> str:
    if cache is None:
        return "decoded images are not kept: the user has no home folder; give --cache"
    return (
        f"decoded images are kept in {cache} ({byte_size(bytes_in(cache))} of at most "
        f"{byte_size(MOST_BYTES)}), which may be removed at any time"
    )


def _to_json(found: Checked, cache: Path | None) -> dict[str, Any]:
    sizes = [[*size, count] for size, count in sorted(found.sizes.items())]
    types = {
        name: {"images": count, "low": low, "high": high}
        for name, count in sorted(found.types.items())
        for low, high in [found.ranges[name]]
    }
    return {
        "images": found.images, "broken": found.broken, "skipped": found.skipped,
        "sizes": sizes, "grey": found.grey, "formats": dict(found.formats),
        "types": types, "channels": dict(found.channels), "pages": dict(found.pages),
        "animations": found.animations[True],
        "duplicates": found.duplicates, "window": found.proposal,
        "cache": str(cache) if cache else None,
        "cache_bytes": bytes_in(cache) if cache else 0,
    }  # fmt: skip


def _compare(options: CheckOptions, found: Checked | None) -> None:
    """Warn if test images are among the images."""
    source = options.data
    other = replace(source, data=str(options.test_data), split="test")
    ours = _digests(source, found)
    theirs = _digests(
        other, checked_folder(Path(other.name)) if other.is_folder else None
    )
    if options.groups:
        _compare_groups(source, other, options.groups)
    if shared := sorted(ours.keys() & theirs.keys()):
        one, two = ours[shared[0]], theirs[shared[0]]
        console.warn(
            f"{other.name} has {counted(len(shared), 'image')} of {source.name}, for "
            f"example {two}, called {one} there; scores on known images are misleading"
        )


def _compare_groups(one: Source, other: Source, groups: str) -> None:
    """Warn if both datasets have images of one group, for example of a patient."""
    ours, theirs = (_one_of_each(source, groups) for source in (one, other))
    if shared := sorted(ours.keys() & theirs.keys()):
        console.warn(
            f"{one.name} and {other.name} share {counted(len(shared), 'group')}, for "
            f"example of {ours[shared[0]]} and {theirs[shared[0]]}; divide the images "
            "with pack --groups and --train-fraction"
        )


def _one_of_each(source: Source, groups: str) -> dict[str, str]:
    """Return a file of each group."""
    if not source.is_folder:
        raise UsageError(f"--groups {groups}: {source.name} is not a folder of images")
    paths = index_folder(Path(source.name)).paths
    names = group_names(groups, source.name, len(paths), paths)
    return dict(zip(reversed(names), reversed(paths), strict=True))


def _digests(source: Source, found: Checked | None) -> dict[str, str]:
    """Return an image of each content, by name or number."""
    if found is not None:
        return {digest: min(names) for digest, names in found.digests.items()}
    return {image_hash(x): f"image {n}" for n, x in enumerate(source.images().images)}


def _draw(options: CheckOptions, sheet: Path) -> None:
    """Draw images in the form that the network sees, before normalisation."""
    opened, size = _opened(options)
    count = len(opened.images)
    chosen = np.unique(np.linspace(0, count - 1, min(DRAWN, count)).astype(int))
    seen = np.asarray(opened.images[chosen])
    most = np.iinfo(seen.dtype).max
    pixels = seen / most if size is None else _resized(seen, size)
    write_bytes(sheet, contact_sheet(pixels, mark_of("check")))
    console.info(f"{sheet}: {len(chosen)} of {count:,} images")


def _opened(options: CheckOptions) -> tuple[ImageSet, int | None]:
    """Return the images, and the image size of --model."""
    if options.model is None:
        fit = Fit(options.data.size, options.channels or 3)
        return options.data.images(fit), None
    from furlkit.files.checkpoint import read_checkpoint
    from furlkit.inputs.images import open_images

    model = read_checkpoint(options.model)
    opened = open_images(options.data, model)
    return opened, int(model.facts.architecture["image_size"])


def _resized(images: np.ndarray, size: int) -> np.ndarray:
    import torch

    from furlkit.data.augment import plain

    return plain(torch.from_numpy(images.copy()), size).permute(0, 2, 3, 1).numpy()
