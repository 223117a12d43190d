"""WebDataset shards: tar files with the members of a sample in sequence.

0001.jpg    members with one name up to the first dot are a sample: one image,
0001.cls    and a label, a number in .cls or under the key `label` in .json
0002.jpg

furlkit reads the bytes of a member out of the tar file and extracts no file.
"""

import json
import os
import tarfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from furlkit.data.sets.decode import MOST_BYTES
from furlkit.data.sets.folder import ENDINGS
from furlkit.data.sets.shard import Label, Shard
from furlkit.errors import InputError
from furlkit.files.opening import open_regular, reading

LONGEST_HEADER = 2**16  # A long name or extended header; tarfile reads it whole.
LONGEST_TEXT = 2**20  # A .cls or .json member.
COMPRESSED = {
    b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ\0": "unxz",
    b"\x28\xb5\x2f\xfd": "unzstd",
}  # fmt: skip
STARTS = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*",
)  # fmt: skip


class Member(NamedTuple):
    """A regular file of a tar: name without `./`, and position of the bytes."""

    name: str
    start: int
    size: int

    @property
    def key(self) -> tuple[str, str]:
        """WebDataset's key of a sample: the folder, and the name up to the first dot."""
        path = PurePosixPath(self.name)
        return str(path.parent), path.name.partition(".")[0]

    @property
    def ending(self) -> str:
        """Lower-case name after the first dot, with the dot."""
        return "." + PurePosixPath(self.name).name.partition(".")[2].lower()


def read_tar(path: Path, labelled: bool) -> Shard:
    """List the images of a shard and read their labels; images are read on demand."""
    images: dict[str, Member] = {}
    labels: list[Label] = []
    skipped = 0
    with open_regular(path) as stream, reading(path):
        # tarfile searches the next header itself, so the stream may be moved here.
        members = _members(path, stream)
        for _, group in groupby(members, lambda member: member.key):
            sample = list(group)
            image = _image(path, stream, sample)
            if image is None:
                skipped += 1
                continue
            if image.name in images:
                raise InputError(f"{path}: has two members called {image.name}")
            images[image.name] = image
            labels.append(_label(path, stream, sample) if labelled else None)

    def read(name: str) -> bytes:
        with open_regular(path) as stream:
            return _content(path, stream, images[name])

    return Shard(path, tuple(images), labels, (), lambda: read, skipped)


class _Headers:
    """Stream for tarfile that allows only headers of the usual size."""

    def __init__(self, stream: BinaryIO):
        self.seek, self.tell, self._read = stream.seek, stream.tell, stream.read

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST_HEADER:
            raise tarfile.ReadError(f"a header has {size:,} bytes")
        return self._read(size)


def _members(path: Path, stream: BinaryIO) -> Iterator[Member]:
    _check_plain(path, stream)
    size = os.fstat(stream.fileno()).st_size
    try:
        with tarfile.open(fileobj=_Headers(stream), mode="r:") as tar:  # type: ignore[call-overload]
            while (info := tar.next()) is not None:
                tar.members = []  # tarfile would keep all members.
                if not info.isdir():
                    _check_member(path, info, size)
                    name = str(PurePosixPath(info.name))
                    yield Member(name, info.offset_data, info.size)
            stream.seek(tar.offset)
    except (tarfile.TarError, ValueError, EOFError, RecursionError) as error:
        raise InputError(f"{path}: is not a complete tar file ({error})") from error
    # tarfile mistakes a damaged header for the end, which is a block of zeros.
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InputError(f"{path}: is not a complete tar file (no end); copy it again")


def _check_plain(path: Path, stream: BinaryIO) -> None:
    start = stream.read(6)
    stream.seek(0)
    for mark, program in COMPRESSED.items():
        if start.startswith(mark):
            raise InputError(
                f"{path}: is compressed; unpack the file with {program}, and pack the "
                "plain tar file"
            )


def _check_member(path: Path, info: tarfile.TarInfo, size: int) -> None:
    """Refuse members that are not plain files inside the archive."""
    name = info.name[:200]
    if not info.isreg() or info.issparse():
        raise InputError(
            f"{path}: {name!r} is a link, a device or a sparse file, expected plain files"
        )
    parts = PurePosixPath(info.name).parts
    if not parts or parts[0].startswith("/") or ".." in parts:
        raise InputError(f"{path}: {name!r} is a name outside of the archive")
    if not 0 <= info.size <= MOST_BYTES:
        raise InputError(
            f"{path}: {name!r} has {info.size:,} bytes, expected at most {MOST_BYTES:,}"
        )
    if info.offset_data + info.size > size:
        raise InputError(f"{path}: ends within {name!r}; copy it again")


def _image(path: Path, stream: BinaryIO, sample: list[Member]) -> Member | None:
    """Image of a sample, or None."""
    visible = [m for m in sample if not PurePosixPath(m.name).name.startswith(".")]
    images = [m for m in visible if m.ending.endswith(ENDINGS)]
    if not images:
        images = [m for m in visible if _looks_like_image(stream, m)]
    if len(images) > 1:
        names = " and ".join(member.name for member in images[:2])
        raise InputError(f"{path}: {names} are images of one sample, expected one")
    return images[0] if images else None


def _looks_like_image(stream: BinaryIO, member: Member) -> bool:
    stream.seek(member.start)
    start = stream.read(min(member.size, 132))
    webp = start[:4] == b"RIFF" and start[8:12] == b"WEBP"
    return start.startswith(STARTS) or webp or start[128:] == b"DICM"


def _label(path: Path, stream: BinaryIO, sample: list[Member]) -> Label:
    """Label of a sample, or None."""
    texts = {m.ending: m for m in sample if m.ending in (".cls", ".json")}
    for ending, member in sorted(texts.items()):
        if member.size > LONGEST_TEXT:
            raise InputError(f"{path}: {member.name} has {member.size:,} bytes")
        content = _content(path, stream, member)
        try:
            if ending == ".cls":
                return int(content)
            label = json.loads(content).get("label")
        except (ValueError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path}: {member.name} has no label ({error}); expected a number in "
                ".cls, or the key label in .json"
            ) from error
        if label is not None:
            return label
    return None


def _content(path: Path, stream: BinaryIO, member: Member) -> bytes:
    stream.seek(member.start)
    content = stream.read(member.size)
    if len(content) < member.size:
        raise InputError(f"{path}: ends within {member.name!r}; copy it again")
    return content
