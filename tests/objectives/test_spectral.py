"""The spectral loss and FedSC's objective: loops, properties, values worked out by hand."""

import pytest
import torch

from furlkit.objectives.spectral import bounded, correlations, spectral_loss
from tests.objectives.tiny import rows


def transcribed(z_1, z_2, others=None, alpha=1.0):
    """Pair by pair: (z . z')^2 over all pairs is the norm of the correlations."""
    N = len(z_1)
    views = [*z_1.tolist(), *z_2.tolist()]
    dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))  # noqa: E731
    attraction = -2 * sum(map(dot, z_1.tolist(), z_2.tolist())) / N
    own = sum(dot(a, b) ** 2 for a in views for b in views) / len(views) ** 2
    if others is None:
        return attraction + own
    pairs = [dot(a, b) ** 2 for a in views for b in others.tolist()]
    return attraction + alpha * own + 2 * (1 - alpha) * sum(pairs) / len(pairs)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_loss_contrasts_pairs_of_images_within_and_between_clients(alpha):
    z_1, z_2, others = rows(5, 3), rows(5, 3, seed=1), rows(7, 3, seed=2)
    assert float(spectral_loss(z_1, z_2)) == pytest.approx(transcribed(z_1, z_2))
    found = spectral_loss(z_1, z_2, correlations(others), alpha)
    assert float(found) == pytest.approx(transcribed(z_1, z_2, others, alpha))


def test_values_by_hand():
    e = torch.eye(2, dtype=torch.float64)
    # Views agree: -2. R is I / 2, its squared norm 1/2.
    assert float(spectral_loss(e, e)) == pytest.approx(-1.5)
    # All rows equal: R has a single 1.
    same = e[[0, 0]]
    assert float(spectral_loss(same, same)) == pytest.approx(-1)
    # Others are all along the second axis, so the contrast with others is 0.
    assert float(spectral_loss(same, same, torch.diag(e[1]), 0.0)) == pytest.approx(-2)


def test_a_rotation_of_all_rows_changes_nothing():
    z_1, z_2, others = rows(6, 4), rows(6, 4, seed=1), rows(9, 4, seed=2)
    Q = torch.linalg.qr(rows(4, 4, seed=3)).Q
    turned = spectral_loss(z_1 @ Q, z_2 @ Q, correlations(others @ Q), 0.4)
    plain = spectral_loss(z_1, z_2, correlations(others), 0.4)
    torch.testing.assert_close(turned, plain)


def test_long_rows_are_shortened_and_short_rows_keep_their_values():
    z = torch.tensor([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0]])
    found = bounded(z, 4.0)
    assert found[0].tolist() == pytest.approx([1.2, 1.6])
    assert torch.equal(found[1:], z[1:])
    bounded(z.requires_grad_(), 4.0).sum().backward()
    assert z.grad is not None and z.grad.isfinite().all()
