import pytest
import torch

from furlkit.objectives.autoencoder import reconstruction_loss


def images(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 4, 4, generator=generator)


def test_matches_loops():
    x_hat, x = images(0), images(1)
    pairs = zip(x_hat.flatten().tolist(), x.flatten().tolist(), strict=True)
    squares = [(a - b) ** 2 for a, b in pairs]
    expected = sum(squares) / (2 * 3 * 4 * 4)
    assert reconstruction_loss(x_hat, x).item() == pytest.approx(expected, rel=1e-5)


def test_value_by_hand():
    x = torch.zeros(1, 1, 2, 2)
    x_hat = torch.tensor([[[[1.0, -2.0], [0.0, 3.0]]]])
    assert reconstruction_loss(x_hat, x).item() == 14 / 4


def test_is_symmetric_quadratic_and_zero_only_for_equal_images():
    x_hat, x = images(0), images(1)
    loss = reconstruction_loss(x_hat, x)
    assert reconstruction_loss(x, x).item() == 0
    assert loss > 0
    torch.testing.assert_close(reconstruction_loss(x, x_hat), loss)
    torch.testing.assert_close(reconstruction_loss(3 * x_hat, 3 * x), 9 * loss)


def test_shapes_are_never_broadcast():
    with pytest.raises(ValueError, match="image"):
        reconstruction_loss(images(0), images(1)[:, :1])
