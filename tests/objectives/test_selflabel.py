import math

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.models.description import ClassHead
from furlkit.objectives.selflabel import (
    inverse_frequency,
    learner,
    pseudo_labels,
    self_labelling_loss,
)
from furlkit.randomness import torch_generator

STILL = Augmentation((1, 1), (1, 1), 0, jitter_probability=0, grey=0)


def softmax(row):
    exponents = [math.exp(value) for value in row]
    return [value / sum(exponents) for value in exponents]


def by_loops(weak, strong, sigma, class_weights, mean_over):
    """FedUSC Eq. 5 and SCAN's variants of it, written out."""
    sure = {}
    for i, row in enumerate(weak):
        q = softmax(row)
        if max(q) >= sigma:
            sure[i] = q.index(max(q))
    held = {y: list(sure.values()).count(y) for y in sure.values()}
    total = 0.0
    for i, y in sure.items():
        weight = len(sure) / (len(held) * held[y]) if class_weights else 1
        total -= weight * math.log(softmax(strong[i])[y])
    return total / (len(sure) if mean_over == "confident" else len(weak))


@pytest.mark.parametrize("class_weights", [True, False])
@pytest.mark.parametrize("mean_over", ["confident", "all"])
@pytest.mark.parametrize("sigma", [0, 0.4, 0.6, 0.8])
def test_it_matches_loops(sigma, mean_over, class_weights):
    rng = torch_generator(0)
    weak, strong = 2 * torch.randn(2, 40, 5, generator=rng, dtype=torch.float64)
    how = {"class_weights": class_weights, "mean_over": mean_over}
    y, counts = pseudo_labels(weak.softmax(dim=1), sigma)
    assert 0 < counts.sum() < 40 or sigma == 0
    found = self_labelling_loss(strong, y, counts, **how).item()
    expected = by_loops(weak.tolist(), strong.tolist(), sigma, class_weights, mean_over)
    assert found == pytest.approx(expected, rel=1e-6)


def test_an_image_that_is_exactly_as_sure_as_asked_for_counts():
    q = torch.tensor([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    y, counts = pseudo_labels(q, 0.75)
    assert y[:2].tolist() == [0, 1] and counts.tolist() == [True, True, False]
    assert pseudo_labels(q, 0)[1].all()


def test_weights_are_inverse_frequencies_of_mean_1():
    """Three of class 4 and one of class 2: 4 / (2 * 3) and 4 / (2 * 1)."""
    y = torch.tensor([4, 4, 2, 4, 2])
    counts = torch.tensor([True, True, True, True, False])
    weights = inverse_frequency(y, 5, counts)[:4]
    assert weights.tolist() == pytest.approx([2 / 3, 2 / 3, 2, 2 / 3])
    every = torch.ones(3, dtype=torch.bool)
    assert inverse_frequency(torch.tensor([0, 3, 1]), 4, every).tolist() == [1, 1, 1]


def test_a_known_value():
    """Two images of four are sure, with a loss of ln 2 each."""
    logits, y = torch.zeros(4, 2), torch.tensor([0, 1, 1, 0])
    counts = torch.tensor([True, False, True, False])
    for mean_over, expected in (("confident", math.log(2)), ("all", math.log(2) / 2)):
        for class_weights in (True, False):
            how = {"class_weights": class_weights, "mean_over": mean_over}
            found = self_labelling_loss(logits, y, counts, **how)
            assert found.item() == pytest.approx(expected)


class Tiny(nn.Module):
    """A net with BatchNorm and one head, `clusters`."""

    def __init__(self, seed=0, scale=1.0):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6))
        self.clusters = nn.Linear(6, 3)
        rng = torch_generator(seed)
        with torch.no_grad():
            for tensor in (self.encoder[1].weight, self.clusters.weight):
                tensor.normal_(0, scale, generator=rng)
            self.encoder[1].bias.zero_()
            self.clusters.bias.zero_()


def batch_of(how, n=12, seed=0):
    pixels = np.random.default_rng(1).integers(0, 256, (n, 8, 8, 1), dtype=np.uint8)
    view = View(how, 8, 1, (0.5,), (0.5,))
    images = Images(pixels, None, np.arange(n), view, torch.device("cpu"))
    return images.batch(torch.arange(n), torch_generator(seed))


SCAN = {"class_weights": True, "mean_over": "confident"}


def step(net, batch, **how):
    """One step with its gradients, and what the learner says after it."""
    made = learner(net, head=ClassHead("clusters", 0, 3), **how)
    made.begin_epoch(None, 0, torch_generator(0))
    forward = made.step(batch)
    forward.losses["self-labelling"].backward()
    made.after_step()
    return forward, made.end_epoch({})


def state(net):
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


@pytest.mark.parametrize("weak", [None, STILL])
def test_where_nobody_is_sure_nothing_changes(weak):
    net, batch = Tiny(scale=0.01), batch_of(Augmentation())
    before = state(net)
    forward, told = step(net, batch, weak=weak, confidence=0.99, **SCAN)
    loss = forward.losses["self-labelling"]
    assert loss == 0 and not forward.counts
    assert not any(p.grad.any() for p in net.parameters())
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert told["confident"] == 0 and told["skipped"] == 1
    assert told["cluster_entropy"] == pytest.approx(math.log(3), abs=0.01)


def test_labels_are_from_the_weak_view_and_losses_from_the_strong_one():
    net, how = Tiny(), Augmentation(crop_scale=(0.3, 1), randaugment=(2, 9), cutout=3)
    forward, told = step(net, batch_of(how), weak=how.weak, confidence=0.7, **SCAN)
    other, again = Tiny(), batch_of(how)
    first = other.clusters(other.encoder(again.one_view(how.weak)))
    strong = again.one_view()
    second = other.clusters(other.encoder(strong))
    expected = by_loops(first.tolist(), second.tolist(), 0.7, True, "confident")
    assert torch.equal(forward.views, strong)
    assert forward.losses["self-labelling"].item() == pytest.approx(expected, rel=1e-5)
    assert net.encoder[1].weight.grad.any() and net.clusters.weight.grad.any()
    q = first.softmax(dim=1)
    held = [int((q.argmax(dim=1) == k).sum()) for k in range(3)]
    p = [sum(row[k].item() for row in q) / 12 for k in range(3)]
    assert told == {
        "confident": pytest.approx(int((q.amax(dim=1) >= 0.7).sum()) / 12),
        "occupancy": held,
        "largest_cluster": max(held) / 12,
        "used_clusters": sum(n > 0 for n in held),
        "cluster_entropy": pytest.approx(-sum(x * math.log(x) for x in p), rel=1e-5),
        "skipped": 0,
        "first_used": sum(n > 0 for n in held),
    }
    assert 0 < told["confident"] < 1


def test_the_slide_s_form_takes_both_from_one_view():
    net, how = Tiny(), Augmentation(crop_scale=(0.3, 1))
    literal = {"class_weights": False, "mean_over": "all"}
    forward, _ = step(net, batch_of(how), weak=None, confidence=0.8, **literal)
    other = Tiny()
    logits = other.clusters(other.encoder(batch_of(how).one_view())).tolist()
    expected = by_loops(logits, logits, 0.8, False, "all")
    assert forward.losses["self-labelling"].item() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(forward.views, batch_of(how).one_view())


def test_the_label_has_no_gradient():
    """The same view twice: what is trained is the second pass alone."""
    net, other = Tiny(), Tiny()
    forward, _ = step(net, batch_of(STILL), weak=STILL, confidence=0, **SCAN)
    assert forward.counts
    scored = other.clusters(other.encoder(batch_of(STILL).one_view()))
    y = scored.detach().argmax(dim=1)
    losses = nn.functional.cross_entropy(scored, y, reduction="none")
    every = torch.ones_like(y, dtype=torch.bool)
    (losses * inverse_frequency(y, scored.shape[1], every)).mean().backward()
    assert torch.allclose(net.clusters.weight.grad, other.clusters.weight.grad)


class Several(nn.Linear):
    """Heads of three classes each, as (B, heads, 3)."""

    def forward(self, h):
        return super().forward(h).unflatten(1, (2, 3))


def test_of_several_heads_one_labels_and_is_trained():
    net, single = Tiny(), Tiny(seed=3)
    net.clusters = Several(6, 6)
    with torch.no_grad():
        net.clusters.bias.zero_()
        net.clusters.weight[3:] = single.clusters.weight
    single.encoder = Tiny().encoder
    made = [
        learner(net, head=ClassHead("clusters", 1, 3), weak=None, confidence=0, **SCAN),
        learner(
            single, head=ClassHead("clusters", 0, 3), weak=None, confidence=0, **SCAN
        ),
    ]
    for each in made:
        each.begin_epoch(None, 0, torch_generator(0))
        each.step(batch_of(STILL)).losses["self-labelling"].backward()
    grad = net.clusters.weight.grad
    assert not grad[:3].any() and torch.allclose(grad[3:], single.clusters.weight.grad)
    assert made[0].end_epoch({}) == made[1].end_epoch({})
