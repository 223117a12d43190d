import pytest
import torch
from torch import nn

from furlkit.terms.alignment import alignment_loss, forward_eval


def four(n=5, d_h=7, d_z=3, seed=0):
    """h_u, z_u, h_align, z_align of n images."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(n, d, generator=generator, dtype=torch.float64)
        for d in (d_h, d_z, d_h, d_z)
    ]


class Tiny(nn.Module):
    """An encoder and a projector, both with BatchNorm."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.BatchNorm1d(6))
        self.projector = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))


@pytest.fixture
def net():
    generator, net = torch.Generator().manual_seed(0), Tiny()
    with torch.no_grad():
        for tensor in (*net.parameters(), *net.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return net.train()


@pytest.fixture
def images():
    return torch.rand(5, 1, 2, 2, generator=torch.Generator().manual_seed(1))


def in_loops(h_u, z_u, h_align, z_align):
    """Eq. 11 to 13: L_h over images and numbers, L_z likewise, and their sum."""
    L_h = L_z = 0.0
    for mine, common in zip(h_u.tolist(), h_align.tolist(), strict=True):
        L_h += sum((b - a) ** 2 for a, b in zip(mine, common, strict=True))
    for mine, common in zip(z_u.tolist(), z_align.tolist(), strict=True):
        L_z += sum((b - a) ** 2 for a, b in zip(mine, common, strict=True))
    return L_z + L_h


def test_the_sum_matches_loops():
    batch = four()
    assert alignment_loss(*batch).item() == pytest.approx(in_loops(*batch))


def test_the_mean_is_the_sum_over_the_images():
    batch = four(n=5)
    mean = alignment_loss(*batch, reduction="mean")
    assert mean.item() == pytest.approx(in_loops(*batch) / 5)


def test_two_images_by_hand():
    h_u, h_align = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.zeros(2, 2)
    z_u, z_align = torch.tensor([[3.0], [1.0]]), torch.tensor([[1.0], [1.5]])
    # L_h = 1 + 4, L_z = 4 + 0.25
    assert alignment_loss(h_u, z_u, h_align, z_align).item() == 9.25
    assert alignment_loss(h_u, z_u, h_align, z_align, "mean").item() == 4.625


def test_it_is_0_at_the_targets_and_grows_with_the_square_of_the_distance():
    h, z, *_ = four()
    assert alignment_loss(h, z, h, z).item() == 0
    near, far = (alignment_loss(h + by, z, h, z).item() for by in (0.1, 0.3))
    assert far == pytest.approx(9 * near) and near > 0


def test_rows_are_not_normalised():
    h_u, z_u, h_align, z_align = four()
    once = alignment_loss(h_u, z_u, h_align, z_align)
    doubled = alignment_loss(*(2 * rows for rows in (h_u, z_u, h_align, z_align)))
    torch.testing.assert_close(doubled, 4 * once)


def test_order_of_images_changes_nothing_and_the_sum_grows_with_them():
    batch, order = four(), torch.tensor([4, 0, 3, 1, 2])
    once = alignment_loss(*batch)
    torch.testing.assert_close(alignment_loss(*(rows[order] for rows in batch)), once)
    twice = [torch.cat([rows, rows]) for rows in batch]
    torch.testing.assert_close(alignment_loss(*twice), 2 * once)
    mean = alignment_loss(*batch, reduction="mean")
    torch.testing.assert_close(alignment_loss(*twice, reduction="mean"), mean)


def test_the_gradient_pulls_the_client_and_never_the_targets():
    h_u, z_u, h_align, z_align = (rows.requires_grad_() for rows in four())
    alignment_loss(h_u, z_u, h_align, z_align).backward()
    torch.testing.assert_close(h_u.grad, 2 * (h_u - h_align).detach())
    torch.testing.assert_close(z_u.grad, 2 * (z_u - z_align).detach())
    assert h_align.grad is None and z_align.grad is None


def test_rows_of_other_images_or_nets_are_never_stretched_to_fit():
    h_u, z_u, h_align, z_align = four()
    with pytest.raises(ValueError, match=r"\(5, 7\) .*\(1, 7\)"):
        alignment_loss(h_u, z_u, h_align[:1], z_align)
    with pytest.raises(ValueError, match=r"\(5, 3\) .*\(5, 1\)"):
        alignment_loss(h_u, z_u, h_align, z_align[:, :1])


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="reduction 'max'"):
        alignment_loss(*four(), reduction="max")


def test_answers_are_those_of_the_net_in_eval_mode(net, images):
    h, z = forward_eval(net, images)
    net.eval()
    with torch.no_grad():
        expected = net.encoder(images)
        torch.testing.assert_close(h, expected, rtol=0, atol=0)
        torch.testing.assert_close(z, net.projector(expected), rtol=0, atol=0)
        net.train()
        assert not torch.allclose(net.encoder(images), expected)


def test_answers_leave_statistics_and_mode_as_they_were(net, images):
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    forward_eval(net, images)
    assert all(torch.equal(net.state_dict()[k], v) for k, v in before.items())
    assert all(module.training for module in net.modules())
    net.eval()
    forward_eval(net, images)
    assert not any(module.training for module in net.modules())


def test_answers_have_gradients_for_every_parameter(net, images):
    h, z = forward_eval(net, images)
    alignment_loss(h, z, torch.zeros_like(h), torch.zeros_like(z)).backward()
    assert all(p.grad is not None and p.grad.abs().sum() for p in net.parameters())


def test_answers_are_float32_in_mixed_precision(net, images):
    with torch.autocast("cpu", torch.bfloat16):
        h, z = forward_eval(net, images)
    assert h.dtype == z.dtype == torch.float32
