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

    `factors` multiply the learning rate of each parameter; without factors all rates
    are equal. `state` and `steps` must be saved to resume.
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
        self.steps = 0

    def clear(self) -> None:
        """Forget the gradients."""
        for parameter in self._all:
            parameter.grad = None

    def gradients(self) -> tuple[list[Tensor], list[Tensor]]:
        """Parameters with a gradient, and their gradients."""
        moved = [p for p in self._all if p.grad is not None]
        return moved, [p.grad for p in moved if p.grad is not None]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update once; parameters with equal rates are updated together."""
        self.steps += 1
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
        w = list(moved.values())
        torch._foreach_addcdiv_(w, m, scale, -lr / (1 - BETA_1**self.steps))


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

    A step with overflowing gradients is skipped, like in torch.amp.GradScaler.
    """

    GROW_AFTER = 2000

    def __init__(self, enabled: bool):
        self.enabled = enabled
        self.scale, self.good_steps = (2.0**16 if enabled else 1.0), 0

    def usable(self, gradients: list[Tensor]) -> bool:
        """Undo the scale in place; return True if all gradients are finite."""
        if not self.enabled:
            return True
        torch._foreach_mul_(gradients, 1 / self.scale)
        # One answer for all gradients: every answer of a GPU is a wait.
        finite = bool(torch.stack([g.isfinite().all() for g in gradients]).all())
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            self.scale /= 2
        elif self.good_steps % self.GROW_AFTER == 0:
            self.scale *= 2
        return finite
