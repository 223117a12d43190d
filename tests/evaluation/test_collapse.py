import math

import numpy as np
import pytest
import torch

from furlkit.evaluation.collapse import effective_rank, lidar, rankme, spread


def cross(d):
    return torch.cat([torch.eye(d), -torch.eye(d)])


def gaussian(n, d):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def test_equal_rows_are_a_collapse():
    row = gaussian(1, 128)
    z = row.expand(256, 128) * torch.linspace(0.1, 9, 256)[:, None]
    assert spread(z) == pytest.approx(0, abs=1e-6)
    assert effective_rank(z) == 1
    assert spread(torch.zeros(4, 3)) == 0 and effective_rank(torch.zeros(4, 3)) == 1


@pytest.mark.parametrize("d", [2, 5, 64])
def test_a_cross_of_all_axes_fills_the_space(d):
    assert spread(cross(d)) == pytest.approx(1)
    assert effective_rank(cross(d)) == pytest.approx(d, rel=1e-5)


def test_isotropic_rows_nearly_fill_the_space():
    z = gaussian(4000, 16)
    assert spread(z) == pytest.approx(1, abs=0.02)
    assert effective_rank(z) == pytest.approx(16, abs=0.1)


def test_rows_on_a_plane_have_rank_two():
    z = cross(2) @ gaussian(2, 9)
    assert 1 < effective_rank(z) <= 2 + 1e-5
    padded = torch.cat([cross(2), torch.zeros(4, 6)], dim=1)
    assert effective_rank(padded) == pytest.approx(2)
    assert spread(padded) == pytest.approx(2 * math.sqrt(0.5) / 8 * math.sqrt(8))


def test_both_match_numpy():
    z = gaussian(20, 6) + 1
    rows = z.double().numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = math.sqrt(6) * np.mean(rows.std(axis=0))
    p = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    p = p / p.sum()
    assert spread(z) == pytest.approx(expected, rel=1e-5)
    assert effective_rank(z) == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-5)


def test_length_and_order_of_rows_change_nothing():
    z = gaussian(20, 6) + 1
    changed = z.flip(0) * torch.arange(1.0, 21.0)[:, None]
    assert spread(changed) == pytest.approx(spread(z), rel=1e-5)
    assert effective_rank(changed) == pytest.approx(effective_rank(z), rel=1e-5)


def test_a_single_row_is_a_number_and_a_broken_one_is_nan():
    assert spread(gaussian(1, 5)) == 0 and effective_rank(gaussian(1, 5)) == 1
    broken = gaussian(4, 3) * math.nan
    assert math.isnan(spread(broken)) and math.isnan(effective_rank(broken))


# --- RankMe and LiDAR -----------------------------------------------------------------


def test_rankme_matches_numpy_without_centring():
    z = gaussian(20, 6) * torch.arange(1.0, 7.0) + 1
    s = np.linalg.svd(z.double().numpy(), compute_uv=False)
    p = s / s.sum() + 1e-7
    assert rankme(z) == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-5)
    assert rankme(z) == pytest.approx(rankme(9 * z.flip(0)), rel=1e-5)
    assert rankme(z) != pytest.approx(rankme(z - z.mean(dim=0)), rel=1e-2)


@pytest.mark.parametrize("d", [2, 5, 64])
def test_rankme_of_axes_is_their_number(d):
    assert rankme(cross(d)) == pytest.approx(d, rel=1e-4)
    one = torch.ones(8, d)  # Equal rows have one direction.
    assert rankme(one) == pytest.approx(1, abs=1e-4)


def test_ranks_of_nothing_and_of_broken_rows():
    assert rankme(torch.zeros(4, 3)) == 1
    broken = gaussian(4, 3) * math.nan
    assert math.isnan(rankme(broken)) and math.isnan(lidar(broken, broken))


@pytest.mark.parametrize(("n", "d"), [(30, 4), (6, 9)])
def test_lidar_matches_loops(n, d):
    """Scatter between images and within images, number by number."""
    one, other = gaussian(2 * n, d).double().chunk(2)
    views = np.stack([one.numpy(), other.numpy()], axis=1)  # (n, 2, d)
    centre = views.mean(axis=(0, 1))
    between, within = np.zeros((d, d)), 1e-4 * np.eye(d)
    for image in views:
        apart = image.mean(axis=0) - centre
        between += np.outer(apart, apart) / (n - 1)
        for view in image:
            within += np.outer(*[view - image.mean(axis=0)] * 2) / n
    values, axes = np.linalg.eigh(within)
    root = axes @ np.diag(values**-0.5) @ axes.T
    found = np.linalg.eigvalsh(root @ between @ root).clip(min=0)
    p = found / found.sum()
    p = p[p > 1e-12]
    expected = math.exp(-(p * np.log(p)).sum())
    assert lidar(one, other) == pytest.approx(expected, rel=1e-4)


def test_lidar_counts_dimensions_that_tell_images_apart():
    """Three dimensions differ between images, the fourth only between views."""
    rows = gaussian(4000, 4) * torch.tensor([1.0, 1.0, 1.0, 0.0])
    noise = 0.1 * torch.randn(2, 4000, 4, generator=torch.Generator().manual_seed(1))
    assert lidar(rows + noise[0], rows + noise[1]) == pytest.approx(3, abs=0.1)
