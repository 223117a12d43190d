"""The style loss: the equation in loops, its properties, values worked out by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.objectives.simclr import normalise
from furlkit.objectives.style import step, style_loss


def units(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return normalise(torch.randn(*shape, generator=generator, dtype=torch.float64))


def styles(B):
    return torch.arange(2).repeat_interleave(B)


def transcribed(z, s, tau, reduction):
    """Eq. 2, one pair of rows at a time."""
    total, n = 0.0, len(z)
    for i in range(n):
        below = sum(math.exp(float(z[i] @ z[m]) / tau) for m in range(n) if m != i)
        positives = [j for j in range(n) if j != i and s[i] == s[j]]
        own = 0.0
        for j in positives:
            own -= math.log(math.exp(float(z[i] @ z[j]) / tau) / below)
        if reduction == "paper":
            total += own / (n - 1)
        else:
            total += own / len(positives) / n
    return total


@pytest.mark.parametrize("reduction", ["mean", "paper"])
@pytest.mark.parametrize("tau", [0.07, 1.0])
def test_loss_matches_loops(reduction, tau):
    z, s = units(8, 3), styles(4)
    found = float(style_loss(z, s, tau, reduction))
    assert found == pytest.approx(transcribed(z, s, tau, reduction), abs=1e-12)


def test_rows_need_not_be_unit_rows():
    """As printed, Eq. 2 compares z itself."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(8, 3, generator=generator, dtype=torch.float64)
    found = float(style_loss(z, styles(4), 0.5, "paper"))
    assert found == pytest.approx(transcribed(z, styles(4), 0.5, "paper"), abs=1e-12)
    assert found != pytest.approx(
        float(style_loss(normalise(z), styles(4), 0.5, "paper"))
    )


def test_values_by_hand():
    """Two styles in two points, and all rows in one, for B = 3 images."""
    apart = torch.eye(2, dtype=torch.float64).repeat_interleave(3, dim=0)
    expected = math.log(2 + 3 * math.exp(-2))
    assert float(style_loss(apart, styles(3), 0.5)) == pytest.approx(expected)
    same = apart[:1].expand(6, -1)
    assert float(style_loss(same, styles(3), 0.5)) == pytest.approx(math.log(5))
    # As printed: 6 rows with 2 positives of 5 others.
    printed = float(style_loss(same, styles(3), 0.5, "paper"))
    assert printed == pytest.approx(6 * 2 / 5 * math.log(5))


def test_the_two_ways_differ_by_a_factor_of_the_batch_alone():
    z, B = units(10, 4), 5
    mean, printed = (style_loss(z, styles(B), 0.1, r) for r in ("mean", "paper"))
    factor = 2 * B * (B - 1) / (2 * B - 1)
    torch.testing.assert_close(printed, factor * mean)


def test_the_order_of_images_and_the_names_of_styles_do_not_matter():
    z, s = units(8, 3), styles(4)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        style_loss(z[order], s[order], 0.1), style_loss(z, s, 0.1)
    )
    torch.testing.assert_close(style_loss(z, 1 - s, 0.1), style_loss(z, s, 0.1))


def test_a_gradient_step_brings_a_style_together_and_both_apart():
    z, s = units(12, 5).requires_grad_(), styles(6)
    style_loss(z, s, 0.5).backward()
    moved = normalise(z.detach() - 0.1 * z.grad)

    def within_and_between(rows):
        cosines, same = rows @ rows.T, s[:, None] == s
        return cosines[same].mean(), cosines[~same].mean()

    before, after = within_and_between(z.detach()), within_and_between(moved)
    assert after[0] > before[0] and after[1] < before[1]


def test_an_unknown_reduction():
    with pytest.raises(ValueError, match="reduction 'sum'"):
        style_loss(units(4, 3), styles(2), 0.1, "sum")


class Tiny(nn.Module):
    """Linear maps under the names that a net has."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        self.projector = nn.Linear(3, 2)


@pytest.mark.parametrize("normalised", [True, False])
def test_a_step_compares_plain_images_with_their_edges(normalised):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)
    view = View(Augmentation(), 8, 1, (0.5,), (0.5,))
    images = Images(pixels, None, np.arange(5), view, torch.device("cpu"))
    batch, net = images.batch(torch.arange(4), torch.Generator()), Tiny()
    forward = step(net, batch, temperature=0.5, reduction="mean", normalised=normalised)
    x = torch.cat([batch.plain(), batch.edges()])
    z = net.projector(net.encoder(x))
    z = normalise(z) if normalised else z
    assert torch.equal(forward.views, x)
    torch.testing.assert_close(
        forward.losses["style"], style_loss(z, torch.tensor([0] * 4 + [1] * 4), 0.5)
    )
