"""Barlow Twins: the equation in loops, its properties, a value worked out by hand, lightly."""

import math

import pytest
import torch

from furlkit.objectives.barlow import barlow_loss
from tests.objectives.tiny import rows

EPSILON = 1e-5  # Added to the variances, as BatchNorm does.


def transcribed(z_1, z_2, redundancy):
    """Eq. 1 and 2, number by number."""
    N, d = z_1.shape

    def column(z, i):
        values = [float(z[n, i]) for n in range(N)]
        mean = sum(values) / N
        variance = sum((value - mean) ** 2 for value in values) / N
        return [(value - mean) / math.sqrt(variance + EPSILON) for value in values]

    total = 0.0
    for i in range(d):
        for j in range(d):
            pairs = zip(column(z_1, i), column(z_2, j), strict=True)
            C = sum(a * b for a, b in pairs) / N
            total += (1 - C) ** 2 if i == j else redundancy * C**2
    return total


@pytest.mark.parametrize("redundancy", [0.0, 5e-3, 1.0])
def test_loss_matches_loops(redundancy):
    z_1, z_2 = rows(6, 4), rows(6, 4, seed=1)
    found = float(barlow_loss(z_1, z_2, redundancy))
    assert found == pytest.approx(transcribed(z_1, z_2, redundancy), abs=1e-12)


def test_values_by_hand():
    # Both columns are the same: correlations of 1 everywhere, so 2 lambda.
    z = torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    assert float(barlow_loss(z, z, 0.25)) == pytest.approx(0.5, rel=1e-4)
    # Opposite views: (1 + 1)^2 for each of two numbers.
    assert float(barlow_loss(z, -z, 0.0)) == pytest.approx(8, rel=1e-4)
    # Columns that are uncorrelated, in views that agree.
    apart = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert float(barlow_loss(apart, apart, 1.0)) == pytest.approx(0, abs=1e-8)


def test_scale_and_shift_of_a_column_do_not_matter_and_views_may_be_swapped():
    z_1, z_2 = rows(8, 3), rows(8, 3, seed=1)
    loss = barlow_loss(z_1, z_2, 0.1)
    moved = z_1 * torch.tensor([2.0, 7.0, 0.5]) + torch.tensor([1.0, -4.0, 0.0])
    torch.testing.assert_close(barlow_loss(moved, z_2, 0.1), loss, rtol=1e-4, atol=0)
    torch.testing.assert_close(barlow_loss(z_2, z_1, 0.1), loss)


def test_one_point_for_all_images_has_the_loss_of_no_correlation():
    z = torch.ones(4, 3)
    assert float(barlow_loss(z, z, 1.0)) == pytest.approx(3)


def test_agrees_with_lightly():
    theirs = pytest.importorskip("lightly.loss").BarlowTwinsLoss()
    z_1, z_2 = rows(16, 7).float(), rows(16, 7, seed=1).float()
    torch.testing.assert_close(barlow_loss(z_1, z_2, 5e-3), theirs(z_1, z_2))
