import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.objectives.fedmatch import (
    agreed_labels,
    divergences,
    l1_penalty,
    l2_penalty,
    labelled_step,
    learner,
    mean_over,
    nearest_clients,
)
from furlkit.randomness import torch_generator

HOW = Augmentation((0.4, 1.0), randaugment=(2, 10))
WEIGHTS = {
    "confidence": 0.6, "agreement_weight": 0.3, "consistency_weight": 0.7,
    "l1": 0.01, "l2": 0.2, "psi_share": 0.25,
}  # fmt: skip


class Tiny(nn.Module):
    """An encoder with BatchNorm, and a classifier of three classes."""

    def __init__(self, seed=0):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6))
        self.classifier = nn.Linear(6, 3)
        rng = torch_generator(seed)
        with torch.no_grad():
            for weight in self.parameters():
                weight.normal_(0, 0.7, generator=rng)


def batch_of(n=10, labels=None):
    pixels = np.random.default_rng(1).integers(0, 256, (n, 8, 8, 1), dtype=np.uint8)
    view = View(HOW, 8, 1, (0.5,), (0.5,))
    images = Images(pixels, labels, np.arange(n), view, torch.device("cpu"))
    return images.batch(torch.arange(n), torch_generator(0))


def rows(count, n=5, classes=4):
    rng = torch_generator(7)
    logits = 2 * torch.randn(count, n, classes, generator=rng, dtype=torch.float64)
    return logits.softmax(dim=2)


def begun(net, **how):
    made = learner(net, **{**WEIGHTS, **how})
    made.begin_epoch(None, 0, torch_generator(0))
    return made


def test_the_class_with_the_most_votes_is_taken():
    """Two helpers outvote the client; where all differ, the client decides."""
    own = torch.eye(4)[[0, 0, 3, 2]]
    helpers = [torch.eye(4)[[1, 1, 0, 2]], torch.eye(4)[[1, 0, 1, 0]]]
    assert agreed_labels(own, helpers).tolist() == [1, 0, 3, 2]
    assert agreed_labels(own, []).tolist() == [0, 0, 3, 2]
    assert agreed_labels(own, helpers[:1]).tolist() == [0, 0, 3, 2]


def test_consistency_matches_loops():
    p, *others = rows(3)
    total = 0.0
    for q in others:
        for mine, theirs in zip(p.tolist(), q.tolist(), strict=True):
            pairs = zip(mine, theirs, strict=True)
            total += sum(b * math.log(b / a) for a, b in pairs)
    found = divergences(p.log(), others)
    assert found.mean().item() == pytest.approx(total / 2 / 5, rel=1e-12)
    assert divergences(p.log(), [p]).abs().max().item() == pytest.approx(0, abs=1e-12)


def test_the_mean_is_over_images_that_count():
    losses = torch.tensor([1.0, 2.0, float("inf"), 6.0])
    counts = torch.tensor([True, False, False, True])
    assert mean_over(counts, losses) == 3.5
    assert mean_over(counts & ~counts, losses) == 0


def test_penalties_by_hand():
    """sigma (1, -2) and psi (0.5, 0): |psi| = 0.5, (sigma - psi)^2 = 0.25 + 4."""
    sigma, theta = [torch.tensor([1.0, -2.0])], [torch.tensor([1.5, -2.0])]
    assert l1_penalty(theta, sigma).item() == pytest.approx(0.5)
    assert l2_penalty(theta, sigma).item() == pytest.approx(4.25)
    assert l1_penalty(sigma, sigma) == 0
    assert l2_penalty([2 * sigma[0]], sigma) == 0


def test_helpers_are_the_nearest_whose_order_is_theirs():
    """Clients 7 and 1 are equally far; the smaller number comes first."""
    far, near, also = np.array([0.0, 1]), np.array([0.5, 0.5]), np.array([0.25, 0.75])
    answers, own = {4: far, 7: also, 1: near}, np.array([0.375, 0.625])
    assert nearest_clients(answers, own, 2) == [1, 7]
    assert nearest_clients(answers, own, 9) == [1, 7, 4]
    assert nearest_clients({}, own, 2) == []


def test_a_net_that_nobody_divided_is_sigma_and_a_share_of_it():
    net = Tiny()
    made = begun(net)
    assert sorted(name for name in made.state_dict() if name.startswith("sigma.")) == [
        "sigma.classifier.bias", "sigma.classifier.weight", "sigma.encoder.1.bias",
        "sigma.encoder.1.weight", "sigma.encoder.2.bias", "sigma.encoder.2.weight",
    ]  # fmt: skip
    for name, weight in Tiny().named_parameters():
        assert torch.equal(weight, dict(net.named_parameters())[name])
        sigma = made.state_dict()[f"sigma.{name}"]
        assert torch.allclose(weight - sigma, 0.25 * sigma, atol=1e-6)
    trained = [name for name, p in made.named_parameters() if p.requires_grad]
    assert all(name.startswith("net.") for name in trained)


def test_a_step_is_its_four_losses():
    """Written out: labels from images as they are, losses from strong views."""
    helpers = [Tiny(1), Tiny(2)]
    made, other, batch = begun(Tiny(), helpers=helpers), Tiny(), batch_of()
    found = made.step(batch_of()).losses
    u = batch.plain()
    logits = other.classifier(other.encoder(u))
    p = logits.softmax(dim=1)
    answers = [h.classifier(h.encoder(u)).softmax(dim=1) for h in helpers]
    sure = [i for i in range(10) if p[i].max() >= 0.6]
    assert 0 < len(sure) < 10
    y = agreed_labels(p, answers)
    strong = other.classifier(other.encoder(batch.one_view())).log_softmax(dim=1)
    agreement = -sum(strong[i, y[i]].item() for i in sure) / len(sure)
    divergence = sum(
        (q[i] * (q[i] / p[i]).log()).sum().item() for q in answers for i in sure
    )
    assert found["agreement"].item() == pytest.approx(0.3 * agreement, rel=1e-5)
    expected = 0.7 * divergence / (2 * len(sure))
    assert found["consistency"].item() == pytest.approx(expected, rel=1e-5)
    theta = torch.cat([w.detach().flatten() for w in other.parameters()])
    sigma = theta / 1.25
    psi = theta - sigma
    assert found["l1"].item() == pytest.approx(0.01 * psi.abs().sum().item(), rel=1e-5)
    square = (sigma - psi).square().sum().item()
    assert found["l2"].item() == pytest.approx(0.2 * square, rel=1e-5)
    assert made.end_epoch({}) == {"confident": pytest.approx(len(sure) / 10)}


def test_helpers_are_neither_trained_nor_kept_nor_changed():
    helper = Tiny(1)
    before = {name: tensor.clone() for name, tensor in helper.state_dict().items()}
    made = begun(Tiny(), helpers=[helper])
    losses = made.step(batch_of()).losses
    torch.stack(list(losses.values())).sum().backward()
    assert not any(p.grad is not None for p in helper.parameters())
    for name, tensor in helper.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert made.state_dict().keys() == begun(Tiny()).state_dict().keys()


def test_where_nobody_is_sure_only_the_penalties_are_left():
    made = begun(Tiny(), confidence=1.0, helpers=[Tiny(1)])
    losses = made.step(batch_of()).losses
    assert losses["agreement"] == 0 and losses["consistency"] == 0
    torch.stack(list(losses.values())).sum().backward()
    for name, weight in made.net.named_parameters():
        sigma = made.state_dict()[f"sigma.{name}"]
        psi = (weight - sigma).detach()
        expected = 0.01 * psi.sign() - 2 * 0.2 * (sigma - psi)
        assert torch.allclose(weight.grad, expected, atol=1e-5)


def test_the_server_weighs_the_cross_entropy_of_labels():
    labels = np.arange(10) % 3
    net, other, batch = Tiny(), Tiny(), batch_of(labels=labels)
    found = labelled_step(net, batch_of(labels=labels), label_weight=10)
    logits = other.classifier(other.encoder(batch.one_view()))
    expected = 10 * F.cross_entropy(logits, torch.from_numpy(labels))
    assert found.losses["supervised"].item() == pytest.approx(expected.item(), rel=1e-6)
