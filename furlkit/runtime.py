"""The machine a stage runs on: device, threads, determinism."""

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass

import torch

from furlkit.errors import UsageError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


@dataclass(frozen=True)
class Runtime:
    """Where to compute, and with how many threads of the CPU."""

    device: str = "auto"
    threads: int = 1


def start(runtime: Runtime) -> torch.device:
    """Set threads and determinism for this process; give the device."""
    device = torch.device(_resolve(runtime.device))
    torch.set_num_threads(runtime.threads)
    _keep_freed_memory()
    if device.type == "cuda":
        # cuBLAS is deterministic only with a fixed workspace, set before its first use.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
    return device


def _keep_freed_memory() -> None:
    """Let glibc keep the memory a step frees for the next one.

    By default large blocks go back to the system each time and are cleared page by
    page when they come again, which costs several percent of a training step.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(parameter, 2**30)


def _resolve(name: str) -> str:
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and not number.isdecimal()):
        raise UsageError(f"--device {name}: wanted auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"--device {name}: this PyTorch sees {torch.cuda.device_count()} CUDA "
            "devices; use --device cpu, or install a CUDA build of PyTorch"
        )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps: not available here; use --device cpu")
    return name
