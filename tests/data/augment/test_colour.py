"""Colour operations against torchvision's on the same float images."""

import itertools

import numpy as np
import pytest
import torch
from torchvision.transforms import ColorJitter
from torchvision.transforms import functional as TF

from furlkit.data.augment.arrange import Operations
from furlkit.data.augment.colour import (
    BRIGHTNESS,
    CONTRAST,
    SATURATION,
    Jitter,
    blend_,
    blend_table,
    blends,
    draw_jitter,
    grey_,
    hue_,
    jitter_keys,
    plan_jitter,
)
from tests.data.augment.noise import generator

# Float32 with another order of operations; values are in [0, 1].
TOLERANCE = 3e-6
TORCHVISION = (
    TF.adjust_brightness,
    TF.adjust_contrast,
    TF.adjust_saturation,
    TF.adjust_hue,
)


def pictures(n, channels=3):
    """Noise, and among it grey, black, white and two-channel ties."""
    images = torch.rand(n, channels, 9, 8, generator=generator(1))
    if channels == 3:
        images[0, 1] = images[0, 0]
        images[1, 2] = images[1, 1]
        images[2, 2] = images[2, 0]
        images[3] = images[3, :1]
        images[4], images[5] = 0, 1
        images[6] = (images[6] * 3).floor() / 3
    return images


def jitter(images, params):
    operations = Operations(np.arange(len(images)))
    every = np.ones(len(images), dtype=bool)
    plan_jitter(operations, params, jitter_keys(params, every), images.shape[1])
    return operations.run(images)


def close(got, expected, tolerance=TOLERANCE):
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", [BRIGHTNESS, CONTRAST, SATURATION])
def test_blend_equals_torchvision(kind, channels):
    images = pictures(16, channels)
    factors = torch.linspace(0, 2.5, 16)
    expected = [
        TORCHVISION[kind](x, f.item()) for x, f in zip(images, factors, strict=True)
    ]
    close(blended(images, kind, factors), torch.stack(expected))


def blended(images, kind, factors):
    table = torch.tensor(blend_table(images.shape[1]))
    kinds = torch.full((len(images),), kind)
    return blend_(images.clone(), blends(kinds, factors, table))


def test_hue_equals_torchvision():
    shifts = torch.linspace(-0.5, 0.5, 21)
    images = pictures(21)
    expected = [TF.adjust_hue(x, s.item()) for x, s in zip(images, shifts, strict=True)]
    close(hue_(images.clone(), shifts), torch.stack(expected))


def test_hue_of_eight_bit_colours_equals_torchvision():
    levels = torch.arange(0, 256, 15) / 255
    cube = torch.cartesian_prod(levels, levels, levels).T.view(3, 18, -1)
    for shift in (-0.5, -0.1, 0.0, 1 / 3, 0.27, 0.5):
        got = hue_(cube[None].clone(), torch.tensor([shift]))[0]
        close(got, TF.adjust_hue(cube, shift))


def test_grey_equals_torchvision():
    images = pictures(8)
    close(grey_(images.clone()), TF.rgb_to_grayscale(images, num_output_channels=3))


def test_saturation_hue_and_grey_leave_grey_images_alone():
    images = pictures(4, channels=1)
    factors = torch.tensor([0.0, 0.5, 1.5, 3.0])
    close(blended(images, SATURATION, factors), images)
    assert hue_(images.clone(), torch.full((4,), 0.3)).equal(images)
    assert grey_(images.clone()).equal(images)


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_equals_torchvision_in_all_orders(channels):
    order = np.array(list(itertools.permutations(range(4))))
    images = pictures(24, channels)
    factors = draw_jitter(24, (0.8, 0.8, 0.8, 0.4), generator()).factors
    expected = []
    for image, operations, f in zip(images, order, factors.tolist(), strict=True):
        for operation in operations.tolist():
            image = TORCHVISION[operation](image, f[operation])
        expected.append(image)
    kept = images.clone()
    # Each of the four steps may amplify the error of the one before.
    close(jitter(images, Jitter(order, factors)), torch.stack(expected), 2e-5)
    assert images.equal(kept)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_jitter_of_few_images_leaves_groups_empty(n):
    params = draw_jitter(n, (0.4, 0.4, 0.4, 0.1), generator())
    assert jitter(pictures(8)[:n], params).shape == (n, 3, 9, 8)


def test_factors_are_distributed_as_torchvisions():
    strengths = (0.4, 1.2, 0.8, 0.1)
    n = 4000
    ours = draw_jitter(n, strengths, generator())
    torch.manual_seed(0)  # get_params draws from the global generator
    module = ColorJitter(*strengths)
    ranges = (module.brightness, module.contrast, module.saturation, module.hue)
    drawn = [ColorJitter.get_params(*ranges) for _ in range(n)]
    theirs = torch.tensor([d[1:] for d in drawn])
    for column, (low, high) in enumerate(ranges):
        mine = torch.from_numpy(ours.factors[:, column]).sort().values
        assert low <= mine[0] and mine[-1] <= high
        gap = (mine - theirs[:, column].sort().values).abs().max()
        assert gap < 0.05 * (high - low)


def test_every_order_is_equally_likely():
    drawn = draw_jitter(24_000, (0.4, 0.4, 0.4, 0.1), generator())
    order = torch.from_numpy(drawn.order)
    assert order.sort(dim=1).values.equal(torch.arange(4).expand(24_000, 4))
    counts = (order @ torch.tensor([64, 16, 4, 1])).unique(return_counts=True)[1]
    assert len(counts) == 24
    assert counts.min() > 850 and counts.max() < 1150  # 1,000 +- 5 deviations
