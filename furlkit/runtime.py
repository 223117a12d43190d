"""The machine a stage runs on: instruction set, device, threads, determinism.

torch and its libraries read the variables of the instruction set once, so they must be
set before torch is imported: this module imports it inside functions only.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from furlkit import __version__, console
from furlkit.errors import FurlkitError, UsageError

if TYPE_CHECKING:
    import torch

CPUINFO = Path("/proc/cpuinfo")
# COMPATIBLE is the only code of MKL that Intel's and other CPUs share: on AMD, MKL
# ignores AVX2 and AVX512 here and chooses by itself. Convolutions are oneDNN's, so the
# slower products cost little. AVX512_CORE is what all CPUs with AVX-512 have; its
# extensions for bfloat16 round differently and are left out.
PINNED = {
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "COMPATIBLE",
    },
    "avx512": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_CBWR": "COMPATIBLE",
    },
}
# What each set takes, as the Linux kernel names it.
FLAGS = {
    "avx2": ("avx2", "fma"),
    "avx512": ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
}
# oneDNN's older name of the variable counts where the newer one is not set.
_ONEDNN, _OLD_ONEDNN = "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"
_WITHOUT_AMX = "AVX512_CORE_BF16"
_NO_PRIMITIVE = "could not create a primitive"
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h

# Variables that --isa has set in this process, with the values they had before.
_replaced: dict[str, str | None] = {}


@dataclass(frozen=True)
class Runtime:
    """Where to compute, with how many threads of the CPU and which instructions.

    `gpu_memory` is the part of the GPU's memory that this process may take. Without
    `deterministic`, a CUDA device may round differently in each run.
    """

    device: str = "auto"
    threads: int = 1
    isa: str = "auto"
    gpu_memory: float | None = None
    deterministic: bool = True

    def resolved_options(self) -> dict[str, Any]:
        """What of it decides the bytes of a result, for provenance."""
        kind = device_of(self).type
        where = {"device": kind, "threads": self.threads}
        several = {"processes": processes()} if processes() > 1 else {}
        # Other devices have no faster algorithms to choose: the bytes are the same.
        fast = kind == "cuda" and not self.deterministic
        speed = {"deterministic": False} if fast else {}
        return {**where, **pinned_option(self.isa), **several, **speed}


def processes() -> int:
    """The number of processes that torchrun has started for this command; else 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_helper() -> bool:
    """Whether this is one of several processes that compute for the first one."""
    return processes() > 1 and os.environ.get("RANK", "0") != "0"


def pinned_option(isa: str) -> dict[str, str]:
    """The instruction set as provenance has it: nothing unless it is pinned."""
    return {"isa": isa} if isa in PINNED else {}


def cpu_flags(cpuinfo: Iterable[str]) -> frozenset[str]:
    """The instruction sets of the first CPU in the lines of /proc/cpuinfo.

    None on CPUs other than x86, whose line has another name.
    """
    for line in cpuinfo:
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def isa_variables(isa: str, flags: frozenset[str]) -> dict[str, str]:
    """The variables that give an instruction set on a CPU that has these flags."""
    if missing := [flag for flag in FLAGS.get(isa, ()) if flag not in flags]:
        raise UsageError(
            f"--isa {isa}: this CPU has no {missing[0]} ({CPUINFO}); use --isa auto"
        )
    if isa == "auto" and _has_amx(flags):
        # Some CPUs announce AMX and cannot run it. float32 makes no use of it, so its
        # results stay the same to the bit.
        return {_ONEDNN: _WITHOUT_AMX}
    return dict(PINNED.get(isa, {}))


def set_isa(isa: str) -> None:
    """Set the instruction set of this process; must come before torch's import."""
    variables = isa_variables(isa, own_flags())
    if "torch" in sys.modules:
        _check_imported(isa)
        return
    _restore()
    for name, value in variables.items():
        given = os.environ.get(name)
        if isa == "auto" and (given or os.environ.get(_OLD_ONEDNN)):
            continue
        if given not in (None, value):
            console.warn(f"--isa {isa}: sets {name} to {value}, found {given}")
        _replaced[name] = given
        os.environ[name] = value


def _restore() -> None:
    """Undo what an earlier call in this process set."""
    for name, value in _replaced.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    _replaced.clear()


def _check_imported(isa: str) -> None:
    """torch keeps the instruction set it was imported with."""
    import torch

    pinned = PINNED.get(isa, {})
    differs = any(os.environ.get(name) != value for name, value in pinned.items())
    # ATen tells what it took; the environment may have been changed after the import.
    capability = torch.backends.cpu.get_cpu_capability().lower()
    differs |= bool(pinned) and capability != isa
    if differs or (not pinned and "ATEN_CPU_CAPABILITY" in _replaced):
        raise UsageError(
            f"--isa {isa}: PyTorch was already imported in this process with another "
            "instruction set; use a new process"
        )


def own_flags() -> frozenset[str]:
    """The instruction sets of this CPU; none if they are unknown."""
    # One CPU's lines are enough; all of them take long on a machine with many.
    with suppress(OSError), CPUINFO.open() as lines:
        return cpu_flags(lines)
    return frozenset()


def _has_amx(flags: frozenset[str]) -> bool:
    return any(flag.startswith("amx") for flag in flags)


def start(runtime: Runtime) -> "torch.device":
    """Set threads and determinism for this process, once a stage; give the device."""
    import torch

    _check_imported(runtime.isa)
    device = device_of(runtime)
    torch.set_num_threads(runtime.threads)
    _keep_freed_memory()
    if runtime.gpu_memory is not None:
        _limit_memory(device, runtime.gpu_memory)
    if device.type == "cuda":
        _choose_algorithms(runtime.deterministic)
    return device


def _choose_algorithms(deterministic: bool) -> None:
    """Set the algorithms of CUDA: the same in every run, or the fastest ones.

    The fastest ones multiply float32 as TF32, which has 10 bits of mantissa.
    """
    import torch

    if deterministic:
        # cuBLAS is deterministic only with a fixed workspace, set before its first use.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cuda.matmul.allow_tf32 = not deterministic


def _limit_memory(device: "torch.device", fraction: float) -> None:
    """Fail with "out of memory" above a part of the device's memory."""
    import torch

    module = torch.get_device_module(device)
    limit = getattr(module, "set_per_process_memory_fraction", None)
    if limit is None:
        raise UsageError(
            f"--gpu-memory {fraction}: --device {device.type} has no limit of memory; "
            "leave the option out, or use --device cuda"
        )
    if device.type == "cuda":
        limit(fraction, device)
    else:
        limit(fraction)


def _keep_freed_memory() -> None:
    """Let glibc keep the memory a step frees for the next one.

    By default large blocks go back to the system each time and are cleared page by
    page when they come again, which costs several percent of a training step.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(parameter, 2**30)


def versions() -> dict[str, str]:
    """The programs that decide the bytes of a result besides the options."""
    import numpy
    import torch

    return {
        "furlkit": __version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def machine() -> dict[str, str]:
    """What decides the rounding besides the options: versions and instruction set.

    `isa` has the variables that restrict the instruction set, where there are any.
    """
    import torch

    names = ("ATEN_CPU_CAPABILITY", _ONEDNN, _OLD_ONEDNN, "MKL_CBWR")
    given = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    found = {**versions(), "cpu": torch.backends.cpu.get_cpu_capability()}
    limits = {"isa": " ".join(given)} if given else {}
    where = {"python": platform.python_version(), "host": platform.node()}
    return {**found, **limits, **where}


def device_of(runtime: Runtime) -> "torch.device":
    """The device that --device means here; sets nothing."""
    import torch

    name = runtime.device
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    kind, _, number = name.partition(":")
    if number and not number.isdecimal():
        raise UsageError(f"--device {name}: expected auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"--device {name}: this PyTorch sees {torch.cuda.device_count()} CUDA "
            "devices; use --device cpu, or install a CUDA build of PyTorch"
        )
    if kind != "cpu" and not _is_available(kind):
        raise UsageError(f"--device {name}: not available here; use --device cpu")
    return torch.device(name)


def _is_available(kind: str) -> bool:
    """Whether PyTorch has a device of this kind: mps, xpu, or one of another package."""
    import torch

    try:
        return bool(torch.get_device_module(kind).is_available())
    except (RuntimeError, AttributeError):
        return False


def with_float64(device: "torch.device") -> "torch.device":
    """The device, or the CPU in the place of MPS, which has no float64."""
    import torch

    return torch.device("cpu") if device.type == "mps" else device


def check_precision(precision: str, device: "torch.device") -> None:
    """Try a small convolution and product in mixed precision, where a CPU may fail.

    A CPU that fails here fails in float32 too from then on: the process must end.
    """
    import torch

    dtype = getattr(torch, precision)
    if device.type != "cpu" or dtype is torch.float32:
        return
    images = torch.ones(1, 4, 8, 8, dtype=dtype)
    try:
        torch.nn.functional.conv2d(images, torch.ones(4, 4, 3, 3, dtype=dtype))
        torch.mm(images.view(4, 64), images.view(64, 4))
    except RuntimeError as error:
        if cause := no_primitive(error):
            raise FurlkitError(cause) from error
        raise


def no_primitive(error: RuntimeError) -> str | None:
    """What to tell the user if this is oneDNN's failure on a CPU; None if it is not."""
    if _NO_PRIMITIVE not in str(error):
        return None
    if _has_amx(own_flags()):
        cause = "this CPU announces AMX but cannot run it"
        return f"{cause}; use --isa auto or --precision float32"
    return f"PyTorch {_NO_PRIMITIVE} on this CPU; use --precision float32"
