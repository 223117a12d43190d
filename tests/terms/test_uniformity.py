"""FedU2's regulariser: loops, properties, known values."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from furlkit.terms.uniformity import transport_loss, transport_plan, uniformity

HOW = {"uniformity_marginals": 1.0, "uniformity_epsilon": 0.1}


def rows(n, d, seed=0):
    drawn = torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()
    return F.normalize(drawn, dim=1)


def costs(n=5, m=4):
    return torch.cdist(rows(n, 3), rows(m, 3, 1)).square()


def divergence(p, q):
    return float((p * (p / q).log() - p + q).sum())


def objective(pi, C, rho, epsilon):
    """The expression that the plan minimises."""
    N, M = C.shape
    uniform = torch.full_like(C, 1 / (N * M))
    value = float((pi * C).sum()) + epsilon * divergence(pi, uniform)
    value += rho * divergence(pi.sum(1), uniform.sum(1))
    return value + rho * divergence(pi.sum(0), uniform.sum(0))


def test_the_plan_matches_loops():
    C, rho, epsilon, iterations = costs(), 0.7, 0.3, 6
    N, M = C.shape
    kappa = rho / (rho + epsilon)
    u, v = [1.0] * N, [1.0] * M
    K = [[math.exp(-c / epsilon) for c in row] for row in C.tolist()]
    for _ in range(iterations):
        u = [sum(K[i][j] * v[j] / M for j in range(M)) ** -kappa for i in range(N)]
        v = [sum(K[i][j] * u[i] / N for i in range(N)) ** -kappa for j in range(M)]
    expected = [[u[i] * K[i][j] * v[j] / (N * M) for j in range(M)] for i in range(N)]
    found = transport_plan(C, rho, epsilon, iterations)
    torch.testing.assert_close(found, torch.tensor(expected).double())


def test_no_other_plan_has_a_smaller_objective():
    C, rho, epsilon = costs(), 0.5, 0.2
    pi = transport_plan(C, rho, epsilon, 200)
    best = objective(pi, C, rho, epsilon)
    rng = torch.Generator().manual_seed(2)
    for size in (1e-3, 1e-2, 0.1):
        other = pi * (1 + size * torch.randn(pi.shape, generator=rng).double()).clamp(
            0.1
        )
        assert objective(other, C, rho, epsilon) > best


def test_the_gradient_is_the_gradient_of_the_whole_minimum():
    """Differences of the minimal objective agree with <pi, dC>."""
    y, rho, epsilon = rows(4, 3, 1), 0.5, 0.2
    u = rows(4, 3).requires_grad_()
    transport_loss(u, y, rho, epsilon, 300).backward()
    direction = rows(4, 3, 5)

    def minimum(t):
        C = 2 - 2 * (u.detach() + t * direction) @ y.T
        return objective(transport_plan(C, rho, epsilon, 300), C, rho, epsilon)

    slope = (minimum(1e-4) - minimum(-1e-4)) / 2e-4
    assert slope == pytest.approx(float((u.grad * direction).sum()), rel=1e-4)


def test_a_single_pair_has_a_known_plan():
    """log pi = -c / (epsilon + 2 rho)."""
    c, rho, epsilon = 1.5, 0.4, 0.2
    pi = transport_plan(torch.tensor([[c]]).double(), rho, epsilon, 200)
    assert float(pi) == pytest.approx(math.exp(-c / (epsilon + 2 * rho)))


def test_strict_marginals_make_a_balanced_plan():
    pi = transport_plan(costs(), 1e6, 0.5, 500)
    torch.testing.assert_close(pi.sum(1), torch.full((5,), 0.2).double())
    torch.testing.assert_close(pi.sum(0), torch.full((4,), 0.25).double())


def test_steps_spread_collapsed_rows():
    u, rng = rows(1, 3).repeat(32, 1) + 0.1 * rows(32, 3, 1), torch.Generator()
    before = float(F.normalize(u, dim=1).mean(0).norm())
    for step in range(60):
        y = F.normalize(
            torch.randn(32, 3, generator=rng.manual_seed(step)).double(), dim=1
        )
        u = F.normalize(u, dim=1).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(transport_loss(u, y, 1.0, 0.1, 30), u)
        u = u.detach() - 4 * gradient
    assert before > 0.9 and float(F.normalize(u, dim=1).mean(0).norm()) < 0.5


def test_without_a_weight_there_is_no_term():
    how = {**HOW, "uniformity_iterations": 5}
    assert uniformity(nn.Identity(), {}, uniformity=0.0, **how) is None
