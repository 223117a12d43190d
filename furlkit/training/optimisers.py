"""Adam and SGD over lists of tensors, and loss scaling for float16.

The arithmetic equals torch.optim's, and the tests compare both. The first optimiser of
torch.optim imports the compiler, which takes longer than many a client's round;
torch.optim's functions alone need 0.3 ms more for 60 tensors.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Optimiser:
    """Update parameters that have a gradient; other parameters stay unchanged.

    `factors` multiply the learning rates of the parameters; the default is 1. Progress
    files need only `state` and `steps`. `steps` is a number on the device after a step
    that only the device knows to be usable or not.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        weight_decay: float,
        factors: Sequence[float] = (),
    ):
        self._all = list(parameters)
        self._decay = weight_decay
        self._factors = list(factors) or [1.0] * len(self._all)
        self.state: dict[str, Tensor] = {}
        self.steps: int | Tensor = 0

    def clear(self) -> None:
        """Forget the gradients."""
        for parameter in self._all:
            parameter.grad = None

    def gradients(self) -> tuple[list[Tensor], list[Tensor]]:
        """Parameters with a gradient, and their gradients."""
        moved = [p for p in self._all if p.grad is not None]
        return moved, [p.grad for p in moved if p.grad is not None]

    @torch.no_grad()
    def step(self, lr: float, usable: Tensor | None = None) -> None:
        """One update. If `usable`, a bool on the device, is false, nothing moves.

        The program does not wait for `usable`: the update is made and then undone.
        """
        if usable is None:
            self._step(lr)
            return
        if not isinstance(self.steps, Tensor):
            # In float64 the bias corrections round as those of Python's numbers.
            kind = wide_dtype(usable.device)
            self.steps = torch.full((), self.steps, dtype=kind, device=usable.device)
        moved, steps = self.gradients()[0], self.steps
        weights = [p.clone() for p in moved]
        slots = {key: slot.clone() for key, slot in self.state.items()}
        self._step(lr)
        self.steps = torch.where(usable, self.steps, steps)
        for p, old in zip(moved, weights, strict=True):
            p.copy_(torch.where(usable, p, old))
        for key, slot in self.state.items():
            slot.copy_(torch.where(usable, slot, slots.get(key, 0.0)))

    def _step(self, lr: float) -> None:
        """Parameters of the same rate are moved together."""
        self.steps = self.steps + 1
        alike: dict[float, dict[int, Tensor]] = {}
        for i, (p, factor) in enumerate(zip(self._all, self._factors, strict=True)):
            if p.grad is not None:
                alike.setdefault(factor, {})[i] = p
        for factor, moved in alike.items():
            w = list(moved.values())
            g = [p.grad for p in w if p.grad is not None]
            if self._decay:
                g = list(torch._foreach_add(g, w, alpha=self._decay))
            self._update(moved, g, lr * factor)

    def _update(self, moved: dict[int, Tensor], g: list[Tensor], lr: float) -> None:
        """Update parameters, given by position, with the gradients g."""
        raise NotImplementedError

    def _slot(self, name: str, moved: dict[int, Tensor]) -> list[Tensor]:
        """State tensors of some parameters, initially zero."""
        for i, parameter in moved.items():
            if f"{name}.{i}" not in self.state:
                self.state[f"{name}.{i}"] = torch.zeros_like(parameter)
        return [self.state[f"{name}.{i}"] for i in moved]

    def load(self, state: dict[str, Tensor], steps: int) -> None:
        """Continue from a saved `state`."""
        self.steps = steps
        for key, tensor in state.items():
            parameter = self._all[int(key.rpartition(".")[2])]
            self.state[key] = torch.empty_like(parameter).copy_(tensor)


class Adam(Optimiser):
    """Kingma and Ba, "Adam", ICLR 2015, Algorithm 1; weight decay joins the gradient."""

    def _update(self, moved: dict[int, Tensor], g: list[Tensor], lr: float) -> None:
        m, v = self._slot("m", moved), self._slot("v", moved)
        torch._foreach_lerp_(m, g, 1 - BETA_1)
        torch._foreach_mul_(v, BETA_2)
        torch._foreach_addcmul_(v, g, g, 1 - BETA_2)
        scale = torch._foreach_sqrt(v)
        torch._foreach_div_(scale, (1 - BETA_2**self.steps) ** 0.5)
        torch._foreach_add_(scale, EPSILON)
        w, rate = list(moved.values()), -lr / (1 - BETA_1**self.steps)
        if isinstance(rate, Tensor):  # addcdiv takes no number of the device.
            change = torch._foreach_mul(m, rate)
            torch._foreach_div_(change, scale)
            torch._foreach_add_(w, list(change))
        else:
            torch._foreach_addcdiv_(w, m, scale, rate)


class SGD(Optimiser):
    """m <- momentum m + g,   w <- w - lr m."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        weight_decay: float,
        momentum: float,
        factors: Sequence[float] = (),
    ):
        super().__init__(parameters, weight_decay, factors)
        self._momentum = momentum

    def _update(self, moved: dict[int, Tensor], g: list[Tensor], lr: float) -> None:
        if self._momentum:
            m = self._slot("m", moved)
            torch._foreach_mul_(m, self._momentum)
            torch._foreach_add_(m, g)
            g = m
        torch._foreach_add_(list(moved.values()), g, alpha=-lr)


class LossScale:
    """Keep float16 gradients in range: halve the scale after overflows, then double.

    A step whose gradients overflowed is left out, as in torch.amp.GradScaler. Scale and
    count stay on the device, so no step waits; `vanished` is asked at the end of epochs.
    """

    GROW_AFTER = 2000
    LARGEST = 2.0**127  # Of the powers of 2 in float32.
    LEAST = 2.0**-24  # No float16 is nearer to 0.

    def __init__(self, enabled: bool, device: torch.device | str = "cpu"):
        self.enabled = enabled
        self.scale = torch.full((), 2.0**16 if enabled else 1.0, device=device)
        self.good_steps = torch.zeros((), dtype=torch.long, device=device)

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward of."""
        return loss * self.scale if self.enabled else loss

    @torch.no_grad()
    def usable(
        self, gradients: list[Tensor], counts: Tensor | None = None
    ) -> Tensor | None:
        """Undo the scale in place; a bool on the device, or None for a sure yes.

        A step that does not count leaves the scale alone, and is not usable.
        """
        if not self.enabled:
            return counts
        torch._foreach_mul_(gradients, self.scale.reciprocal())
        finite = torch.stack([g.isfinite().all() for g in gradients]).all()
        good = torch.where(finite, self.good_steps + 1, 0)
        larger = (self.scale * 2).clamp(max=self.LARGEST)
        scale = torch.where(good % self.GROW_AFTER == 0, larger, self.scale)
        scale = torch.where(finite, scale, self.scale / 2)
        if counts is not None:
            finite, good = finite & counts, torch.where(counts, good, self.good_steps)
            scale = torch.where(counts, scale, self.scale)
        self.scale, self.good_steps = scale, good
        return finite

    def vanished(self) -> bool:
        """Whether gradients overflow at any scale; waits for the device."""
        return self.enabled and float(self.scale) < self.LEAST

    def load(self, scale: float, good_steps: int) -> None:
        """Continue from these numbers."""
        self.scale.fill_(scale)
        self.good_steps.fill_(good_steps)


def wide_dtype(device: torch.device) -> torch.dtype:
    """The most exact numbers of a device: MPS has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64
