"""Blur, solarisation and cutout against torchvision's."""

import pytest
import torch
from torchvision.transforms import GaussianBlur
from torchvision.transforms import functional as TF

from furlkit.data.augment.arrange import uniform
from furlkit.data.augment.filters import (
    blur_,
    blur_taps,
    cutout_,
    draw_sigmas,
    solarise_,
)
from tests.data.augment.noise import generator, noise


@pytest.mark.parametrize("taps", [3, 5, 9])
@pytest.mark.parametrize("channels", [1, 3])
def test_blur_equals_torchvision(taps, channels):
    images = noise(12, channels, 10, 13)
    sigmas = torch.from_numpy(draw_sigmas(12, (0.1, 2.0), generator()))
    expected = [
        TF.gaussian_blur(x, taps, s.item()) for x, s in zip(images, sigmas, strict=True)
    ]
    got = blur_(images, sigmas, taps)
    # Float32 with another order of operations.
    torch.testing.assert_close(got, torch.stack(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("size", "taps"), [(8, 3), (32, 3), (64, 7), (96, 9), (224, 23)]
)
def test_blur_has_a_tenth_of_the_side_in_taps_odd(size, taps):
    assert blur_taps(size) == taps


def test_sigmas_are_distributed_as_torchvisions():
    torch.manual_seed(0)  # get_params draws from the global generator
    theirs = torch.tensor([GaussianBlur.get_params(0.1, 2.0) for _ in range(4000)])
    ours = torch.from_numpy(draw_sigmas(4000, (0.1, 2.0), generator()))
    gap = (ours.sort().values - theirs.sort().values).abs().max()
    assert gap < 0.05 * 1.9


def test_solarise_equals_torchvision_on_all_levels():
    levels = torch.arange(256, dtype=torch.uint8).expand(5, 1, 1, 256)
    thresholds = [0, 51, 127.5, 128, 255]
    expected = [TF.solarize(x, t) for x, t in zip(levels, thresholds, strict=True)]
    got = solarise_(levels / 255, torch.tensor(thresholds) / 255)
    expected = torch.stack(expected) / 255
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("side", [1, 4, 7])
def test_cutout_equals_torchvisions_erase_of_the_clipped_square(side):
    images = noise(30, 3, 8, 10) + 0.1
    centres = torch.from_numpy(uniform(generator(), 30, 2))
    expected = []
    for image, (v, u) in zip(images, centres.tolist(), strict=True):
        top, left = int(v * 8) - side // 2, int(u * 10) - side // 2
        rows = range(max(top, 0), min(top + side, 8))
        columns = range(max(left, 0), min(left + side, 10))
        box = (rows.start, columns.start, len(rows), len(columns))
        expected.append(TF.erase(image, *box, torch.zeros(3, 1, 1)))
    assert cutout_(images, centres, side).equal(torch.stack(expected))
