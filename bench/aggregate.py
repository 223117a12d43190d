"""aggregate of 100 ResNet-18 checkpoints: time against one reading, and memory."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CLIENTS = 100
_MEASURED = """
import sys
from furlkit.cli.program import _outcome
code = _outcome(sys.argv[1:])
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(code)
"""


def run() -> Iterator[str]:
    """Files are in the page cache for both; the memory is that of the whole program."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _uploads(Path(folder))
        size = paths[0].stat().st_size
        times, peaks = [], []
        for _ in range(3):
            reading = _read(paths)
            began = time.perf_counter()
            command = ["aggregate", *map(str, paths), "-o", f"{folder}/g.safetensors"]
            done = subprocess.run(
                [sys.executable, "-c", _MEASURED, *command],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            whole = time.perf_counter() - began
            times.append((whole / reading, whole, reading))
            peaks.append(int(done.stderr.split()[-1]) * 1024)
        ratio, whole, reading = sorted(times)[1]
        yield (
            f"{CLIENTS} x {size / 1e6:.0f} MB: {whole:.1f} s, reading once "
            f"{reading:.1f} s, ratio {ratio:.2f} (bar: 2)"
        )
        yield f"peak memory {max(peaks) / size:.2f} models (bar: 2.5)"


def _read(paths: list[Path]) -> float:
    began = time.perf_counter()
    for path in paths:
        path.read_bytes()
    return time.perf_counter() - began


def _uploads(folder: Path) -> list[Path]:
    import torch

    from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
    from furlkit.files.facts import Provenance
    from furlkit.loading import tensors_of
    from furlkit.nets import Architecture, build

    architecture = Architecture("resnet18", 32, 3, projector=(512, 128))
    paths = []
    for client in range(CLIENTS):
        net = build(architecture, torch.Generator().manual_seed(client))
        facts = CheckpointFacts(
            "client", 1, architecture.to_dict(), [0.5] * 3, [0.5] * 3,
            client=client, examples=100 + client, parent="0" * 64,
        )  # fmt: skip
        paths.append(folder / f"client_{client}.safetensors")
        write_checkpoint(paths[-1], tensors_of(net), facts, Provenance("local-train"))
    return paths
