"""check: whether every image of a dataset can be read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from furlkit.data.sets.checked import Checked, checked_folder
from furlkit.data.sets.folder import index_folder, size_range
from furlkit.data.sets.source import Source
from furlkit.errors import InputError
from furlkit.files.cache import MOST_BYTES, bytes_in, default_cache
from furlkit.inputs.settings import fill
from furlkit.reports.text import byte_size, counted, plain

Result = tuple[str, dict[str, Any]]


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Say what was found, with every file that cannot be read; then fail if one cannot."""
    source = fill(Source, values)
    if not source.is_folder:
        yield _whole(source)
        return
    root = Path(source.name)
    found = checked_folder(root)
    lines = [f"{root / name}: {why}" for name, why in sorted(found.broken.items())]
    cache = source.cache or default_cache()
    text = [*map(plain, lines), _summary(root, found), _place(cache)]
    yield "\n".join(text), _to_json(found, cache)
    if found.broken:
        raise InputError(
            f"{root}: {counted(len(found.broken), 'file')} cannot be read; replace or "
            "remove them, or leave them out with pack --skip-broken"
        )
    index_folder(root)


def _whole(source: Source) -> Result:
    """A dataset that is one file, or that is known by its name."""
    opened = source.images(again=True)
    n, (height, width, channels) = len(opened.images), opened.images.shape[1:]
    line = f"{source.name}: {n:,} images of {height} x {width} x {channels}"
    return f"{line}, all can be read", {"images": n, "broken": {}}


def _summary(root: Path, found: Checked) -> str:
    line = f"{root}: {counted(found.images, 'image')}"
    if found.sizes:
        line += f" of {size_range(found.sizes)}, {found.grey:,} grey"
    line += f"; {counted(len(found.broken), 'file')} cannot be read"
    return f"{line}; skipped {found.skipped}" if found.skipped else line


def _place(cache: Path | None) -> str:
    if cache is None:
        return "decoded images are not kept: the user has no home folder; give --cache"
    return (
        f"decoded images are kept in {cache} ({byte_size(bytes_in(cache))} of at most "
        f"{byte_size(MOST_BYTES)}), which may be removed at any time"
    )


def _to_json(found: Checked, cache: Path | None) -> dict[str, Any]:
    sizes = [[*size, count] for size, count in sorted(found.sizes.items())]
    return {
        "images": found.images, "broken": found.broken, "skipped": found.skipped,
        "sizes": sizes, "grey": found.grey, "cache": str(cache) if cache else None,
        "cache_bytes": bytes_in(cache) if cache else 0,
    }  # fmt: skip
