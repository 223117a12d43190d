"""TIFF files with values that Pillow would change: deep, many channels, many pages.

A small reader of tags detects these files at little cost; tifffile reads the values.
Sizes are checked before anything is decoded.
"""

import io
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from furlkit.data.sets.window import MOST_PAGES, Raw, type_range

STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
DEFLATE = (8, 32946)
# Decoders with a bounded output: none, LZW, deflate, PackBits.
COMPRESSIONS = (1, 5, *DEFLATE, 32773)


class NoCodec(ValueError):
    """Compression that tifffile leaves to another package."""


class Tags(NamedTuple):
    """Tags of the first page, and the number of pages."""

    width: int
    height: int
    bits: int
    compression: int
    photometric: int
    strip: int  # where the first strip is
    orientation: int
    samples: int
    rows: int  # of a strip
    planar: int
    tile: int
    sample_format: int
    pages: int

    @property
    def ordinary(self) -> bool:
        """True if Pillow keeps the values of page one: unsigned, 8 bits, no extras."""
        most = 2 if self.photometric < 2 else 4
        return self.bits <= 8 and self.sample_format in (1, 4) and self.samples <= most

    @property
    def values(self) -> int:
        """Number of values of a page."""
        return self.width * self.height * self.samples

    @property
    def is_array(self) -> bool:
        """True if the values of the only page are contiguous, like an array."""
        together = self.planar == 1 or self.samples == 1
        whole = self.rows >= self.height and not self.tile and self.strip > 0
        typed = self.sample_format in KINDS and self.bits in (8, 16, 32, 64)
        plain = self.compression == 1 and self.pages == 1
        return plain and together and whole and typed


class _Form(NamedTuple):
    """Format of a file: classic TIFF, or BigTIFF with 8 bytes for offsets."""

    order: str
    offset: str
    entries: str
    entry: int  # bytes of an entry
    first: int  # where the offset of the first page is


NUMBERS = {
    256: 0, 257: 0, 258: 1, 259: 1, 262: 1, 273: 0, 274: 1, 277: 1, 278: 2**32 - 1,
    284: 1, 322: 0, 339: 1,
}  # fmt: skip
KINDS = {1: "u", 2: "i", 3: "f"}  # numpy's letters of sample formats
FORMATS = {1: "B", 3: "H", 4: "I", 16: "Q"}


def read_tags(content: bytes) -> Tags:
    """Read the first page's tags and count the pages, up to one above the limit."""
    try:
        form = _form(content)
        (first,) = struct.unpack_from(form.order + form.offset, content, form.first)
        found = _page(content, form, first)
        return Tags._make([*found.values(), _count(content, form, first)])
    except struct.error:
        raise ValueError("it is truncated") from None


def read_tiff(content: bytes, tags: Tags, pages: Sequence[int] = (0,)) -> Raw:
    """Values of some pages, as channels (H, W, C); sizes are checked before."""
    _check(content, tags)
    # Opening small files with tifffile would take half of the time.
    found = [_array(content, tags)] if tags.is_array else _pages(content, tags, pages)
    if len({page.shape for page in found}) > 1 or len({p.dtype for p in found}) > 1:
        raise ValueError("its pages have different sizes or types")
    values = np.concatenate(found, axis=2) if len(pages) > 1 else found[0]
    values = upright(values, tags.orientation)
    return Raw(
        values, type_range(values.dtype), inverted=tags.photometric == 0,
        grey=values.shape[2] == 1, colour=tags.photometric == 2 and len(pages) == 1,
    )  # fmt: skip


def _array(content: bytes, tags: Tags) -> np.ndarray:
    """Values (H, W, C) of a file that stores an array."""
    order = "<" if content[:2] == b"II" else ">"
    kind = np.dtype(f"{order}{KINDS[tags.sample_format]}{tags.bits // 8}")
    if tags.strip + tags.values * kind.itemsize > len(content):
        raise ValueError("it is truncated")
    values = np.frombuffer(content, kind, tags.values, tags.strip)
    values = values.astype(kind.newbyteorder("="), copy=False)
    return values.reshape(tags.height, tags.width, tags.samples)


def _pages(content: bytes, tags: Tags, pages: Sequence[int]) -> list[np.ndarray]:
    import tifffile

    try:
        with tifffile.TiffFile(io.BytesIO(content)) as file:
            return [_values(file.pages[number], tags) for number in pages]
    except ValueError as error:
        if "imagecodecs" in str(error):
            raise NoCodec("its compression needs: pip install imagecodecs") from None
        raise


def upright(values: np.ndarray, orientation: int) -> np.ndarray:
    """Turn an image (H, W, C) by the EXIF orientation, 1 to 8."""
    if orientation in (5, 6, 7, 8):
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    return values[:, ::-1] if orientation in (2, 3, 6, 7) else values


def _form(content: bytes) -> _Form:
    order = "<" if content[:2] == b"II" else ">"
    big = content[2:4] in (b"+\0", b"\0+")
    return _Form(order, "Q", "Q", 20, 8) if big else _Form(order, "I", "H", 12, 4)


def _page(content: bytes, form: _Form, start: int) -> dict[int, int]:
    """Numbers of one page by tag, in the order of `NUMBERS`."""
    (count,) = struct.unpack_from(form.order + form.entries, content, start)
    start += struct.calcsize(form.entries)
    numbers = dict(NUMBERS)
    for place in range(start, start + min(count, 4096) * form.entry, form.entry):
        tag, kind = struct.unpack_from(form.order + "HH", content, place)
        if tag in numbers and kind in FORMATS:
            numbers[tag] = _number(content, form, place, FORMATS[kind])
    return numbers


def _number(content: bytes, form: _Form, place: int, kind: str) -> int:
    """First number of an entry; long lists of numbers are elsewhere."""
    (count,) = struct.unpack_from(form.order + form.offset, content, place + 4)
    value = place + 4 + struct.calcsize(form.offset)
    if count * struct.calcsize(kind) > struct.calcsize(form.offset):
        (value,) = struct.unpack_from(form.order + form.offset, content, value)
    return struct.unpack_from(form.order + kind, content, value)[0]


def _count(content: bytes, form: _Form, start: int) -> int:
    """Number of pages, at most one above the limit; a cycle of pages ends there."""
    pages = 0
    while start and pages <= MOST_PAGES:
        (entries,) = struct.unpack_from(form.order + form.entries, content, start)
        end = start + struct.calcsize(form.entries) + entries * form.entry
        (start,) = struct.unpack_from(form.order + form.offset, content, end)
        pages += 1
    return pages


def _check(content: bytes, tags: Tags) -> None:
    if tags.compression not in COMPRESSIONS:
        raise ValueError(
            f"its TIFF compression is {tags.compression}, expected none, LZW, deflate or "
            "PackBits; save the file without compression"
        )
    if tags.photometric > 2:
        raise ValueError(
            f"its TIFF colour space is {tags.photometric}, expected grey or RGB (0 to 2)"
        )


def _values(page, tags: Tags) -> np.ndarray:
    """One page as (H, W, C)."""
    if page.imagewidth * page.imagelength * page.samplesperpixel > tags.values:
        raise ValueError("its pages have different sizes or types")
    if tags.compression in DEFLATE:
        _check_deflated(page)
    elif tags.compression == 1 and page.nbytes > page.parent.filehandle.size:
        raise ValueError("it is truncated")
    values = page.asarray()
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.ndim == 2:
        return values[..., None]
    if page.axes == "SYX":
        return values.transpose(1, 2, 0)
    if page.axes != "YXS":
        raise ValueError(f"its TIFF axes are {page.axes}, expected YX, YXS or SYX")
    return values


def _check_deflated(page) -> None:
    """Refuse deflated strips longer than the page before decoding."""
    file, left = page.parent.filehandle, page.nbytes + 2**20
    for offset, size in zip(page.dataoffsets, page.databytecounts, strict=True):
        file.seek(offset)
        decoder, rest = zlib.decompressobj(), file.read(size)
        while rest and not decoder.eof:
            left -= len(decoder.decompress(rest, 2**20))
            rest = decoder.unconsumed_tail
            if left < 0:
                raise ValueError("its strips are longer than its pages")
