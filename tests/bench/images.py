"""Decode 10,000 TIFF files of 16 bits, and PNG files of 8 bits of the same size."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tifffile
from PIL import Image
from sklearn.datasets import load_sample_images

from furlkit.data.sets.folder import index_folder, read_images
from furlkit.data.sets.window import AS_STORED, Reading

FILES, SIDE, TURNS = 10_000, 64, 3
WAYS = {"png": AS_STORED, "tif": Reading("0,4095")}


def run() -> Iterator[str]:
    """One line: both times, their ratio, and the memory that was needed."""
    with TemporaryDirectory() as folder:
        for name in WAYS:
            (Path(folder) / name).mkdir()
        _write(Path(folder))
        before = _peak()
        times = {name: min(_times(Path(folder) / name, WAYS[name])) for name in WAYS}
    yield (
        f"{FILES:,} files of {SIDE} x {SIDE}: PNG of 8 bits {times['png']:.2f} s, TIFF of "
        f"16 bits {times['tif']:.2f} s, ratio {times['tif'] / times['png']:.2f} (bar: 1.5), "
        f"{_peak() - before:.0f} MB more memory"
    )


def _peak() -> float:
    """The most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _write(folder: Path) -> None:
    picture = load_sample_images().images[0].mean(axis=2)
    rng = np.random.default_rng(0)
    for number in range(FILES):
        top, left = rng.integers(0, np.array(picture.shape) - SIDE)
        values = picture[top : top + SIDE, left : left + SIDE] * 16
        deep = (values + rng.integers(0, 16, values.shape)).astype(np.uint16)
        tifffile.imwrite(folder / f"tif/{number}.tif", deep)
        Image.fromarray((deep >> 4).astype(np.uint8)).save(folder / f"png/{number}.png")


def _times(folder: Path, reading: Reading) -> Iterator[float]:
    """CPU seconds of a pass over all files, by all threads."""
    index = index_folder(folder)
    for _ in range(TURNS):
        began = time.process_time()
        for _block in read_images(index, None, channels=1, reading=reading):
            pass
        yield time.process_time() - began
