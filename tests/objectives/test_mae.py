"""MAE: patches and loss in loops, by property and by hand, lightly; the steps."""

import math

import pytest
import torch

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.models.architecture import Architecture, build
from furlkit.objectives.mae import (
    mae_loss,
    normalised_patches,
    patchify,
    random_order,
    step,
    visible_count,
)
from tests.objectives.tiny import rows

SMALL = Architecture("cnn5", 8, 1, 0.05, heads={"patches": (8, 4)})


# --- patches and loss -----------------------------------------------------------------


def test_patches_match_loops():
    x, p = rows(2, 3, 4, 7), 2  # The last column is not of a whole patch.
    found = patchify(x, p)
    assert found.shape == (2, 6, 12)
    for b in range(2):
        for n in range(6):
            top, left = p * (n // 3), p * (n % 3)
            values = [
                float(x[b, c, top + i, left + j])
                for i in range(p)
                for j in range(p)
                for c in range(3)
            ]
            assert found[b, n].tolist() == values


def test_loss_matches_loops():
    y, t = rows(2, 3, 4), rows(2, 3, 4, seed=1)
    total = plain = 0.0
    for b in range(2):
        for n in range(3):
            patch = t[b, n].tolist()
            mean = sum(patch) / 4
            variance = sum((v - mean) ** 2 for v in patch) / 3
            for k in range(4):
                target = (patch[k] - mean) / math.sqrt(variance + 1e-6)
                total += (float(y[b, n, k]) - target) ** 2
                plain += (float(y[b, n, k]) - patch[k]) ** 2
    assert float(mae_loss(y, t, True)) == pytest.approx(total / 24)
    assert float(mae_loss(y, t, False)) == pytest.approx(plain / 24)


def test_values_by_hand():
    t = torch.tensor([[[0.0, 2.0]]])
    assert float(mae_loss(t, t, False)) == 0
    # Mean 1, variance 2: the targets are -1 / sqrt(2) and 1 / sqrt(2).
    assert float(mae_loss(torch.zeros(1, 1, 2), t, True)) == pytest.approx(0.5)
    assert float(mae_loss(torch.zeros(1, 1, 2), t, False)) == 2


def test_normalised_pixels_ignore_brightness_and_contrast_and_stay_finite():
    y, t = rows(2, 3, 4), rows(2, 3, 4, seed=1)
    other = 5 * t + rows(2, 3, 1, seed=2)
    torch.testing.assert_close(
        mae_loss(y, other, True), mae_loss(y, t, True), rtol=1e-5, atol=1e-5
    )
    assert normalised_patches(torch.ones(1, 2, 4)).abs().max() == 0


@pytest.mark.parametrize(
    ("N", "r", "V"), [(16, 0.75, 4), (196, 0.75, 49), (4, 0.99, 1), (4, 0.01, 3)]
)
def test_some_patches_are_visible_and_some_are_hidden(N, r, V):
    assert visible_count(N, r) == V


def test_orders_are_permutations_of_their_own_for_each_image():
    order = random_order(200, 6, torch.Generator().manual_seed(0))
    assert order.sort(dim=1).values.eq(torch.arange(6)).all()
    first = order[:, 0].bincount(minlength=6)
    assert first.min() > 15 and len({tuple(row) for row in order.tolist()}) > 100


def test_agrees_with_lightly():
    theirs = pytest.importorskip("lightly.models.utils")
    x, order = rows(3, 2, 8, 8), random_order(3, 16, torch.Generator().manual_seed(0))
    y, hidden = rows(3, 12, 8, seed=1), order[:, 4:]
    patches = theirs.patchify(x, 2)
    torch.testing.assert_close(patchify(x, 2), patches)
    t = theirs.get_at_index(patches, hidden)
    mine = torch.take_along_dim(patchify(x, 2), hidden[..., None], dim=1)
    for normalise in (False, True):
        target = theirs.normalize_mean_var(t) if normalise else t
        expected = torch.nn.functional.mse_loss(y, target)
        torch.testing.assert_close(mae_loss(y, mine, normalise), expected)


# --- the step -------------------------------------------------------------------------


def batch_of(size=8, count=6, channels=1):
    generator = torch.Generator().manual_seed(0)
    shape = (count, size, size, channels)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    one = (0.5,) * channels
    view = View(Augmentation(), size, channels, one, one)
    images = Images(pixels.numpy(), None, torch.arange(count).numpy(), view, CPU)
    return images.batch(torch.arange(count), torch.Generator().manual_seed(1))


CPU = torch.device("cpu")
HOW = {"mask_ratio": 0.75, "normalise_pixels": True}


def test_the_step_is_the_loss_of_the_hidden_patches():
    net = build(SMALL, torch.Generator().manual_seed(0)).eval()
    found = step(net, batch_of(), **HOW)
    order = random_order(6, 16, torch.Generator().manual_seed(1))
    y = net.patches(found.h)
    expected = 0.0
    for b in range(6):
        for n in order[b, 4:].tolist():
            t = patchify(found.views, 2)[b, n]
            expected += mae_loss(y[b, n], t, True).item() / 72
    assert found.losses["mae"].item() == pytest.approx(expected, rel=1e-5)
    seen = found.views.clone()
    for b in range(6):
        for n in order[b, 4:].tolist():
            top, left = 2 * (n // 4), 2 * (n % 4)
            seen[b, :, top : top + 2, left : left + 2] = 0
    torch.testing.assert_close(found.h, net.encoder(seen))


def test_equal_generators_hide_equal_patches_and_others_differ():
    net = build(SMALL, torch.Generator().manual_seed(0)).eval()
    batch = batch_of()
    losses = [step(net, batch, **HOW).losses["mae"].item() for _ in range(2)]
    assert losses[0] != losses[1]  # The generator has moved on.
    assert step(net, batch_of(), **HOW).losses["mae"].item() == losses[0]


def test_training_lowers_the_loss_and_reaches_every_weight():
    net = build(SMALL, torch.Generator().manual_seed(0)).train()
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(40):
        loss = step(net, batch_of(), **HOW).losses["mae"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert all(p.grad is not None for p in net.parameters())
    assert losses[-1] < losses[0] / 2
