"""APFL: a client's personal model mixes a private model with the global model.

Deng et al., "Adaptive Personalized Federated Learning", 2020, Algorithm 1; FedStyle's
appendix, which mixes outputs.

    w        the client's copy of the global model, trained as in FedAvg, and sent
    v        the client's private weights, which persist between rounds; with
             --sent-model own (FedStyle Algorithm 1, line 10) the client sends v, not w
    alpha    share of v in the mixture (--own-share)

    v_bar = alpha v + (1 - alpha) w
    w <- w - eta grad F(w),     v <- v - eta grad_v F(v_bar) = v - eta alpha grad F(v_bar)

on one batch. alpha enters once, by the chain rule: v_bar never replaces v, and no
gradient is scaled a second time. BatchNorm statistics and slow copies (target) of the
mixture are mixed at the start of a round, when w is the server's, and then follow
v_bar. With alpha 0 the mixture is therefore the model of FedAvg, and with alpha 1 a
model trained alone, to the bit. (Not in float16: both models share a loss scale, and an
overflow in one model skips the step of both.)
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from furlkit.objectives.learner import Forward
from furlkit.weights import OWN

Terms = Mapping[str, Callable[[Any, Forward], Tensor]]
ALPHA = "apfl.alpha"  # Name in a private file.


class Pair(nn.Module):
    """The learner of the global model's copy and the learner of the personal model.

    Each learner draws the random numbers of a run without the other learner.
    """

    alpha: Tensor

    def __init__(self, learner: Any, own: Any, terms: Terms, alpha: float) -> None:
        super().__init__()
        self.learner, self.own, self._terms = learner, own, terms
        device = next(learner.parameters()).device
        self.register_buffer("alpha", torch.tensor(alpha, device=device))

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Both prepare the epoch."""
        same = rng.clone_state()
        if hasattr(self.learner, "begin_epoch"):
            self.learner.begin_epoch(images, epoch, rng)
            self.with_own(self.own.begin_epoch, images, epoch, same)

    def step(self, batch: Any) -> Forward:
        """The losses of both; terms and the collapse meter see the copy."""
        batch, same = batch.twice()
        forward = self.learner.step(batch)
        losses = self.with_own(self.own_losses, same)
        own = {f"{OWN}{name}": loss for name, loss in losses.items()}
        return forward._replace(losses={**forward.losses, **own})

    def after_step(self) -> None:
        """Update slow copies and queues of both learners."""
        if hasattr(self.learner, "after_step"):
            self.learner.after_step()
            self.with_own(self.own.after_step)

    def own_losses(self, batch: Any) -> dict[str, Tensor]:
        """Losses of the personal model and its terms."""
        forward = self.own.step(batch)
        more = {name: term(batch, forward) for name, term in self._terms.items()}
        return {**forward.losses, **more}

    def with_own(self, call: Callable, *arguments: Any) -> Any:
        """Call a method of the personal model."""
        return call(*arguments)

    def memory(self) -> dict[str, float]:
        """Numbers to store with the personal model."""
        return {}


class Weights(Pair):
    """The personal model computes with the weights v_bar.

    With a rate, alpha is trained in every step, like v:

        alpha <- alpha - rate <v - w, grad F(v_bar)>        within [0, 1]
    """

    _moving: Tensor  # alpha of the current step

    def __init__(
        self, learner: Any, own: Any, terms: Terms, alpha: float, rate: float
    ) -> None:
        super().__init__(learner, own, terms, alpha)
        self._rate, self._moving = rate, self.alpha
        self._mix_start()

    @torch.no_grad()
    def _mix_start(self) -> None:
        """Mix untrained tensors; rows of a queue, and counts, belong to one model."""
        trained = {f"net.{name}" for name, _ in self.own.net.named_parameters()}
        others = self.learner.state_dict()
        for name, mine in self.own.state_dict().items():
            if name in trained or name.startswith("queue."):
                continue
            if mine.is_floating_point():
                mine.copy_(torch.lerp(others[name], mine, self.alpha))
            elif not self.alpha:
                mine.copy_(others[name])

    def step(self, batch: Any) -> Forward:
        """Run both steps; alpha takes a gradient if it has a rate."""
        self._moving = self.alpha.clone().requires_grad_(bool(self._rate))
        return super().step(batch)

    @torch.no_grad()
    def after_step(self) -> None:
        """Update alpha after w and v."""
        if self._moving.grad is not None:
            self.alpha.sub_(self._rate * self._moving.grad).clamp_(0, 1)
        self._moving = self.alpha
        super().after_step()

    def with_own(self, call: Callable, *arguments: Any) -> Any:
        """Call a method with v_bar instead of v; gradients flow to v and to alpha."""
        w = dict(self.learner.net.named_parameters())
        mixed = {
            f"own.net.{name}": torch.lerp(w[name].detach(), v, self._moving)
            for name, v in self.own.net.named_parameters()
        }
        return functional_call(self, mixed, (call, *arguments))

    def forward(self, call: Callable, *arguments: Any) -> Any:
        """Entry point of functional_call, with mixed weights."""
        return call(*arguments)

    def memory(self) -> dict[str, float]:
        """Store alpha, to mix v with the global model later."""
        return {ALPHA: float(self.alpha)}


class Views(Pair):
    """FedStyle's APFL: mix projections of the copy with v's of the second view.

        z_hat_1 = (1 - alpha) z_g_1 + alpha z_2,    z_hat_2 = (1 - alpha) z_g_2 + alpha z_1

    z_g by the copy of the global model, without gradient, and z by v; v minimises the
    objective of z_hat. (FedStyle's alpha is 1 - ours.) Projections of the two targets
    are mixed likewise. The personal model is then v alone: a mixture has no h.
    """

    def step(self, batch: Any) -> Forward:
        """Note what the projectors of the copy give, then mix it in."""
        batch, same = batch.twice()
        z_g: list[Tensor] = []

        def mixed(z: Tensor) -> Tensor:
            return torch.lerp(z_g.pop(0), z, self.alpha.to(z.dtype))

        with after_projectors(self.learner, lambda z: z_g.append(z.detach())):
            forward = self.learner.step(batch)
        with after_projectors(self.own, mixed):
            losses = self.own_losses(Crossed(same))
        own = {f"{OWN}{name}": loss for name, loss in losses.items()}
        return forward._replace(losses={**forward.losses, **own})


class Crossed:
    """A batch with exchanged views."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def two_views(self) -> Tensor:
        """All second views, then all first views."""
        first, second = self._batch.two_views().chunk(2)
        return torch.cat([second, first])


@contextmanager
def after_projectors(
    learner: nn.Module, change: Callable[[Tensor], Tensor | None]
) -> Iterator[None]:
    """Apply `change` to the outputs of a learner's projectors and its target's."""
    modules = learner.named_modules()
    found = [m for name, m in modules if name.rpartition(".")[2] == "projector"]
    hooks = [m.register_forward_hook(lambda _m, _x, z: change(z)) for m in found]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def learner(
    learner: Any,
    own: Any,
    terms: Terms,
    memory: Mapping[str, Any],
    *,
    own_share: float,
    mix: str,
    own_share_rate: float,
) -> Pair:
    """Train both models together; a trained alpha continues from its stored value."""
    if mix == "views":
        return Views(learner, own, terms, own_share)
    alpha = float(memory.get(ALPHA, own_share)) if own_share_rate else own_share
    return Weights(learner, own, terms, alpha, own_share_rate)
