"""Ditto's term: its value, its gradient, and what it pulls towards."""

import pytest
import torch
from torch import nn

from furlkit.personal.ditto import term


def net_of(weight, bias):
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([weight]))
        net.bias.fill_(bias)
    return net


def weights_of(net):
    return dict(net.named_parameters())


@pytest.fixture
def w():
    """The other model, as it was received and as it was trained."""
    received, trained = net_of([1.0, 0.0], 0.0), net_of([3.0, 2.0], 4.0)
    return {"received": weights_of(received), "trained": weights_of(trained)}


@pytest.mark.parametrize("pull_to, squares", [("received", 4 + 4 + 1), ("trained", 9)])
def test_value_by_hand_has_the_half(w, pull_to, squares):
    pulled = term(net_of([3.0, 2.0], 1.0), w, pull=0.5, pull_to=pull_to)
    assert pulled(None, None).item() == pytest.approx(0.25 * squares)


def test_the_gradient_is_mu_times_the_distance_and_leaves_the_other_model_alone(w):
    net = net_of([3.0, 2.0], 1.0)
    term(net, w, pull=0.5, pull_to="trained")(None, None).backward()
    assert net.weight.grad.tolist() == [[0.0, 0.0]]
    assert net.bias.grad.tolist() == [-1.5]
    assert all(p.grad is None for p in w["trained"].values())


def test_it_follows_the_own_model_and_is_0_at_the_other(w):
    net = net_of([0.0, 0.0], 0.0)
    pulled = term(net, w, pull=2.0, pull_to="received")
    assert pulled(None, None).item() == 1
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0]]))
    assert pulled(None, None).item() == 0


def test_without_a_pull_there_is_no_term(w):
    assert term(net_of([3.0, 2.0], 1.0), w, pull=0.0, pull_to="received") is None
