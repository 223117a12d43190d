"""distill by the number of public images, and the share of rows of M in a step."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch

from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.similarity_rows import Similarities
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.models.architecture import Architecture, build
from furlkit.objectives.similarity import Distiller
from furlkit.runtime import Runtime, start
from tests.bench.aggregate import _MEASURED, _timed
from tests.bench.world import BATCH, client_images

SIZES, CLIENTS, WIDTH, ANCHORS = (5_000, 10_000, 20_000, 50_000), 5, 128, 2048
TURNS = 5


def run() -> Iterator[str]:
    """One process for each size, and this one for the share of a step."""
    with tempfile.TemporaryDirectory() as name:
        for n in SIZES:
            yield _whole(Path(name), n)
    yield _share()


def _whole(folder: Path, n: int) -> str:
    """One epoch with a tiny encoder, from the clients' rows, with the program's start."""
    rng = np.random.default_rng(0)
    data = folder / f"{n}.npz"
    np.savez(data, images=rng.integers(0, 256, (n, 8, 8, 1), np.uint8))
    rows, ensemble = [folder / f"{n}_{k}" for k in range(CLIENTS)], folder / f"{n}_e"
    from furlkit.data.sets.source import Source

    fingerprint = Source(data).images().fingerprint
    for k, path in enumerate(rows):
        facts = FeatureFacts("z", fingerprint, "all", client=k, round=1, examples=n)
        values = rng.standard_normal((n, WIDTH), np.float32)
        write_features(path, values, np.arange(n), facts, Provenance("embed"))
    _furlkit("aggregate", "--rule", "ensemble", *rows, "-o", ensemble)
    net = ("--encoder", "cnn5", "--width", "0.02", "--projector", "8,4")
    _furlkit("init", "--data", data, *net, "-o", folder / "g")
    command = ["distill", ensemble, folder / "g", "--data", data, "--epochs", 1, "-q"]
    seconds, stderr = _timed(_MEASURED, [*command, "-o", folder / "out"])
    peak = int(stderr.split()[-1]) * 1024
    return (
        f"{n:6,} public images, {CLIENTS} clients: {seconds:.1f} s, peak memory "
        f"{peak / 1e6:,.0f} MB (n x n would be {4 * n * n / 1e6:,.0f} MB)"
    )


def _furlkit(*arguments: object) -> None:
    command = [sys.executable, "-m", "furlkit", *map(str, arguments), "-q"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _share() -> str:
    """Rows of M for a batch, relative to a whole step of cnn5, on one thread."""
    start(Runtime("cpu", 1))
    n = 5_000
    architecture = Architecture("cnn5", 32, 3, heads={"projector": (512, 128)})
    net = build(architecture, torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((n, WIDTH), np.float32) for _ in range(CLIENTS)]
    similarities = Similarities(
        [torch.from_numpy(unit_rows(part)) for part in parts], tau_T=0.1
    )
    distiller = Distiller(
        net, similarities, layer="z", width=WIDTH, anchors=ANCHORS, temperature=0.1,
        ema=0.999,
    )  # fmt: skip
    images = client_images(n)
    batch = images.batch(torch.arange(BATCH), torch.Generator().manual_seed(0))
    anchors = torch.randint(n, (ANCHORS,), generator=torch.Generator().manual_seed(1))
    rows, steps = [], []
    for _ in range(TURNS):
        rows.append(_seconds(lambda: similarities(batch.index, anchors)))
        steps.append(_seconds(lambda: _step(distiller, batch)))
    share = median(a / b for a, b in zip(rows, steps, strict=True))
    return (
        f"rows of M for {BATCH} images, {ANCHORS} anchors, {CLIENTS} clients: "
        f"{1e3 * median(rows):.0f} ms, {100 * share:.1f}% of a step of cnn5 (bar: 10%)"
    )


def _step(distiller: Distiller, batch) -> None:
    distiller.step(batch).losses["distillation"].backward()


def _seconds(function) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began
