import copy

import pytest
import torch
from torch import nn

from furlkit.training.optimisers import SGD, Adam, LossScale


def weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(4, 3), (4,), (2, 4, 3, 3)]
    return [nn.Parameter(torch.randn(s, generator=generator)) for s in shapes]


def pull(parameters, step):
    """Give every parameter a gradient that depends on it and on the step."""
    loss = sum(((p - step / 7) ** 2 * (i + 1)).sum() for i, p in enumerate(parameters))
    for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        p.grad = g


def assert_same_path(optimiser, ours, reference, theirs, lr):
    """Take 20 steps with a falling rate and compare the weights."""
    for step in range(20):
        reference.param_groups[0]["lr"] = lr / (step + 1)
        pull(ours, step)
        pull(theirs, step)
        optimiser.step(lr / (step + 1))
        reference.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("decay", [0.0, 1e-2])
def test_adam_is_torchs_adam(decay):
    ours, theirs = weights(), weights()
    optimiser = Adam(ours, decay)
    reference = torch.optim.Adam(theirs, lr=0.1, weight_decay=decay)
    assert_same_path(optimiser, ours, reference, theirs, 0.1)


@pytest.mark.parametrize("decay", [0.0, 1e-2])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_torchs_sgd(decay, momentum):
    ours, theirs = weights(), weights()
    optimiser = SGD(ours, decay, momentum)
    reference = torch.optim.SGD(theirs, lr=1, momentum=momentum, weight_decay=decay)
    assert_same_path(optimiser, ours, reference, theirs, 0.01)


@pytest.mark.parametrize(
    "make, torchs",
    [
        (lambda w, f: SGD(w, 0.1, 0.9, f), torch.optim.SGD),
        (lambda w, f: Adam(w, 0.1, f), torch.optim.Adam),
    ],
)
def test_factors_are_the_rates_of_torchs_groups(make, torchs):
    ours, theirs, factors = weights(), weights(), (1, 20, 1)
    momentum = {"momentum": 0.9} if torchs is torch.optim.SGD else {}
    pairs = zip(theirs, factors, strict=True)
    groups = [{"params": [p], "lr": 0.01 * f} for p, f in pairs]
    optimiser, reference = make(ours, factors), torchs(groups, **momentum)
    for group in reference.param_groups:
        group["weight_decay"] = 0.1
    for step in range(10):
        pull(ours, step)
        pull(theirs, step)
        optimiser.step(0.01)
        reference.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [lambda w: Adam(w, 0.1), lambda w: SGD(w, 0.1, 0.9)])
def test_weights_that_took_no_part_do_not_move(make):
    ours = weights()
    before = [p.detach().clone() for p in ours]
    optimiser = make(ours)
    for step in range(3):
        optimiser.clear()
        pull(ours[:1], step)
        optimiser.step(0.1)
    assert not torch.equal(ours[0], before[0])
    assert torch.equal(ours[1], before[1]) and torch.equal(ours[2], before[2])
    assert all(key.endswith(".0") for key in optimiser.state)


def test_adams_first_step_has_the_length_of_the_learning_rate():
    w = nn.Parameter(torch.tensor([1.0, -2.0]))
    w.grad = torch.tensor([1e-3, -50.0])
    Adam([w], 0.0).step(0.1)
    torch.testing.assert_close(w.detach(), torch.tensor([0.9, -1.9]))


@pytest.mark.parametrize("make", [lambda w: Adam(w, 0.1), lambda w: SGD(w, 0.1, 0.9)])
def test_a_restored_state_continues_with_the_same_bits(make):
    through, stopped = weights(), weights()
    optimiser, first = make(through), make(stopped)
    for step in range(5):
        pull(through, step)
        pull(stopped, step)
        optimiser.step(0.1)
        first.step(0.1)
    second = make(stopped)
    second.load(copy.deepcopy(first.state), first.steps)
    for step in range(5, 10):
        pull(through, step)
        pull(stopped, step)
        optimiser.step(0.1)
        second.step(0.1)
    assert all(map(torch.equal, through, stopped))
    assert second.steps == optimiser.steps == 10


def test_a_restored_state_keeps_the_layout_of_the_weights():
    w = nn.Parameter(torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last))
    optimiser = SGD([w], 0.0, 0.9)
    optimiser.load({"m.0": torch.arange(96.0).view(2, 3, 4, 4)}, 1)
    m = optimiser.state["m.0"]
    assert m.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(m.contiguous(), torch.arange(96.0).view(2, 3, 4, 4))


def test_loss_scale_is_undone_before_the_step():
    scale = LossScale(enabled=True)
    gradients = [torch.full((3,), 2.0**17), torch.full((2,), 2.0**15)]
    assert scale.usable(gradients)
    assert gradients[0].tolist() == [2.0] * 3 and gradients[1].tolist() == [0.5] * 2


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_loss_scale_halves_and_leaves_the_step_out_on_overflow(bad):
    scale = LossScale(enabled=True)
    assert not scale.usable([torch.ones(3), torch.tensor([1.0, bad])])
    assert scale.scale == 2.0**15 and scale.good_steps == 0


def test_loss_scale_grows_after_enough_good_steps_in_a_row(monkeypatch):
    monkeypatch.setattr(LossScale, "GROW_AFTER", 3)
    scale = LossScale(enabled=True)
    good, bad = (lambda: [torch.ones(1)]), (lambda: [torch.tensor([float("inf")])])
    seen = []
    for make in (good, good, bad, good, good, good, good):
        scale.usable(make())
        seen.append(scale.scale / 2.0**16)
    assert seen == [1, 1, 0.5, 0.5, 0.5, 1, 1]


def test_loss_scale_stays_if_a_step_does_not_count():
    scale, no = LossScale(enabled=True), torch.tensor(False)
    assert not scale.usable([torch.ones(1)], no)
    assert not scale.usable([torch.tensor([float("inf")])], no)
    assert scale.scale == 2.0**16 and scale.good_steps == 0


def test_loss_scale_vanishes_after_overflows_alone():
    scale = LossScale(enabled=True)
    for _ in range(40):
        scale.usable([torch.tensor([float("nan")])])
        assert not scale.vanished()
    scale.usable([torch.tensor([float("nan")])])
    assert scale.vanished()


@pytest.mark.parametrize("make", [
    lambda w: Adam(w, 0.1), lambda w: SGD(w, 0.1, 0.9), lambda w: Adam(w, 0.1, (1, 9, 1)),
])  # fmt: skip
def test_a_step_that_is_not_usable_moves_nothing(make):
    """Usable steps between others move the weights as if the others had not been."""
    plain, masked = weights(), weights()
    one, other = make(plain), make(masked)
    for step in range(12):
        usable = step % 3 != 0
        if usable:
            pull(plain, step)
            one.step(0.1)
        pull(masked, step)
        if not usable:
            masked[0].grad.fill_(float("inf"))
        other.step(0.1, torch.tensor(usable))
        assert all(map(torch.equal, plain, masked)), step
    assert int(other.steps) == one.steps == 8
    assert all(torch.equal(one.state[key], slot) for key, slot in other.state.items())


def test_loss_scale_that_is_off_looks_at_nothing():
    scale = LossScale(enabled=False)
    gradients = [torch.tensor([float("inf"), 3.0])]
    assert scale.usable(gradients) is None and scale.scale == 1.0
    assert gradients[0].tolist() == [float("inf"), 3.0]
