import math

import pytest
import torch

from furlkit.objectives.rotation import rotation_loss


def test_matches_loops():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    turns = [0, 3, 1, 2, 3]
    total = 0.0
    for row, turn in zip(logits.tolist(), turns, strict=True):
        total -= row[turn] - math.log(sum(math.exp(v) for v in row))
    loss = rotation_loss(logits, torch.tensor(turns))
    assert loss.item() == pytest.approx(total / 5)


def test_undecided_logits_cost_log_four():
    turns = torch.tensor([0, 1, 2, 3])
    assert rotation_loss(torch.zeros(4, 4), turns).item() == pytest.approx(math.log(4))


def test_certainty_costs_nothing_when_right_and_its_margin_when_wrong():
    turns = torch.tensor([0, 1, 2, 3])
    logits = 50 * torch.eye(4)
    assert rotation_loss(logits, turns).item() == pytest.approx(0, abs=1e-6)
    assert rotation_loss(logits, turns.flip(0)).item() == pytest.approx(50)


def test_turning_logits_and_labels_together_changes_nothing():
    generator = torch.Generator().manual_seed(0)
    logits, turns = torch.randn(6, 4, generator=generator), torch.arange(6) % 4
    turned = rotation_loss(logits.roll(1, dims=1), (turns + 1) % 4)
    torch.testing.assert_close(turned, rotation_loss(logits, turns))
