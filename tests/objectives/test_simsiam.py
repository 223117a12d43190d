"""SimSiam: the equation in loops, its properties, a value worked out by hand, lightly."""

import math

import pytest
import torch

from furlkit.objectives.simsiam import negative_cosine, simsiam_loss
from tests.objectives.tiny import rows


def transcribed(p_1, p_2, z_1, z_2):
    """Eq. 1 and 4, number by number."""

    def D(p, z):
        total = 0.0
        for n in range(len(p)):
            dot = sum(float(a) * float(b) for a, b in zip(p[n], z[n], strict=True))
            lengths = [math.sqrt(sum(float(a) ** 2 for a in v)) for v in (p[n], z[n])]
            total -= dot / (lengths[0] * lengths[1])
        return total / len(p)

    return D(p_1, z_2) / 2 + D(p_2, z_1) / 2


def test_loss_matches_loops():
    given = [rows(5, 3, seed=k) for k in range(4)]
    assert float(simsiam_loss(*given)) == pytest.approx(transcribed(*given), abs=1e-12)


def test_value_by_hand():
    p_1, z_2 = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    p_2, z_1 = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    # D(p_1, z_2) = -24/25, D(p_2, z_1) = 0.
    assert float(simsiam_loss(p_1, p_2, z_1, z_2)) == pytest.approx(-0.48)


def test_bounds_scale_and_symmetry():
    p_1, p_2, z_1, z_2 = (rows(6, 4, seed=k) for k in range(4))
    assert float(negative_cosine(p_1, 3 * p_1)) == pytest.approx(-1)
    assert float(negative_cosine(p_1, -p_1)) == pytest.approx(1)
    loss = simsiam_loss(p_1, p_2, z_1, z_2)
    assert torch.equal(loss, simsiam_loss(p_2, p_1, z_2, z_1))
    assert float(simsiam_loss(2 * p_1, p_2, z_1, 5 * z_2)) == pytest.approx(float(loss))


def test_targets_take_no_gradient():
    p, z = rows(4, 3).requires_grad_(), rows(4, 3, seed=1).requires_grad_()
    negative_cosine(p, z).backward()
    assert z.grad is None
    assert p.grad.abs().sum() > 0


def test_agrees_with_lightly():
    loss = pytest.importorskip("lightly.loss").NegativeCosineSimilarity()
    p_1, p_2, z_1, z_2 = (rows(7, 5, seed=k).float() for k in range(4))
    theirs = 0.5 * (loss(p_1, z_2.detach()) + loss(p_2, z_1.detach()))
    torch.testing.assert_close(simsiam_loss(p_1, p_2, z_1, z_2), theirs)
