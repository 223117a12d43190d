"""FedDecorr's regulariser: loops, properties, known values."""

import pytest
import torch
from torch import nn

from furlkit.terms.decorrelation import decorrelation, decorrelation_loss


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()


def correlation(a, b):
    """Pearson's correlation of two lists."""
    m, k = sum(a) / len(a), sum(b) / len(b)
    product = sum((x - m) * (y - k) for x, y in zip(a, b, strict=True))
    squares = [sum((x - c) ** 2 for x in v) for v, c in ((a, m), (b, k))]
    return product / (squares[0] * squares[1]) ** 0.5


@pytest.mark.parametrize(("n", "d"), [(6, 3), (3, 6)])
def test_the_loss_matches_loops(n, d):
    h = rows(n, d)
    columns = h.T.tolist()
    K = [[correlation(a, b) for b in columns] for a in columns]
    total = sum(value**2 for row in K for value in row)
    assert float(decorrelation_loss(h)) == pytest.approx(total / d**2, rel=1e-6)
    off = (n - 1) ** 2 / n * (total - d) / (d * (d - 1))
    assert float(decorrelation_loss(h, "code")) == pytest.approx(off, rel=1e-6)


def test_known_values():
    apart = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    equal = apart[:, :1].repeat(1, 2)
    assert float(decorrelation_loss(apart)) == pytest.approx(2 / 4)  # K is the identity
    assert float(decorrelation_loss(equal)) == pytest.approx(1)
    assert float(decorrelation_loss(apart, "code")) == pytest.approx(0, abs=1e-6)
    assert float(decorrelation_loss(equal, "code")) == pytest.approx(
        9 / 4
    )  # (N - 1)^2 / N


def test_scale_and_origin_of_a_column_do_not_matter():
    h = rows(8, 3)
    moved = h * torch.tensor([2.0, 0.1, 30.0]) + torch.tensor([1.0, -5.0, 2.0])
    one, other = decorrelation_loss(h), decorrelation_loss(moved)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=0)


def test_the_gradients_of_both_forms_differ_by_a_factor():
    gradients = []
    for form in ("paper", "code"):
        h = rows(5, 3).requires_grad_()
        decorrelation_loss(h, form).backward()
        gradients.append(h.grad)
    factor = 4**2 / 5 * 3 / (3 - 1)  # (N - 1)^2 d / (N (d - 1))
    torch.testing.assert_close(
        factor * gradients[0], gradients[1], rtol=1e-4, atol=1e-7
    )


def test_steps_spread_collapsed_rows():
    h = (rows(32, 1) @ rows(1, 4, 1) + 0.1 * rows(32, 4, 2)).requires_grad_()
    before = torch.linalg.matrix_norm(torch.corrcoef(h.detach().T))
    for _ in range(50):
        (gradient,) = torch.autograd.grad(decorrelation_loss(h), h)
        h = (h.detach() - 2 * gradient).requires_grad_()
    assert torch.linalg.matrix_norm(torch.corrcoef(h.detach().T)) < 0.7 * before


def test_a_dead_column_has_a_finite_gradient():
    h = torch.cat([rows(6, 2), torch.zeros(6, 1)], dim=1).requires_grad_()
    decorrelation_loss(h).backward()
    assert h.grad.isfinite().all()


def test_without_a_weight_there_is_no_term():
    how = {"decorrelation_form": "paper"}
    assert decorrelation(nn.Identity(), {}, decorrelation=0.0, **how) is None
