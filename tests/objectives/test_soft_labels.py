import math

import pytest
import torch
import torch.nn.functional as F

from furlkit.objectives.soft_labels import soft_label_loss
from furlkit.randomness import torch_generator


def rows(n=6, classes=3, seed=0):
    return torch.randn(n, classes, generator=torch_generator(seed), dtype=torch.float64)


def test_it_matches_loops():
    logits, p = rows(), rows(seed=1).softmax(dim=1)
    total = 0.0
    for own, soft in zip(logits.tolist(), p.tolist(), strict=True):
        below = math.log(sum(math.exp(value) for value in own))
        total -= sum(t * (value - below) for t, value in zip(soft, own, strict=True))
    assert soft_label_loss(logits, p).item() == pytest.approx(total / 6, rel=1e-12)


def test_hard_labels_give_the_cross_entropy():
    logits, y = rows(), torch.tensor([0, 2, 1, 1, 0, 2])
    found = soft_label_loss(logits, F.one_hot(y, 3).double())
    assert found.item() == pytest.approx(F.cross_entropy(logits, y).item())


def test_it_is_smallest_where_the_model_says_the_same():
    """There it is the entropy of p; even halves have ln 2."""
    logits = torch.zeros(1, 2, requires_grad=True)
    loss = soft_label_loss(logits, torch.tensor([[0.5, 0.5]]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2)) and not logits.grad.any()
