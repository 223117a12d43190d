"""Read NIfTI volumes: slices along an axis of the body.

Sizes, types and directions of the header are read, but no text.
"""

import gzip
import io
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from furlkit.data.sets.window import MOST_PIXELS, Raw, Refused, TooManyPixels
from furlkit.errors import UsageError

AXES = ("sagittal", "coronal", "axial")  # first to third axis, once turned to RAS
EXTRA = "it is a NIfTI volume; read it after: pip install 'furlkit[nifti]'"
HEADER = 348
_ONE_AT_A_TIME = threading.Lock()


class Slices(NamedTuple):
    """Every `step`-th slice along an axis."""

    axis: int
    step: int


def parse_slices(text: str) -> Slices:
    """Read --slices: axial, or axial,5."""
    name, _, step = text.partition(",")
    if name not in AXES or not (step or "1").isdecimal() or int(step or 1) < 1:
        raise UsageError(
            f"--slices {text}: expected one of {', '.join(AXES)}, and a step: axial,5"
        )
    return Slices(AXES.index(name), int(step or 1))


def is_nifti(content: bytes) -> bool:
    """Return True for a NIfTI-1 volume in one file, compressed or not."""
    start = content[:HEADER]
    if start[:2] == b"\x1f\x8b":
        try:
            start = gzip.GzipFile(fileobj=io.BytesIO(content)).read(HEADER)
        except (OSError, EOFError):
            return False
    return start[344:348] == b"n+1\0"


def slice_count(content: bytes, slices: Slices) -> int:
    """Number of images in a volume, by --slices."""
    return len(range(0, _volume(content).shape[slices.axis], slices.step))


def read_nifti(content: bytes, slices: str | None, number: int) -> Raw:
    """One slice (H, W, 1): the head, the front or the left of the body is upwards."""
    if slices is None:
        raise Refused("it is a NIfTI volume; give pack --slices axial,5")
    axis, step = parse_slices(slices)
    plane = np.rot90(np.take(_volume(content), number * step, axis))
    return Raw(plane[..., None], grey=True)


def _volume(content: bytes) -> np.ndarray:
    # Threads read slices of one volume in parallel; decode the volume once.
    with _ONE_AT_A_TIME:
        return _decoded(content)


@lru_cache(maxsize=1)
def _decoded(content: bytes) -> np.ndarray:
    """The values (sagittal, coronal, axial) of a volume."""
    try:
        import nibabel
    except ImportError:
        raise Refused(EXTRA) from None
    try:
        return _values(nibabel, content)
    except Refused:
        raise
    except Exception as error:  # The text may quote the header.
        text = "it is a NIfTI volume that nibabel cannot read"
        raise Refused(f"{text} ({type(error).__name__})") from None


def _values(nibabel: Any, content: bytes) -> np.ndarray:
    stream: Any = io.BytesIO(content)
    if content[:2] == b"\x1f\x8b":
        stream = gzip.GzipFile(fileobj=stream)
    start = stream.read(HEADER)
    header = nibabel.Nifti1Header(start, check=False)
    shape = [n for n in header.get_data_shape() if n != 1] or [1]
    if len(header.get_data_shape()) < 3 or len(shape) > 3:
        raise Refused(f"it is a volume of {len(shape)} dimensions, expected 3")
    if int(np.prod([float(n) for n in shape])) > MOST_PIXELS:
        raise TooManyPixels
    values = int(np.prod(shape)) * header.get_data_dtype().itemsize
    most = int(header.get_data_offset()) + values
    if not 0 < most < 2**33:
        raise Refused("its header is damaged")
    rest = stream.read(most - HEADER)
    if HEADER + len(rest) < most:
        raise Refused("it is truncated")
    image = nibabel.Nifti1Image.from_bytes(start + rest)
    image = nibabel.as_closest_canonical(image)
    found = np.asanyarray(image.dataobj)
    return found.reshape(found.shape[:3])
