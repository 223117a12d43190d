"""Copies to the device and reads of its values in a training step of each objective.

Counted on the device of tests/device.py, with the images on the device ("resident") and
in a memory map ("mapped"). These are counts, not times: they are equal on every machine.
"""

import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from furlkit import catalogue
from furlkit.data import batches
from tests.device import NAME, on_device
from tests.helpers import epochs, furlkit, save_digits

LIMITS = {"resident": batches.RESIDENT_LIMIT, "mapped": 0}


def run() -> Iterator[str]:
    """One line for each objective of the catalogue."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for objective in catalogue.OBJECTIVES:
            counts = (
                f"{place}: {copies:g} copies, {reads:g} reads"
                for place in LIMITS
                for copies, reads in [counted(Path(folder), objective, place)]
            )
            yield f"{objective:12} {'; '.join(counts)} (bar: 2 copies, 0 reads)"


def prepare(folder: Path) -> None:
    """A partition, and a small model with every head."""
    save_digits(folder, train=160, test=64)
    heads = [word for head in catalogue.HEADS for word in ("--head", head)]
    small = ("--width", 0.05, "--projector", "16,8", "--predictor", "8,8", *heads)
    data = ("--data", folder / "d.npz", "-q")
    with redirect_stdout(None):
        furlkit("partition", *data, "--clients", 2, "-o", folder / "p")
        furlkit("init", *data, *small, "-o", folder / "g")


def counted(folder: Path, objective: str, place: str) -> tuple[float, float]:
    """Copies and reads per step of one epoch."""
    output = folder / f"{objective}.{place}"
    words = ("local-train", folder / "p", folder / "g", "--client", 0, "-q")
    data = ("--data", folder / "d.npz", "--batch-size", 32, "--epochs", 1)
    how = ("--objective", objective, "--device", f"{NAME}:0", "-o", output)
    limit = mock.patch.object(batches, "RESIDENT_LIMIT", LIMITS[place])
    # The result of the command would stand between the lines of the table.
    with limit, redirect_stdout(None), on_device() as counter:
        code = furlkit(*words, *data, *how)
    if code:
        raise RuntimeError(f"local-train --objective {objective}: exit code {code}")
    steps = epochs(output)[-1]["step"]
    return counter.copies.total() / steps, counter.reads.total() / steps
