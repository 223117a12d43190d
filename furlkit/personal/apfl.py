"""APFL: a client's own model is a mixture of one that it trains alone and the global one.

Deng et al., "Adaptive Personalized Federated Learning", 2020, Algorithm 1; FedStyle's
appendix, where outputs are mixed.

    w        the client's copy of the global model, trained as in FedAvg, and sent
    v        the client's own weights, which go on from round to round; with --sent-model
             own (FedStyle Algorithm 1, line 10) the client sends v in place of w
    alpha    how much of the mixture is the client's own (--own-share)

    v_bar = alpha v + (1 - alpha) w
    w <- w - eta grad F(w),     v <- v - eta grad_v F(v_bar) = v - eta alpha grad F(v_bar)

on the same batch. alpha enters once, by the chain rule: v itself is never replaced by
v_bar, and no gradient is scaled a second time. BatchNorm statistics and slow copies
(target) of the mixture are mixed at the start of a round, when w is the server's, and
then follow v_bar. So with alpha 0 the mixture is the model of FedAvg, and with alpha 1 it
is trained alone, to the bit. (Not in float16: the two share a loss scale, and a step that
overflows in one is left out in both.)
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from furlkit.objectives.learner import Forward
from furlkit.weights import OWN

Terms = Mapping[str, Callable[[Any, Forward], Tensor]]
ALPHA = "apfl.alpha"  # What a private file calls it.


class Pair(nn.Module):
    """The learner of the global model's copy, and that of the client's own model.

    Each gets the draws that it would get alone, so neither knows of the other.
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
        """Slow copies and queues of both."""
        if hasattr(self.learner, "after_step"):
            self.learner.after_step()
            self.with_own(self.own.after_step)

    def own_losses(self, batch: Any) -> dict[str, Tensor]:
        """The losses of the client's own model and its terms."""
        forward = self.own.step(batch)
        more = {name: term(batch, forward) for name, term in self._terms.items()}
        return {**forward.losses, **more}

    def with_own(self, call: Callable, *arguments: Any) -> Any:
        """Call a method of the client's own model."""
        return call(*arguments)

    def memory(self) -> dict[str, float]:
        """What the client is to remember with its own model."""
        return {}


class Weights(Pair):
    """The client's own model has the weights v_bar whenever it computes something.

    With a rate, alpha learns in every step, as v does:

        alpha <- alpha - rate <v - w, grad F(v_bar)>        within [0, 1]
    """

    _moving: Tensor  # The alpha of the step under way.

    def __init__(
        self, learner: Any, own: Any, terms: Terms, alpha: float, rate: float
    ) -> None:
        super().__init__(learner, own, terms, alpha)
        self._rate, self._moving = rate, self.alpha
        self._mix_start()

    @torch.no_grad()
    def _mix_start(self) -> None:
        """Mix what is not trained; rows of a queue, and counts, are one model's alone."""
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
        """Both, with an alpha that takes a gradient where it learns."""
        self._moving = self.alpha.clone().requires_grad_(bool(self._rate))
        return super().step(batch)

    @torch.no_grad()
    def after_step(self) -> None:
        """alpha moves with w and v."""
        if self._moving.grad is not None:
            self.alpha.sub_(self._rate * self._moving.grad).clamp_(0, 1)
        self._moving = self.alpha
        super().after_step()

    def with_own(self, call: Callable, *arguments: Any) -> Any:
        """The same with v_bar in the place of v; gradients go to v and to alpha."""
        w = dict(self.learner.net.named_parameters())
        mixed = {
            f"own.net.{name}": torch.lerp(w[name].detach(), v, self._moving)
            for name, v in self.own.net.named_parameters()
        }
        return functional_call(self, mixed, (call, *arguments))

    def forward(self, call: Callable, *arguments: Any) -> Any:
        """What functional_call calls while the weights are mixed."""
        return call(*arguments)

    def memory(self) -> dict[str, float]:
        """How to mix v with the global model, for whoever uses the client's model."""
        return {ALPHA: float(self.alpha)}


class Views(Pair):
    """FedStyle's APFL: projections are mixed, and the client's own are of the other view.

        z_hat_1 = (1 - alpha) z_g_1 + alpha z_2,    z_hat_2 = (1 - alpha) z_g_2 + alpha z_1

    z_g by the copy of the global model, without gradient, and z by the client's own; the own
    model minimises the objective of z_hat. (FedStyle's alpha is 1 - ours.) A target's
    projections are mixed with those of the other target. The client's own model is then v
    alone: there is no h of a mixture.
    """

    def step(self, batch: Any) -> Forward:
        """Note what the projectors of the copy give, then mix it in."""
        batch, same = batch.twice()
        z_g: list[Tensor] = []
        with after_projectors(self.learner, partial(_note, z_g)):
            forward = self.learner.step(batch)
        with after_projectors(self.own, lambda z: self._mixed(z_g.pop(0), z)):
            losses = self.own_losses(Crossed(same))
        own = {f"{OWN}{name}": loss for name, loss in losses.items()}
        return forward._replace(losses={**forward.losses, **own})

    def _mixed(self, z_g: Tensor, z: Tensor) -> Tensor:
        return torch.lerp(z_g, z, self.alpha.to(z.dtype))


def _note(found: list[Tensor], z: Tensor) -> None:
    found.append(z.detach())


class Crossed:
    """A batch whose views have changed places."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def two_views(self) -> Tensor:
        """All second views, then all first ones."""
        first, second = self._batch.two_views().chunk(2)
        return torch.cat([second, first])


@contextmanager
def after_projectors(
    learner: nn.Module, change: Callable[[Tensor], Tensor | None]
) -> Iterator[None]:
    """Pass what a learner's projectors give, its target's too, through a function."""
    found = [m for name, m in learner.named_modules() if _is_projector(name)]
    hooks = [m.register_forward_hook(lambda _m, _x, z: change(z)) for m in found]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _is_projector(name: str) -> bool:
    return name.rpartition(".")[2] == "projector"


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
    """Both models, trained together; an alpha that learns goes on where it was."""
    if mix == "views":
        return Views(learner, own, terms, own_share)
    alpha = float(memory.get(ALPHA, own_share)) if own_share_rate else own_share
    return Weights(learner, own, terms, alpha, own_share_rate)
