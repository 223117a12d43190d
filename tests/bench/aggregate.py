"""aggregate of 100 ResNet-18 checkpoints: time relative to reading them, memory.

The median's time is relative to the mean's.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CLIENTS = 100
# Read each file at once, or in pieces into the same buffer.
_READ = "import sys; [open(path, 'rb').read() for path in sys.argv[1:]]"
_COPIED = """
import sys
buffer = bytearray(1 << 20)
for path in sys.argv[1:]:
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
"""
_MEASURED = """
import sys
from furlkit.cli.program import _outcome
code = _outcome(sys.argv[1:])
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(code)
"""


def run() -> Iterator[str]:
    """Files are in the page cache; times are of whole processes, with their start."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _uploads(Path(folder))
        size = paths[0].stat().st_size
        times, peaks, medians, median_peaks = [], [], [], []
        for _ in range(3):
            reading, copying = _timed(_READ, paths)[0], _timed(_COPIED, paths)[0]
            command = ["aggregate", *paths, "--force", "--trust-headers"]
            command += ["-o", f"{folder}/g.safetensors"]
            whole, stderr = _timed(_MEASURED, command)
            times.append((whole / reading, whole, reading, copying))
            peaks.append(int(stderr.split()[-1]) * 1024)
            robust = ["aggregate", "--rule", "median", *paths, "--force"]
            robust += ["--trust-headers"]
            took, stderr = _timed(_MEASURED, [*robust, "-o", f"{folder}/m.safetensors"])
            medians.append((took / whole, took))
            median_peaks.append(int(stderr.split()[-1]) * 1024)
        ratio, whole, reading, copying = sorted(times)[1]
        yield (
            f"{CLIENTS} x {size / 1e6:.0f} MB: {whole:.1f} s, reading once "
            f"{reading:.1f} s, ratio {ratio:.2f} (bar: 2); copying into one buffer "
            f"{copying:.1f} s, ratio {whole / copying:.2f}"
        )
        yield f"peak memory {max(peaks) / size:.2f} models (bar: 2.5)"
        ratio, took = sorted(medians)[1]
        yield (
            f"median {took:.1f} s, {ratio:.2f} times the mean (bar: 5), peak memory "
            f"{max(median_peaks) / size:.2f} models (bar: 4)"
        )


def _timed(code: str, arguments: list) -> tuple[float, str]:
    """Run code in a new process: the seconds, and its stderr."""
    began = time.perf_counter()
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, done.stderr


def _uploads(folder: Path) -> list[Path]:
    import torch

    from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
    from furlkit.files.facts import Provenance
    from furlkit.models.architecture import Architecture, build
    from furlkit.models.loading import tensors_of

    architecture = Architecture("resnet18", 32, 3, heads={"projector": (512, 128)})
    paths = []
    for client in range(CLIENTS):
        net = build(architecture, torch.Generator().manual_seed(client))
        facts = CheckpointFacts(
            "client",
            1,
            architecture.to_dict(),
            [0.5] * 3,
            [0.5] * 3,
            client=client,
            examples=100 + client,
            parent="0" * 64,
        )
        paths.append(folder / f"client_{client}.safetensors")
        write_checkpoint(paths[-1], tensors_of(net), facts, Provenance("local-train"))
    return paths
