import math

import pytest
import torch
import torch.nn.functional as F

from furlkit.objectives.learner import Forward
from furlkit.terms.neighbours import draw_candidates, neighbour_loss, neighbours


def units(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return F.normalize(drawn, dim=1)


def in_loops(q, candidates, N, tau):
    """Eq. 8 to 11, one image, neighbour and row at a time."""
    total = 0.0
    for q_i in q.tolist():
        dots = [
            sum(a * b for a, b in zip(q_i, n, strict=True)) for n in candidates.tolist()
        ]
        order = sorted(range(len(dots)), key=lambda m: -dots[m])
        P, rest = order[:N], order[N:]
        for j in P:
            L_j = [j, *rest]
            weights = [math.exp(dots[a] / tau) for a in L_j]
            p = [weight / sum(weights) for weight in weights]
            total -= sum(p_a * math.log(p_a) for p_a in p) / N
    return total / len(q)


@pytest.mark.parametrize("N", [1, 3, 8])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_the_loss_matches_loops(N, tau):
    q, candidates = units(6, 4), units(9, 4, seed=1)
    found = neighbour_loss(q, candidates, N, tau).item()
    assert found == pytest.approx(in_loops(q, candidates, N, tau))


def test_two_candidates_by_hand():
    """N = 1, cosines 1 and 0 with tau 1: p = e / (e + 1) and its rest."""
    q, candidates = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    p = math.e / (math.e + 1)
    expected = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert neighbour_loss(q, candidates, 1, 1.0).item() == pytest.approx(expected)


@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0, 1e3])
def test_bounds(tau):
    """0 <= L <= ln(K - N + 1), which is reached where all candidates are alike."""
    K, N = 12, 4
    q, candidates = units(20, 5), units(K, 5, seed=1)
    most = math.log(K - N + 1)
    assert 0 <= neighbour_loss(q, candidates, N, tau).item() <= most + 1e-12
    alike = candidates[:1].expand(K, -1)
    assert neighbour_loss(q, alike, N, tau).item() == pytest.approx(most)


def test_an_image_that_is_certain_of_its_neighbour_costs_nothing():
    q = torch.eye(3, dtype=torch.float64)
    assert neighbour_loss(q, torch.eye(3, dtype=torch.float64), 1, 1e-3).item() < 1e-9


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_no_more_rows_than_neighbours_cost_nothing(count):
    assert neighbour_loss(units(3, 4), units(count, 4), 5, 0.1).item() == 0


@pytest.mark.parametrize("N", [1, 5])
def test_a_gradient_step_raises_the_similarity_to_the_neighbours(N):
    """For every image; with several neighbours, their mean."""
    q, candidates = units(16, 64).requires_grad_(), units(50, 64, seed=1)
    before = q.detach() @ candidates.T
    near, where = before.topk(N, dim=1)
    neighbour_loss(q, candidates, N, 0.1).backward()
    after = F.normalize(q.detach() - 1e-3 * q.grad, dim=1) @ candidates.T
    assert (after.gather(1, where).mean(dim=1) > near.mean(dim=1)).all()
    assert candidates.grad is None


def test_the_gradient_is_right():
    q, candidates = units(3, 4).requires_grad_(), units(7, 4, seed=1)
    assert torch.autograd.gradcheck(
        lambda x: neighbour_loss(x, candidates, 2, 0.5), (q,)
    )


def test_a_large_contrast_stays_finite():
    q = units(4, 3).float().requires_grad_()
    loss = neighbour_loss(q, units(9, 3, seed=1).float(), 2, 1e-4)
    loss.backward()
    assert loss.isfinite() and q.grad.isfinite().all()


def test_candidates_are_different_rows_and_every_row_may_be_one():
    rows, rng = torch.arange(10.0)[:, None], torch.Generator().manual_seed(0)
    drawn = [draw_candidates(rows, 4, rng).flatten().tolist() for _ in range(200)]
    assert all(len(set(row)) == 4 for row in drawn)
    counts = torch.tensor(drawn).long().flatten().bincount(minlength=10)
    assert counts.min() > 50 and counts.max() < 110
    assert torch.equal(draw_candidates(rows, 10, rng), rows)
    assert torch.equal(draw_candidates(rows, 11, rng), rows)


class Batch:
    """A batch of which a term takes only the generator."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)


def made(bank=None, **more):
    options = {"neighbours": 2, "neighbour_candidates": 5}
    options |= {"neighbour_temperature": 0.5, "neighbour_weight": 0.25}
    return neighbours(None, {"rows": bank}, **{**options, **more})


def forward(z, rows):
    return Forward({}, z, z, z, rows)


def test_the_term_is_lambda_times_the_loss_of_normalised_projections():
    z, rows = 3 * units(4, 3).float(), units(9, 3, seed=1).float()
    candidates = draw_candidates(rows, 5, Batch().generator)
    expected = 0.25 * neighbour_loss(units(4, 3).float(), candidates, 2, 0.5)
    torch.testing.assert_close(made()(Batch(), forward(z, rows)), expected)
    other = made()(Batch(1), forward(z, rows))
    assert not torch.equal(other, made()(Batch(), forward(z, rows)))


def test_it_is_off_without_neighbours_and_nothing_without_rows():
    assert made(neighbours=0) is None
    assert made()(Batch(), forward(units(4, 3).float(), None)) == 0


def test_an_objective_without_rows_is_matched_with_those_of_other_clients():
    z, rows = 3 * units(4, 3).float(), units(9, 3, seed=1).float()
    expected = made()(Batch(), forward(z, rows))
    found = made(bank=rows)(Batch(), forward(z, None))
    torch.testing.assert_close(found, expected)
    # An objective that has rows has the bank among them already.
    found = made(bank=-rows)(Batch(), forward(z, rows))
    torch.testing.assert_close(found, expected)
