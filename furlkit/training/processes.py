"""Several GPUs for one training: encoders compute in several processes.

    torchrun --nproc-per-node 4 -m furlkit local-train ...

The first process runs the command like a single process: it reads and writes all files,
draws random numbers, augments, computes heads and losses, and updates the weights. The
helper processes only compute. They receive the weights and a part of each batch, and
return h; in the backward pass they receive the gradient by their part of h, and return
the gradient by the weights. BatchNorm normalises by the batch of all processes.
Objectives work unchanged, with the negatives of the whole batch, and N processes give
the result of one process, up to rounding.

Why not DistributedDataParallel: there every process computes the whole loss of a part of
the batch, so each objective, queue, k-means and term would need a second form that
gathers rows with gradients, and every process would read, draw and write. Here this work
stays in the first process, with the code of a single process. BatchNorm over all
processes is written out because torch's SyncBatchNorm refuses the CPU. The price is that
weights travel with every batch, and that heads and losses use one GPU.

If a process ends, the remaining processes end with an error when they wait for this
process; the same command resumes from the progress of the first process.

    x, h    images and the encoder's output, divided into N equal parts
    w       the encoder's parameters and buffers, sent with every batch
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

# Default arguments of this module hold the group of processes, if the module is imported
# after the start of the group, for example by torchvision with the first encoder. The
# threads of gloo would then outlive the group, and abort a process that ends meanwhile.
import torch.distributed.nn
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from furlkit import runtime
from furlkit.errors import FurlkitError, UsageError

NEW, FORWARD, BACKWARD, FORGET, STOP = range(5)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HEAD = 10  # Whole numbers of a message.
_KEY = "furlkit"  # Key for the device of the helpers, set by the first process.


class LostProcessError(FurlkitError):
    """Another process of the training ended."""

    def __init__(self) -> None:
        super().__init__(
            "another process of torchrun ended, so the training stopped; run the same "
            "command again to resume"
        )


class _Collective:
    """The collective calls of torch.distributed, which all processes make together."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(dist, name)

        def checked(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except RuntimeError as error:
                _team().lost = True
                raise LostProcessError from error

        return checked


collective = _Collective()


class _Team:
    """Processes of this training, seen from the first process or a helper."""

    def __init__(self) -> None:
        self.store, self.rank, self.count = next(dist.rendezvous("env://"))
        self.device = torch.device("cpu")
        self.started, self.computing, self.lost = False, False, False
        self.encoders = 0
        self.calls = 0
        self.forgotten: list[int] = []  # Passes without a backward pass.

    def start(self, kind: str) -> None:
        """Connect all processes; gloo sends numbers, NCCL sends a GPU's tensors."""
        if kind == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        self.device = torch.device(kind)
        backend = "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"
        store = dist.PrefixStore("training", self.store)
        place = {"rank": self.rank, "world_size": self.count}
        dist.init_process_group(backend, store=store, **place)
        self.started = True

    def tell(self, what: int, *numbers: int) -> None:
        """Send the next task to the helpers."""
        message = torch.zeros(HEAD, dtype=torch.long)
        message[: len(numbers) + 1] = torch.tensor([what, *numbers])
        collective.broadcast(message, 0)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Mark a pass made by all processes together."""
        self.computing = True
        try:
            yield
        finally:
            self.computing = False


@cache
def _team() -> _Team:
    return _Team()


def share(encoder: nn.Module, device: torch.device) -> None:
    """Let an encoder, and its copies, compute in all processes from now on."""
    if runtime.processes() == 1 or device.type == "meta":
        return
    _check_norms(encoder)
    team = _team()
    if not team.started:
        team.store.set(_KEY, device.type)
        team.start(device.type)
    team.tell(NEW)
    # A structure alone: the weights travel with every batch.
    collective.broadcast_object_list([deepcopy(encoder).cpu()], 0)
    _share_norms(encoder)
    encoder.__class__ = _shared(type(encoder))  # type: ignore[arg-type]
    encoder.shared_number = team.encoders  # type: ignore[assignment]
    team.encoders += 1


def check_batch(size: int) -> None:
    """Refuse a batch that the processes cannot divide."""
    if size % runtime.processes():
        raise UsageError(
            f"--batch-size {size}: {runtime.processes()} processes cannot divide it into "
            "equal parts; choose a multiple"
        )


def _check_norms(encoder: nn.Module) -> None:
    for module in encoder.modules():
        if isinstance(module, _BatchNorm) and type(module) not in NORMS:
            raise UsageError(
                f"--nproc-per-node {runtime.processes()}: {type(module).__name__} of the "
                "encoder cannot normalise over several processes; use one process"
            )


def stop() -> None:
    """Let the helpers end."""
    if runtime.processes() == 1:
        return
    team = _team()
    if team.lost:
        return
    if team.started:
        team.tell(STOP)
        dist.destroy_process_group()
    else:
        team.store.set(_KEY, "stop")


class _SharedEncoder(nn.Module):
    """Encoder of the first process; all processes share its training passes."""

    shared_number: int

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, d)."""
        team = _team()
        if team.computing or not self.training or len(x) % team.count:
            return super().forward(x)  # type: ignore[misc]
        w = [tensor for _, tensor in self.named_parameters()]
        return _Pass.apply(self, x, torch.is_grad_enabled(), *w)


@cache
def _shared(kind: Any) -> Any:
    # The instance keeps its tensor names, and can be copied.
    return type(f"Shared{kind.__name__}", (_SharedEncoder, kind), {})


class _Pass(torch.autograd.Function):
    """h of a batch, with a part from every process."""

    @staticmethod
    def forward(ctx: Any, encoder: Any, x: Tensor, trains: bool, *w: Tensor) -> Tensor:
        team, names = _team(), [name for name, _ in encoder.named_parameters()]
        wanted = [trains and tensor.requires_grad for tensor in w]
        for call in team.forgotten:
            team.tell(FORGET, call)
        team.forgotten.clear()
        team.calls += 1
        kind = DTYPES.index(_autocast_dtype(x.device))
        last = x.is_contiguous(memory_format=torch.channels_last)
        number = encoder.shared_number
        team.tell(FORWARD, team.calls, number, kind, int(last), *x.shape)
        modes = [module.training for module in encoder.modules()]
        collective.broadcast(torch.tensor([*modes, *wanted], dtype=torch.uint8), 0)
        collective.broadcast(_packed([*w, *encoder.buffers()]), 0)
        own = _scattered(x, team)
        pairs = zip(names, w, wanted, strict=True)
        leaves = {name: t.detach().requires_grad_(need) for name, t, need in pairs}
        with team.together(), torch.enable_grad():
            h = functional_call(encoder, leaves, (own,))
        parts = [torch.empty_like(h) for _ in range(team.count)]
        collective.gather(h.detach().contiguous(), parts)
        ctx.h, ctx.leaves, ctx.call = h, list(leaves.values()), _Call(team.calls)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        team = _team()
        team.tell(BACKWARD, ctx.call.finished())
        own = _scattered(gradient, team)
        with team.together():
            found = _gradients(ctx.h, ctx.leaves, own)
        sums = _flat(found)
        collective.reduce(sums, 0)
        given = iter(_divided(sums, found))
        by_w = (next(given) if w.requires_grad else None for w in ctx.leaves)
        return None, None, None, *by_w


class _Call:
    """Number of a pass, stored by helpers until the backward pass."""

    def __init__(self, number: int):
        self._number: int | None = number

    def finished(self) -> int:
        """Number for the backward pass."""
        number, self._number = self._number, None
        if number is None:
            raise RuntimeError("a pass has one backward pass")
        return number

    def __del__(self) -> None:
        # Sent with the next pass: messages must not cross.
        if self._number is not None:
            _team().forgotten.append(self._number)


def _autocast_dtype(device: torch.device) -> torch.dtype:
    kind = device.type
    enabled = torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if enabled else torch.float32


def _packed(tensors: Sequence[Tensor]) -> Tensor:
    """Bytes of all tensors."""
    flat = (tensor.detach().contiguous().view(-1) for tensor in tensors)
    return torch.cat([tensor.view(torch.uint8) for tensor in flat])


def _unpacked(data: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Tensors from bytes, each with separate memory."""
    parts = data.split([tensor.nbytes for tensor in like])
    pairs = zip(parts, like, strict=True)
    return [part.clone().view(t.dtype).view(t.shape) for part, t in pairs]


def _scattered(x: Tensor, team: _Team) -> Tensor:
    """Part of a batch for the first process; helpers receive the other parts."""
    parts = [part.contiguous() for part in x.chunk(team.count)]
    own = torch.empty_like(parts[0])
    collective.scatter(own, parts)
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return own.to(memory_format=torch.channels_last) if last else own


def _gradients(h: Tensor, leaves: Sequence[Tensor], by_h: Tensor) -> list[Tensor]:
    """Gradients by the leaves that need one; 0 if h does not depend on a leaf."""
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    found = torch.autograd.grad(h, wanted, by_h, allow_unused=True)
    pairs = zip(found, wanted, strict=True)
    return [torch.zeros_like(w) if g is None else g for g, w in pairs]


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _divided(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(t.shape) for part, t in zip(parts, like, strict=True)]


class _Sum(torch.autograd.Function):
    """Sum over all processes; each process has a part of the gradient by the sum."""

    @staticmethod
    def forward(_ctx: Any, own: Tensor) -> Tensor:
        total = own.clone()
        collective.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        total = gradient.contiguous().clone()
        collective.all_reduce(total)
        return total


class _SharedNorm(_BatchNorm):
    """BatchNorm over the batch of all processes, in passes made together."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by mean and variance over all processes, in float32."""
        team = _team()
        if not (self.training and team.computing):
            return super().forward(x)
        self._check_input_dim(x)
        over = [d for d in range(x.dim()) if d != 1]
        shape = [-1 if d == 1 else 1 for d in range(x.dim())]
        n, wide = team.count * x.numel() // x.shape[1], x.float()
        mean = _Sum.apply(wide.sum(over)) / n
        centred = wide - mean.view(shape)
        var = _Sum.apply(centred.square().sum(over)) / n
        self._follow(mean.detach(), var.detach() * n / max(n - 1, 1))
        found = centred * torch.rsqrt(var + self.eps).view(shape)
        if self.weight is not None:
            found = found * self.weight.view(shape)
        if self.bias is not None:
            found = found + self.bias.view(shape)
        return found.to(x.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor) -> None:
        """Update the running statistics like BatchNorm."""
        statistics = self.running_mean, self.running_var, self.num_batches_tracked
        if not self.track_running_stats or any(s is None for s in statistics):
            return
        for running, found in zip(statistics, (mean, var), strict=False):
            running.lerp_(found, self.momentum)  # type: ignore[union-attr, arg-type]
        self.num_batches_tracked.add_(1)  # type: ignore[union-attr]


@cache
def _shared_norm(kind: Any) -> Any:
    return type(f"Shared{kind.__name__}", (_SharedNorm, kind), {})


def _share_norms(encoder: nn.Module) -> None:
    for module in encoder.modules():
        if type(module) in NORMS:
            module.__class__ = _shared_norm(type(module))  # type: ignore[arg-type]


def help_first_process() -> None:
    """Serve the first process until the end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # The first process decides when to stop.
    team = _team()
    kind = team.store.get(_KEY).decode()
    if kind == "stop":
        return
    team.start(kind)
    helper = _Helper(team)
    while helper.serve():
        pass
    dist.destroy_process_group()


class _Helper:
    """Encoders without weights, and passes that wait for a gradient."""

    def __init__(self, team: _Team):
        self._team = team
        self._encoders: list[nn.Module] = []
        self._waiting: dict[int, tuple[Tensor, list[Tensor]]] = {}

    def serve(self) -> bool:
        """Execute the next message; return False for the last message."""
        message = torch.zeros(HEAD, dtype=torch.long)
        collective.broadcast(message, 0)
        what, *numbers = message.tolist()
        if what == NEW:
            sent: list[Any] = [None]
            collective.broadcast_object_list(sent, 0)
            _share_norms(sent[0])
            self._encoders.append(sent[0].to(self._team.device))
        elif what == FORWARD:
            self._forward(*numbers)
        elif what == BACKWARD:
            self._backward(numbers[0])
        elif what == FORGET:
            self._waiting.pop(numbers[0], None)
        return what != STOP

    def _forward(
        self, call: int, number: int, kind: int, last: int, *shape: int
    ) -> None:
        team, encoder = self._team, self._encoders[number]
        weights = dict(encoder.named_parameters())
        buffers = dict(encoder.named_buffers())
        modules = list(encoder.modules())
        flags = torch.zeros(len(modules) + len(weights), dtype=torch.uint8)
        collective.broadcast(flags, 0)
        modes, wanted = flags.bool().split([len(modules), len(weights)])
        for module, mode in zip(modules, modes.tolist(), strict=True):
            module.training = mode
        every = [*weights.values(), *buffers.values()]
        size = sum(tensor.nbytes for tensor in every)
        data = torch.empty(size, dtype=torch.uint8, device=team.device)
        collective.broadcast(data, 0)
        given = dict(zip([*weights, *buffers], _unpacked(data, every), strict=True))
        for name, need in zip(weights, wanted.tolist(), strict=True):
            given[name].requires_grad_(need)
        images, *image = shape[:4]
        x = torch.empty(images // team.count, *image, device=team.device)
        collective.scatter(x)
        if last:
            x = x.to(memory_format=torch.channels_last)
        dtype = DTYPES[kind]
        with (
            team.together(),
            torch.autocast(team.device.type, dtype, enabled=dtype is not torch.float32),
        ):
            h = functional_call(encoder, given, (x,))
        collective.gather(h.detach().contiguous())
        if h.requires_grad:
            self._waiting[call] = h, [given[name] for name in weights]

    def _backward(self, call: int) -> None:
        h, leaves = self._waiting.pop(call)
        own = torch.empty_like(h)
        collective.scatter(own)
        with self._team.together():
            found = _gradients(h, leaves, own)
        collective.reduce(_flat(found), 0)
