import math

import pytest
import torch

from furlkit.objectives.supervised import supervised_loss


def test_matches_loops():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 7, generator=generator, dtype=torch.float64)
    labels = [0, 6, 3, 3, 1, 5]
    total = 0.0
    for row, label in zip(logits.tolist(), labels, strict=True):
        total -= row[label] - math.log(sum(math.exp(v) for v in row))
    loss = supervised_loss(logits, torch.tensor(labels))
    assert loss.item() == pytest.approx(total / 6)


def test_value_by_hand():
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    loss = supervised_loss(logits, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)


def test_a_constant_added_to_a_row_changes_nothing():
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(6, 3, generator=generator), torch.arange(6) % 3
    moved = logits + torch.arange(6.0)[:, None]
    torch.testing.assert_close(supervised_loss(moved, y), supervised_loss(logits, y))


def test_gradient_of_a_row_is_its_error_over_the_batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 3, generator=generator, requires_grad=True)
    y = torch.arange(6) % 3
    supervised_loss(logits, y).backward()
    error = logits.detach().softmax(dim=1) - torch.eye(3)[y]
    torch.testing.assert_close(logits.grad, error / 6)
