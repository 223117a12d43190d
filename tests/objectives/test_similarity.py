import math

import pytest
import torch
import torch.nn.functional as F

from furlkit.objectives.similarity import distillation_loss, follow, target

B, MANY, D = 4, 9, 5


def unit(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return F.normalize(rows, dim=1)


def positive(seed=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(B, MANY, generator=generator, dtype=torch.float64) + 0.01


def in_loops(q, anchors, M, tau):
    """Eq. 7-9 as they are written."""
    total = 0.0
    for i in range(len(q)):
        dots = [sum(a * b for a, b in zip(q[i], x, strict=True)) for x in anchors]
        below = sum(math.exp(dot / tau) for dot in dots)
        for j, dot in enumerate(dots):
            q_ij = math.exp(dot / tau) / below
            p_ij = float(M[i, j]) / sum(float(m) for m in M[i])
            total += p_ij * math.log(p_ij / q_ij)
    return total / len(q)


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_equations_7_to_9_in_loops(tau):
    q, anchors, M = unit(B, D), unit(MANY, D, seed=1), positive()
    found = distillation_loss(q, anchors, M, tau)
    assert float(found) == pytest.approx(in_loops(q, anchors, M, tau), rel=1e-9)


def test_two_anchors_by_hand():
    """The student finds both alike, the ensemble only one: ln 2."""
    q, anchors = torch.tensor([[1.0, 0]]), torch.tensor([[0, 1.0], [0, -1.0]])
    found = distillation_loss(q, anchors, torch.tensor([[3.0, 0.0]]), 0.1)
    assert float(found) == pytest.approx(math.log(2))
    M = torch.tensor([[3.0, 1.0]])
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert float(distillation_loss(q, anchors, M, 0.1)) == pytest.approx(expected)


def test_one_client_and_a_student_that_sees_the_same_have_no_divergence():
    rows, tau = unit(MANY, D), 0.1
    M = torch.exp(rows[:B] @ rows.T / tau)
    q = rows[:B].clone().requires_grad_()
    loss = distillation_loss(q, rows, M, tau)
    loss.backward()
    assert abs(float(loss.detach())) < 1e-12
    assert q.grad.abs().max() < 1e-12
    assert float(distillation_loss(rows[:B], rows, M, 2 * tau)) > 0.01


def test_it_is_never_below_0_and_only_there_for_equal_distributions():
    for seed in range(5):
        q, anchors = unit(B, D, seed=seed), unit(MANY, D, seed=9)
        assert float(distillation_loss(q, anchors, positive(seed), 0.1)) > 0


def test_a_row_shift_or_factor_changes_nothing():
    q, anchors, M = unit(B, D), unit(MANY, D, seed=1), positive()
    before = distillation_loss(q, anchors, M, 0.1)
    factors = torch.tensor([[1e-6], [1.0], [30.0], [1e6]], dtype=torch.float64)
    assert float(distillation_loss(q, anchors, factors * M, 0.1)) == pytest.approx(
        float(before), rel=1e-12
    )
    cosines = q @ anchors.T
    shifted = cosines - cosines.max(dim=1, keepdim=True).values
    assert torch.allclose(target((shifted / 0.1).exp()), target((cosines / 0.1).exp()))


def test_its_gradient_is_that_of_cross_entropy():
    """KL is soft cross-entropy less the entropy of the target, which is constant."""
    anchors, M = unit(MANY, D, seed=1), positive()
    gradients = []
    for loss in (
        lambda q: distillation_loss(q, anchors, M, 0.1),
        lambda q: F.cross_entropy(q @ anchors.T / 0.1, M / M.sum(1, keepdim=True)),
    ):
        q = unit(B, D).requires_grad_()
        loss(q).backward()
        gradients.append(q.grad)
    assert torch.allclose(*gradients)


def test_anchors_in_another_order_and_what_counts_nothing():
    q, anchors, M = unit(B, D), unit(MANY, D, seed=1), positive()
    M[:, :3] = 0
    found = distillation_loss(q, anchors, M, 0.1)
    assert math.isfinite(found)
    order = torch.randperm(MANY, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(distillation_loss(q, anchors[order], M[:, order], 0.1), found)


def test_targets_are_distributions():
    p = target(positive())
    assert torch.allclose(p.sum(dim=1), torch.ones(B, dtype=p.dtype))


@pytest.mark.parametrize("zeta", [0.0, 0.25, 0.999, 1.0])
def test_equation_10_in_loops(zeta):
    mu, theta = (
        [unit(3, 2), unit(4, 1, seed=1)],
        [unit(3, 2, seed=2), unit(4, 1, seed=3)],
    )
    theta = [t.requires_grad_() for t in theta]
    before = [m.clone() for m in mu]
    follow(mu, theta, zeta)
    for m, old, t in zip(mu, before, theta, strict=True):
        for index in range(m.numel()):
            expected = zeta * float(old.view(-1)[index]) + (1 - zeta) * float(
                t.detach().view(-1)[index]
            )
            assert float(m.view(-1)[index]) == pytest.approx(expected, abs=1e-15)
        assert not m.requires_grad and t.grad is None


def test_two_lists_of_other_lengths():
    with pytest.raises(ValueError, match="shorter|longer"):
        follow([unit(3, 2)], [], 0.9)
