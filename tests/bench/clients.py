"""What a client costs besides its steps, when one command trains many."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from furlkit.cli.program import _outcome
from furlkit.training import loop

CLIENTS, IMAGES = 200, 100
DATA = ("--data", "{at}/images.npz")
COMMANDS = (
    ("partition", *DATA, "--clients", str(CLIENTS), "-o", "{at}/partition"),
    ("init", *DATA, "--width", "0.1", "--projector", "128,64", "-o", "{at}/global"),
)
TRAIN = ("local-train", "{at}/partition", "{at}/global", *DATA, "--epochs", "1",
         "--batch-size", "50", "-o", "{at}/client_{{client}}")  # fmt: skip


def run() -> Iterator[str]:
    """The time of a start with 200 clients, without its steps and its beginning."""
    with TemporaryDirectory() as folder:
        _images(Path(folder))
        for command in COMMANDS:
            _call(folder, *command)
        for name, clock in (
            ("", time.perf_counter),
            (" of CPU time", time.process_time),
        ):
            each, steps = _costs(folder, clock)
            yield (
                f"{CLIENTS} clients of {IMAGES} images: {1000 * each:.1f} ms{name} a "
                f"client beyond its steps (bar: 10), {1000 * steps:.1f} ms in them"
            )


def _costs(folder: str, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds for each client, beyond its steps and in them."""
    with _timed_steps(clock) as steps:
        # What is opened once is in all starts; the first one imports it too.
        for clients in ("0", "1", f"2-{CLIENTS - 1}"):
            began, before = clock(), steps[0]
            _call(folder, *TRAIN, "--client", clients, "--force")
            trained = steps[0] - before
            rest = clock() - began - trained
            if clients == "1":
                once = rest
    return (rest - once) / (CLIENTS - 3), trained / (CLIENTS - 2)


def _images(folder: Path) -> None:
    rng = np.random.default_rng(0)
    shape = CLIENTS * IMAGES, 16, 16, 3
    images = rng.integers(0, 256, shape, np.uint8)
    labels = rng.integers(0, 10, len(images))
    np.savez(folder / "images.npz", images=images, labels=labels)


def _call(folder: str, *words: str) -> None:
    with redirect_stdout(StringIO()):
        code = _outcome([*(word.format(at=folder) for word in words), "-q"])
    if code:
        raise SystemExit(code)


@contextmanager
def _timed_steps(clock: Callable[[], float]) -> Iterator[list[float]]:
    """Have the time that passes in the loop counted."""
    original, seconds = loop.train, [0.0]

    def train(*given: Any, **more: Any) -> Iterator[Any]:
        steps = original(*given, **more)
        while True:
            began = clock()
            step = next(steps, None)
            seconds[0] += clock() - began
            if step is None:
                return
            yield step

    loop.train = train  # type: ignore[assignment]
    yield seconds
    loop.train = original
