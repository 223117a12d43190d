"""VICReg: the equations in loops, properties, values worked out by hand, lightly."""

import math

import pytest
import torch

from furlkit.objectives.vicreg import (
    Weights,
    covariance,
    invariance,
    variance,
    vicreg_loss,
)
from tests.objectives.tiny import rows

PUBLISHED = Weights(25.0, 25.0, 1.0)


def transcribed(z_1, z_2, weights):
    """Eq. 1-6, number by number."""
    N, d = z_1.shape
    s = sum(
        (float(z_1[n, j]) - float(z_2[n, j])) ** 2 for n in range(N) for j in range(d)
    )
    v, c = 0.0, 0.0
    for z in (z_1, z_2):
        columns = [[float(z[n, j]) for n in range(N)] for j in range(d)]
        means = [sum(column) / N for column in columns]

        def covariance_of(i, j, columns=columns, means=means):
            pairs = zip(columns[i], columns[j], strict=True)
            return sum((a - means[i]) * (b - means[j]) for a, b in pairs) / (N - 1)

        for i in range(d):
            v += max(0.0, 1 - math.sqrt(covariance_of(i, i) + 1e-4)) / d / 2
            c += sum(covariance_of(i, j) ** 2 for j in range(d) if j != i) / d
    return weights[0] * s / N / d + weights[1] * v + weights[2] * c


@pytest.mark.parametrize("weights", [PUBLISHED, (1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_loss_matches_loops(weights):
    z_1, z_2 = 0.7 * rows(6, 4), rows(6, 4, seed=1)
    found = float(vicreg_loss(z_1, z_2, Weights(*weights)))
    assert found == pytest.approx(transcribed(z_1, z_2, weights), abs=1e-12)


def test_values_by_hand():
    z = torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    assert float(invariance(z, -z)) == 4
    # Variances of 2 and a covariance of 2, twice, over d = 2.
    assert float(variance(z)) == 0
    assert float(covariance(z)) == 4
    # Equal rows lack a whole standard deviation, but for epsilon.
    assert float(variance(torch.ones(4, 3))) == pytest.approx(0.99)


def test_a_shift_of_both_views_and_an_order_of_columns_do_not_matter():
    z_1, z_2 = 0.5 * rows(8, 3), 0.5 * rows(8, 3, seed=1)
    loss = vicreg_loss(z_1, z_2, PUBLISHED)
    for change in (lambda z: z + torch.tensor([3.0, -1.0, 0.5]), lambda z: z.flip(1)):
        moved = vicreg_loss(change(z_1), change(z_2), PUBLISHED)
        torch.testing.assert_close(moved, loss)
    torch.testing.assert_close(vicreg_loss(z_2, z_1, PUBLISHED), loss)


def test_equal_rows_cost_more_than_varied_rows_and_have_a_finite_gradient():
    same = torch.ones(8, 3, dtype=torch.float64, requires_grad=True)
    varied = 2 * torch.linalg.qr(rows(8, 3) - rows(8, 3).mean(dim=0))[0] * 8**0.5
    assert vicreg_loss(same, same, PUBLISHED) > vicreg_loss(varied, varied, PUBLISHED)
    vicreg_loss(same, same, PUBLISHED).backward()
    assert same.grad.isfinite().all()


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_agrees_with_lightly(scale):
    theirs = pytest.importorskip("lightly.loss").VICRegLoss()
    z_1, z_2 = scale * rows(16, 7).float(), scale * rows(16, 7, seed=1).float()
    torch.testing.assert_close(vicreg_loss(z_1, z_2, PUBLISHED), theirs(z_1, z_2))
