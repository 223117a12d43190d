"""The machine of a stage: instruction set, device, threads, determinism.

torch and torch's libraries read the variables of the instruction set once, so the
variables must be set before the import of torch: functions of this module import torch.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from furlkit import __version__, console
from furlkit.errors import FurlkitError, UsageError

if TYPE_CHECKING:
    import torch

CPUINFO = Path("/proc/cpuinfo")
# COMPATIBLE is the only code of MKL common to Intel's and other CPUs: on AMD, MKL
# ignores the values AVX2 and AVX512 and chooses a code. oneDNN computes convolutions, so
# the slower products cost little. Every CPU with AVX-512 has AVX512_CORE; the extensions
# for bfloat16 round differently and are excluded.
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
# CPU flags required by each set, with the names of the Linux kernel.
FLAGS = {
    "avx2": ("avx2", "fma"),
    "avx512": ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
}
# oneDNN reads the older variable if the newer variable is not set.
_ONEDNN, _OLD_ONEDNN = "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"
_WITHOUT_AMX = "AVX512_CORE_BF16"
_NO_PRIMITIVE = "could not create a primitive"
_PR_SET_PDEATHSIG = 1  # prctl.h of Linux
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # glibc's malloc.h
# Files of Linux's drivers: CUDA, CUDA in WSL, CUDA of Tegra, ROCm.
DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl", "/dev/kfd")

# Threads of OpenBLAS, MKL, BLIS and Apple's Accelerate.
_BLAS = (
    *("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
)

# Variables that --isa has set in this process, with the previous values.
_replaced: dict[str, str | None] = {}


@dataclass(frozen=True)
class Runtime:
    """Device, number of CPU threads and instruction set of a stage.

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
        kind = device_kind(self)
        where = {"device": kind, "threads": self.threads}
        several = {"processes": processes()} if processes() > 1 else {}
        # Other devices have no faster algorithms to choose: the bytes are the same.
        fast = kind == "cuda" and not self.deterministic
        speed = {"deterministic": False} if fast else {}
        return {**where, **pinned_option(self.isa), **several, **speed}


def processes() -> int:
    """Number of processes that torchrun has started for this command; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_helper() -> bool:
    """Return whether this process computes for the first of several processes."""
    return processes() > 1 and os.environ.get("RANK", "0") != "0"


def has_free_core() -> bool:
    """Return whether each of torch's threads has a second core for other work."""
    import torch

    if hasattr(os, "sched_getaffinity"):  # Not on macOS.
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return cores >= 2 * torch.get_num_threads() * processes()


def pinned_option(isa: str) -> dict[str, str]:
    """Provenance entry of a pinned instruction set; otherwise empty."""
    return {"isa": isa} if isa in PINNED else {}


def cpu_flags(cpuinfo: Iterable[str]) -> frozenset[str]:
    """Instruction sets of the first CPU in the lines of /proc/cpuinfo.

    Empty on CPUs other than x86, where the line has another name.
    """
    for line in cpuinfo:
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def isa_variables(isa: str, flags: frozenset[str]) -> dict[str, str]:
    """Variables that select an instruction set on a CPU with these flags."""
    if missing := [flag for flag in FLAGS.get(isa, ()) if flag not in flags]:
        raise UsageError(
            f"--isa {isa}: this CPU has no {missing[0]} ({CPUINFO}); use --isa auto"
        )
    if isa == "auto" and _has_amx(flags):
        # Some CPUs announce AMX and cannot run AMX. float32 does not use AMX, so float32
        # results do not change.
        return {_ONEDNN: _WITHOUT_AMX}
    return dict(PINNED.get(isa, {}))


def set_isa(isa: str) -> None:
    """Set the instruction set of this process; call before the import of torch."""
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
    """Restore the variables changed by an earlier call in this process."""
    for name, value in _replaced.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    _replaced.clear()


def _check_imported(isa: str) -> None:
    """Raise UsageError if torch was imported with another instruction set."""
    import torch

    pinned = PINNED.get(isa, {})
    differs = any(os.environ.get(name) != value for name, value in pinned.items())
    # Ask ATen, since the environment may have changed after the import.
    capability = torch.backends.cpu.get_cpu_capability().lower()
    differs |= bool(pinned) and capability != isa
    if differs or (not pinned and "ATEN_CPU_CAPABILITY" in _replaced):
        raise UsageError(
            f"--isa {isa}: PyTorch was already imported in this process with another "
            "instruction set; use a new process"
        )


def own_flags() -> frozenset[str]:
    """Instruction sets of this CPU; empty if unknown."""
    # The lines of one CPU are enough; reading every CPU takes long on large machines.
    with suppress(OSError), CPUINFO.open() as lines:
        return cpu_flags(lines)
    return frozenset()


def _has_amx(flags: frozenset[str]) -> bool:
    return any(flag.startswith("amx") for flag in flags)


def start(runtime: Runtime) -> "torch.device":
    """Set threads and determinism of this process, once a stage; return the device."""
    import torch

    _check_imported(runtime.isa)
    device = device_of(runtime)
    torch.set_num_threads(runtime.threads)
    limit_numpy(runtime.threads)
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


def limit_numpy(threads: int) -> None:
    """Limit the threads of numpy's matrix products, which torch's limit does not cover.

    Threads of several processes on one core wait for each other in busy loops. Before
    the import of numpy, variables set the limit, so that commands without numpy stay
    fast; an import later reads the variables.
    """
    if "numpy" not in sys.modules:
        for name in _BLAS:
            os.environ[name] = str(threads)
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads, user_api="blas")


def _limit_memory(device: "torch.device", fraction: float) -> None:
    """Limit this process to a share of the device's memory, else "out of memory"."""
    import torch

    module = torch.get_device_module(device)
    limit = getattr(module, "set_per_process_memory_fraction", None)
    if limit is None:
        raise UsageError(
            f"--gpu-memory {fraction}: --device {device.type} has no limit of memory; "
            "omit the option, or use --device cuda"
        )
    if device.type == "cuda":
        limit(fraction, device)
    else:
        limit(fraction)


def _keep_freed_memory() -> None:
    """Let glibc keep freed memory of a step for the next step.

    By default large blocks return to the system each time, and the system clears every
    page of a new block, which costs several percent of a training step. A second thread
    would have memory of its own, from which blocks above 64 MB return each time.
    """
    import ctypes

    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, 2**30)
        if not mallopt(_M_MMAP_THRESHOLD, 2**30):
            mallopt(_M_MMAP_THRESHOLD, 2**25)  # The limit of an older glibc.
        mallopt(_M_ARENA_MAX, 1)


def versions() -> dict[str, str]:
    """Versions of the programs that, with the options, determine the bytes of a result."""
    import numpy
    import torch

    return {
        "furlkit": __version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def machine() -> dict[str, str]:
    """Versions and instruction set, which affect the rounding of a result.

    `isa`: variables that restrict the instruction set, if set.
    """
    import platform

    import torch

    names = ("ATEN_CPU_CAPABILITY", _ONEDNN, _OLD_ONEDNN, "MKL_CBWR")
    given = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    found = {**versions(), "cpu": torch.backends.cpu.get_cpu_capability()}
    limits = {"isa": " ".join(given)} if given else {}
    where = {"python": platform.python_version(), "host": platform.node()}
    return {**found, **limits, **where}


def device_of(runtime: Runtime) -> "torch.device":
    """Device that --device selects on this machine; without side effects."""
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


def device_kind(runtime: Runtime) -> str:
    """Kind of the device, without the import of torch on a machine with only a CPU."""
    if runtime.device == "auto" and "torch" not in sys.modules and _has_cpu_only():
        return "cpu"
    return "cpu" if runtime.device == "cpu" else device_of(runtime).type


def _has_cpu_only() -> bool:
    """Return whether Linux has no driver for a device of torch; elsewhere ask torch."""
    return sys.platform == "linux" and not any(map(os.path.exists, DRIVERS))


def _is_available(kind: str) -> bool:
    """Return whether PyTorch has this kind of device: mps, xpu, or from another package."""
    import torch

    try:
        return bool(torch.get_device_module(kind).is_available())
    except (RuntimeError, AttributeError):
        return False


def with_float64(device: "torch.device") -> "torch.device":
    """Return the device; the CPU in place of MPS, which has no float64."""
    import torch

    return torch.device("cpu") if device.type == "mps" else device


def check_precision(precision: str, device: "torch.device") -> None:
    """Try a small convolution and product in mixed precision, which may fail on a CPU.

    After a failure, float32 fails too in this process: the process must end.
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
    """Message for the user about oneDNN's failure on a CPU; None for other errors."""
    if _NO_PRIMITIVE not in str(error):
        return None
    if _has_amx(own_flags()):
        cause = "this CPU announces AMX but cannot run it"
        return f"{cause}; use --isa auto or --precision float32"
    return f"PyTorch {_NO_PRIMITIVE} on this CPU; use --precision float32"


def end_with_parent() -> Callable[[], None]:
    """Return a function for a new process, which then ends with this process.

    Linux kills the new process even if this process is killed. On other systems the
    function does nothing. Call the function between fork and exec, as preexec_fn or as
    initializer of a pool: the search for the C library must precede the fork.
    """
    parent = os.getpid()
    if not sys.platform.startswith("linux"):
        return lambda: None
    import ctypes

    libc = ctypes.CDLL(None)

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # The parent ended before the call.
            os._exit(1)

    return arrange


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Disable Python's search for cycles: a tenth of the time, and no cycles exist."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
