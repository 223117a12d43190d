"""The pull to the nearest centroid: loops, properties, known values."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from furlkit.terms.centroids import centroid_loss, centroids


def test_the_loss_matches_loops():
    generator = torch.Generator().manual_seed(0)
    z, mu = (torch.randn(n, 3, generator=generator).double() for n in (5, 4))
    u, m = F.normalize(z, dim=1).tolist(), F.normalize(mu, dim=1).tolist()
    total = 0.0
    for row in u:
        total += min(
            sum((a - b) ** 2 for a, b in zip(row, one, strict=True)) for one in m
        )
    assert float(centroid_loss(z, mu)) == pytest.approx(total / 5, rel=1e-12)


def test_known_values():
    mu = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert float(centroid_loss(torch.tensor([[3.0, 0.0]]), mu)) == 0
    assert float(centroid_loss(torch.tensor([[-1.0, 0.0]]), mu)) == 2
    assert float(centroid_loss(torch.tensor([[-1.0, 0.0]]), mu[:1])) == 4


def test_a_step_brings_rows_nearer_and_centroids_take_no_gradient():
    z = torch.tensor([[1.0, 0.5]], requires_grad=True)
    mu = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    loss = centroid_loss(z, mu)
    loss.backward()
    assert mu.grad is None
    assert centroid_loss(z - 0.1 * z.grad, mu) < loss


def test_the_order_of_centroids_and_the_length_of_rows_do_not_matter():
    generator = torch.Generator().manual_seed(1)
    z, mu = (torch.randn(n, 3, generator=generator) for n in (5, 4))
    one, other = centroid_loss(z, mu), centroid_loss(7 * z, mu.flip(0) * 2)
    assert float(one) == pytest.approx(float(other), rel=1e-5)


def test_without_a_weight_or_centroids_there_is_no_term():
    rows = {"centroids": torch.eye(2)}
    assert centroids(nn.Identity(), rows, centroid_weight=0.0) is None
    assert centroids(nn.Identity(), {}, centroid_weight=1.0) is None
