"""A device written in Python, which stands in for a GPU in tests.

Tensors of the device compute on the CPU. As with CUDA, an operation refuses tensors of
two devices and a generator of the wrong device. `Device` also counts two things that
happen inside a training step, by the line of furlkit that caused them:

    reads     the program waits for a value of the device (.item(), a mask as an index,
              a copy to the CPU)
    copies    tensors sent to the device

The begin and the end of an epoch, saving and constants, which are sent once, are not
part of a step.

Nothing of it needs a driver: torch offers PrivateUse1 for devices that others add. Mixed
precision casts the operands of the operations that CUDA casts. A stand-in has limits: no
streams, no pinned memory, and inference mode is no_grad, because torch does not let a
device in Python make inference tensors.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from torch.library import Library, fallthrough_kernel
from torch.utils import backend_registration
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    return_and_correct_aliasing,
)
from torch.utils._pytree import tree_leaves, tree_map

import furlkit

NAME = "stand_in"
PACKAGE = f"{Path(furlkit.__file__).parent}/"
aten = torch.ops.aten
# Operations whose result has a shape or a value that the CPU must know.
READS = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
    aten.equal.default,
}
INDEXING = {
    aten.index.Tensor,
    aten.index_put_.default,
    aten.index_put.default,
    aten._index_put_impl_.default,
}
COPIES = {aten._to_copy.default, aten.copy_.default}
# Functions of the training loop, and what it calls, that are not part of a step.
OUTSIDE = {
    *("_resume", "begin_epoch", "order", "_constant"),
    *("_finish_epoch", "end_epoch", "_keep", "_check_finite"),
}


# Mixed precision: operations in 16 bits and in float32, as far as furlkit uses them, of
# the lists in torch's documentation of CUDA ("Op-specific behavior").
AUTOCAST = "AutocastPrivateUse1"
IN_16_BITS = (
    *("linear", "matmul", "mm", "bmm", "addmm", "conv1d", "conv2d"),
    *("conv_transpose2d.input", "prelu"),
)
IN_FLOAT32 = (
    *("exp", "log", "log1p", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "rsqrt"),
    *("softmax.int", "log_softmax.int", "logsumexp", "cumsum", "prod"),
    *("sum", "sum.dim_IntList", "norm.ScalarOpt_dim", "linalg_vector_norm"),
    *("mse_loss", "nll_loss", "cross_entropy_loss", "cosine_similarity"),
    *("binary_cross_entropy_with_logits", "layer_norm", "group_norm", "cdist"),
)
WIDEST = ("cat", "stack")
_libraries: list[Library] = []  # Kernels last as long as their library.


class _Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    fraction = 1.0  # Of its memory, which this process may take.

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        self.fraction = fraction

    def synchronize(self) -> None:
        """Nothing is left to do: every operation is finished when it returns."""


@cache
def device() -> torch.device:
    """The device; the first call makes torch know it, for the rest of the process."""
    backend_registration._setup_privateuseone_for_python_backend(
        NAME, backend_module=_Backend()
    )
    _add_mixed_precision()
    return torch.device(f"{NAME}:0")


def _add_mixed_precision() -> None:
    every, kernels = Library("_", "IMPL"), Library("aten", "IMPL")
    _libraries.extend([every, kernels])
    every.fallback(fallthrough_kernel, AUTOCAST)
    narrow, wide = lambda _: torch.get_autocast_dtype(NAME), lambda _: torch.float32
    for names, kind in ((IN_16_BITS, narrow), (IN_FLOAT32, wide), (WIDEST, _widest)):
        for name in names:
            kernels.impl(name, _casting(name, kind), AUTOCAST)


def _widest(tensors: list[Tensor]) -> torch.dtype:
    kinds = {tensor.dtype for tensor in tensors}
    return torch.float32 if len(kinds) > 1 else kinds.pop()


def _casting(name: str, kind: Callable[[list[Tensor]], torch.dtype]) -> Any:
    """The operation on operands of another type, chosen by these operands."""
    packet, _, overload = name.partition(".")
    operation = getattr(getattr(aten, packet), overload or "default")

    def cast(*args: Any, **kwargs: Any) -> Any:
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if _floats(leaf)]
        with _ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutocastPrivateUse1)):
            dtype = kind(leaves) if leaves else None
            args, kwargs = tree_map(
                lambda x: x.to(dtype) if _floats(x) else x, (args, kwargs)
            )
            return operation(*args, **kwargs)

    return cast


def _floats(leaf: Any) -> bool:
    return isinstance(leaf, StandIn) and leaf.dtype in (
        *(torch.float16, torch.bfloat16, torch.float32),
    )


class StandIn(Tensor):
    """A tensor of the device; `host` has its values."""

    host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: Tensor) -> "StandIn":
        made = Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), dtype=host.dtype,
            storage_offset=host.storage_offset(), device=device(),
        )  # fmt: skip
        made.host = host
        return made

    def __init__(self, host: Tensor) -> None:
        pass

    def __repr__(self, **_how: Any) -> str:
        return f"StandIn({self.host!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_how: Any) -> Any:
        raise TypeError(f"numpy() of a tensor on {device()}; use .cpu() first")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {}, None)


class Device(TorchDispatchMode):
    """Counts what happens inside training steps, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()  # By the line of furlkit.
        self.copies: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {}, self)

    def note(self, counter: "Counter[str]") -> None:
        """Count something by its line, if a training step is under way."""
        frames = [
            (frame, line)
            for frame, line in traceback.walk_stack(None)
            if frame.f_code.co_filename.startswith(PACKAGE)
        ]
        names = {frame.f_code.co_name for frame, _ in frames}
        if "train" in names and names.isdisjoint(OUTSIDE):
            frame, line = frames[0]
            counter[f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{line}"] += 1


def _run(func: Any, args: Any, kwargs: dict[str, Any], counter: Device | None) -> Any:
    leaves = _leaves((*args, *kwargs.values()))
    ours = [leaf for leaf in leaves if isinstance(leaf, StandIn)]
    target = kwargs.get("device")
    arrives = target is not None and torch.device(target).type == NAME
    if not (ours or arrives):
        return func(*args, **kwargs)
    _refuse_mixtures(func, leaves, kwargs, ours, arrives)
    if counter is not None:
        _count(func, args, ours, target, arrives, counter)
    own = {name: _map(_host, value) for name, value in kwargs.items()}
    if arrives:
        own["device"] = torch.device("cpu")
    own.pop("pin_memory", None)
    found = func(*(_map(_host, value) for value in args), **own)
    if _writes_first(func):
        return args[0]
    if func is aten._to_copy.default and target is not None and not arrives:
        return found
    found = _map(lambda x: StandIn(x) if _plain(x) else x, found)
    return (
        return_and_correct_aliasing(func, args, kwargs, found)
        if _shares_memory(func)
        else found
    )


# Operations take and return tensors and flat lists of tensors. Walking them here, and
# asking torch only about operations that share memory, takes a third of the time.
def _leaves(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            found += value
        else:
            found.append(value)
    return found


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)([function(leaf) for leaf in value])
    return function(value)


@cache
def _shares_memory(func: Any) -> bool:
    return any(value.alias_info is not None for value in func._schema.returns)


@cache
def _writes_first(func: Any) -> bool:
    """Return whether an operation changes its first tensor's values and returns it."""
    schema = func._schema
    if len(schema.returns) != 1 or not schema.arguments:
        return False
    ends = (schema.returns[0].alias_info, schema.arguments[0].alias_info)
    writes = all(end is not None and end.is_write for end in ends)
    return writes and torch.Tag.inplace_view not in func.tags


def _host(leaf: Any) -> Any:
    return leaf.host if isinstance(leaf, StandIn) else leaf


def _plain(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and not isinstance(leaf, StandIn)


def _refuse_mixtures(
    func: Any, leaves: list, kwargs: dict[str, Any], ours: list[StandIn], arrives: bool
) -> None:
    """As CUDA does; a number without dimensions may be on the CPU."""
    others = [leaf for leaf in leaves if _plain(leaf) and leaf.dim() > 0]
    if ours and others and func not in COPIES:
        raise RuntimeError(f"{func}: tensors on {device()} and on cpu")
    generator = kwargs.get("generator")
    if generator is not None and (ours or arrives):
        raise RuntimeError(f"{func}: a generator of cpu for a tensor on {device()}")


def _count(
    func: Any,
    args: Any,
    ours: list[StandIn],
    target: Any,
    arrives: bool,
    counter: Device,
) -> None:
    if func in COPIES:
        source = args[1] if func is aten.copy_.default else args[0]
        ends = isinstance(args[0], StandIn) if func is aten.copy_.default else arrives
        moves = func is aten.copy_.default or target is not None
        if isinstance(source, StandIn) and moves and not ends:
            counter.note(counter.reads)
        elif _plain(source) and ends:
            counter.note(counter.copies)
    elif ours and (func in READS or (func in INDEXING and _has_mask(args[1]))):
        counter.note(counter.reads)


def _has_mask(index: Any) -> bool:
    kinds = (torch.bool, torch.uint8)
    return any(leaf.dtype in kinds for leaf in _leaves([index]) if _tensor(leaf))


def _tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor)


@contextmanager
def on_device() -> Iterator[Device]:
    """Let torch use the device: patches what torch does in C++ past a dispatch mode."""
    place, tensor, new = device(), torch.tensor, Tensor.new_tensor

    def make(*values: Any, device: Any = None, **how: Any) -> Tensor:
        made = tensor(*values, **how)
        return made if device is None else made.to(device)

    def make_like(self: Tensor, data: Any, **how: Any) -> Tensor:
        if self.device != place:
            return new(self, data, **how)
        return tensor(data, dtype=how.get("dtype", self.dtype)).to(place)

    with (
        mock.patch.object(torch, "tensor", make),
        mock.patch.object(Tensor, "new_tensor", make_like),
        mock.patch.multiple(torch.inference_mode, __enter__=_enter, __exit__=_exit),
        Device() as counter,
    ):
        yield counter


def _enter(self: Any) -> None:
    self.before = torch.is_grad_enabled()
    torch.set_grad_enabled(not self.mode)


def _exit(self: Any, *_error: Any) -> None:
    torch.set_grad_enabled(self.before)
