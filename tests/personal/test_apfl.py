"""APFL: its updates in loops and by hand, its limits, and FedStyle's mixture of views."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from furlkit.objectives import byol, moco, simclr
from furlkit.objectives.learner import Forward, Stateless
from furlkit.objectives.simclr import nt_xent
from furlkit.personal.apfl import ALPHA, Crossed, Views, Weights, learner


class Number(nn.Module):
    """A net of one number."""

    def __init__(self, value):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(float(value)))


@dataclass(frozen=True)
class Batch:
    """A batch of numbers, or of two views."""

    x: Tensor
    generator: torch.Generator

    def two_views(self):
        return self.x

    def twice(self):
        return self, replace(self, generator=self.generator.clone_state())


def batch_of(x, seed=0):
    return Batch(torch.as_tensor(x), torch.Generator().manual_seed(seed))


def squares(net, batch):
    """F(u) = mean of (u x - 1)^2 / 2, so grad F(u) = mean of (u x - 1) x."""
    loss = ((net.w * batch.x - 1).square() / 2).mean()
    return Forward({"squares": loss}, batch.x, batch.x)


def number(value):
    return Stateless(Number(value), squares)


def descend(model, batch, lr):
    """One step of plain gradient descent on all weights of a learner."""
    forward = model.step(batch)
    model.zero_grad()
    torch.stack(list(forward.losses.values())).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= lr * parameter.grad
    if hasattr(model, "after_step"):
        model.after_step()
    return forward


def test_matches_algorithm_1_in_loops():
    rng, alpha, lr = np.random.default_rng(0), 0.3, 0.05
    w, v = 2.0, -1.0
    pair = Weights(number(w), number(v), {}, alpha, 0.0)
    for _ in range(6):
        x = rng.normal(size=5)
        v_bar = alpha * v + (1 - alpha) * w
        grad_w = grad_bar = 0.0
        for each in x:
            grad_w += (w * each - 1) * each / 5
            grad_bar += (v_bar * each - 1) * each / 5
        losses = descend(pair, batch_of(x.astype(np.float32)), lr).losses
        own = sum((v_bar * each - 1) ** 2 / 2 for each in x) / 5
        assert losses["own.squares"].item() == pytest.approx(own, rel=1e-5)
        w, v = w - lr * grad_w, v - lr * alpha * grad_bar
        assert pair.learner.net.w.item() == pytest.approx(w, rel=1e-5)
        assert pair.own.net.w.item() == pytest.approx(v, rel=1e-5)
    assert pair.memory() == {ALPHA: pytest.approx(0.3)}


def test_alpha_enters_once():
    """At x = 1, w = 2, v = 6, alpha = 1/4 the mixture is 3, so grad F = 2."""
    pair = Weights(number(2), number(6), {}, 0.25, 0.0)
    losses = pair.step(batch_of([1.0])).losses
    sum(losses.values()).backward()
    assert losses["squares"].item() == 0.5 and losses["own.squares"].item() == 2
    assert pair.learner.net.w.grad.item() == 1  # The mixture gives w no gradient.
    assert pair.own.net.w.grad.item() == 0.5  # alpha * 2, and not alpha^2 * 2


@pytest.mark.parametrize("rate, alpha", [(0.05, -0.15), (0.01, 0.17), (0.0, 0.25)])
def test_an_alpha_that_learns_by_hand(rate, alpha):
    """<v - w, grad F(v_bar)> = (6 - 2) * 2 = 8, and alpha stays within [0, 1]."""
    pair = Weights(number(2), number(6), {}, 0.25, rate)
    descend(pair, batch_of([1.0]), lr=0.1)
    assert pair.alpha.item() == pytest.approx(max(alpha, 0))
    # What follows the step has the new alpha.
    v_bar = pair.with_own(lambda: pair.own.net.w.item())
    w, v = pair.learner.net.w.item(), pair.own.net.w.item()
    assert v_bar == pytest.approx(pair.alpha.item() * (v - w) + w)


def test_an_alpha_that_learns_goes_on_from_the_last_round_and_a_fixed_one_does_not():
    options = {"own_share": 0.5, "mix": "weights"}
    make = partial(
        learner, number(0), number(0), {}, {ALPHA: np.array(0.875)}, **options
    )
    assert make(own_share_rate=0.1).alpha.item() == 0.875
    assert make(own_share_rate=0.0).alpha.item() == 0.5


def test_terms_of_the_own_model_see_the_mixture():
    own = number(6)
    terms = {"size": lambda batch, forward: own.net.w.square()}
    pair = Weights(number(2), own, terms, 0.25, 0.0)
    losses = pair.step(batch_of([1.0])).losses
    assert losses["own.size"].item() == 9
    losses["own.size"].backward()
    assert own.net.w.grad.item() == 0.25 * 2 * 3


# --- nets with BatchNorm, a target and a queue ----------------------------------------


class Net(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5))
        self.projector, self.predictor = nn.Linear(5, 3), nn.Linear(3, 3)
        rng = torch.Generator().manual_seed(seed)
        for tensor in self.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=rng))


def views(n=4, seed=0):
    x = torch.randn(2 * n, 6, generator=torch.Generator().manual_seed(seed))
    return batch_of(x)


def simclr_of(net):
    return Stateless(net, partial(simclr.step, temperature=0.5, form="oneway"))


MAKERS = {
    "simclr": simclr_of,
    "byol": partial(byol.learner, ema=0.5),
    "moco": partial(moco.learner, temperature=0.5, ema=0.5, queue=6),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_what_is_not_trained_is_mixed_at_the_start_and_then_follows_the_mixture(
    make, alpha
):
    alone_w, alone_v = make(Net(0)), make(Net(1))
    pair = Weights(make(Net(0)), make(Net(1)), {}, alpha, 0.0)
    w, v = alone_w.state_dict(), alone_v.state_dict()
    trained = {f"net.{name}" for name, _ in alone_v.net.named_parameters()}
    for name, found in pair.own.state_dict().items():
        one = name in trained or name.startswith("queue.")
        if one or not found.is_floating_point():
            continue
        torch.testing.assert_close(found, alpha * v[name] + (1 - alpha) * w[name])
    for seed in range(3):
        descend(pair, views(seed=seed), 0.1)
        descend(alone_w, views(seed=seed), 0.1)
        descend(alone_v, views(seed=seed), 0.1)
    same_state(pair.learner, alone_w)
    if alpha == 1:
        same_state(pair.own, alone_v)
    if alpha == 0:
        own, sent = pair.own.state_dict(), alone_w.state_dict()
        assert all(torch.equal(own[k], sent[k]) for k in own.keys() - trained)


def same_state(one, other):
    a, b = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


# --- FedStyle's form ------------------------------------------------------------------


def project(net, x):
    return net.projector(net.encoder(x))


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_views_are_crossed_and_mixed_as_fedstyle_prints_it(alpha):
    """Row by row: z_hat_1 = (1 - alpha) z_g_1 + alpha z_2, and the other way round."""
    x, sent, own = views().x, Net(0), Net(1)
    z_g, z = project(sent, x), project(own, x)
    first, second = [], []
    for i in range(4):
        first.append((1 - alpha) * z_g[i] + alpha * z[4 + i])
        second.append((1 - alpha) * z_g[4 + i] + alpha * z[i])
    z_1, z_2 = torch.stack(first), torch.stack(second)
    pair = Views(simclr_of(Net(0)), simclr_of(Net(1)), {}, alpha)
    losses = pair.step(views()).losses
    torch.testing.assert_close(losses["simclr"], nt_xent(*z_g.chunk(2), 0.5, "oneway"))
    torch.testing.assert_close(losses["own.simclr"], nt_xent(z_1, z_2, 0.5, "oneway"))
    assert pair.memory() == {}


def test_views_give_each_model_a_gradient_of_its_own_loss():
    pair = Views(simclr_of(Net(0)), simclr_of(Net(1)), {}, 0.5)
    pair.step(views()).losses["own.simclr"].backward()
    assert all(p.grad is None for p in pair.learner.parameters())
    trained = (pair.own.net.encoder, pair.own.net.projector)
    assert all(p.grad.any() for module in trained for p in module.parameters())


def test_views_of_moco_mix_keys_with_keys():
    """The query sees view 2 where the other model's sees view 1; the keys likewise."""
    alpha, x = 0.25, views().x
    sent, own = MAKERS["moco"](Net(0)), MAKERS["moco"](Net(1))
    x_1, x_2 = x.chunk(2)
    q = torch.lerp(project(sent.net, x_1), project(own.net, x_2), alpha)
    k = torch.lerp(sent.target(x_2), own.target(x_1), alpha)
    negatives = torch.eye(3)
    expected = moco.moco_loss(
        *(nn.functional.normalize(z, dim=1) for z in (q, k)), negatives, 0.5
    )
    pair = Views(MAKERS["moco"](Net(0)), MAKERS["moco"](Net(1)), {}, alpha)
    pair.own.queue.add(negatives)
    torch.testing.assert_close(pair.step(views()).losses["own.moco"], expected)


def test_the_projectors_are_left_as_they_were():
    pair = Views(MAKERS["byol"](Net(0)), MAKERS["byol"](Net(1)), {}, 0.5)
    pair.step(views())
    assert not any(module._forward_hooks for module in pair.modules())


def test_a_crossed_batch_has_its_views_exchanged_and_all_else_as_it_was():
    batch = batch_of(torch.arange(4.0)[:, None])
    crossed = Crossed(batch)
    assert crossed.two_views().flatten().tolist() == [2, 3, 0, 1]
    assert crossed.generator is batch.generator
