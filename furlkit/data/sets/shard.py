"""Files with many images each: tar, Parquet and Arrow, packed by `furlkit pack`.

train.tar                          one file,
data/                              a folder of files of one kind,
'shards-*.tar'                     or a quoted pattern: one dataset, in order of names
"""

import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from furlkit.data.sets.folder import is_image
from furlkit.errors import InputError

TAR = (".tar", ".tar.gz", ".tgz")
TABLES = (".parquet", ".arrow")
Label = int | str | None


class Shard(NamedTuple):
    """Images of a file: names and labels.

    `open` returns a function that reads the bytes of an image by name. `class_names` is
    empty if the file has no names. `skipped` is the number of samples without image.
    """

    path: Path
    names: tuple[str, ...]
    labels: list[Label]
    class_names: tuple[str, ...]
    open: Callable[[], Callable[[str], bytes]]
    skipped: int = 0


def find_shards(name: str) -> tuple[Path, ...]:
    """Sorted paths of the shards for a path or a pattern; () for other data."""
    path = Path(name)
    if path.is_dir():
        return _shards_of_folder(path)
    if not name.endswith((*TAR, *TABLES)):
        return ()
    if path.exists():
        return (path,)
    matches = tuple(Path(each) for each in sorted(glob.glob(name)))
    if not matches:
        raise InputError(f"{name}: no such file")
    return matches


def _shards_of_folder(folder: Path) -> tuple[Path, ...]:
    """Shards of a folder without images and folders; () for other folders."""
    shards = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir() or is_image(entry):
                    return ()
                if entry.name.endswith((*TAR, *TABLES)):
                    shards.append(Path(entry.path))
    except OSError:
        return ()  # Listing the images reports the error.
    return tuple(sorted(shards))
