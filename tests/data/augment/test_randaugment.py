"""RandAugment's operations against torchvision's."""

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode, RandAugment
from torchvision.transforms.autoaugment import _apply_op

from furlkit.data.augment.arrange import Operations
from furlkit.data.augment.randaugment import (
    KINDS,
    Draws,
    draw_randaugment,
    operate_,
    plan_randaugment,
)
from tests.data.augment.noise import generator

NAMES = {
    "identity": "Identity",
    "shear-x": "ShearX",
    "shear-y": "ShearY",
    "translate-x": "TranslateX",
    "translate-y": "TranslateY",
    "rotate": "Rotate",
    "brightness": "Brightness",
    "saturation": "Color",
    "contrast": "Contrast",
    "sharpness": "Sharpness",
    "posterise": "Posterize",
    "solarise": "Solarize",
    "autocontrast": "AutoContrast",
    "equalise": "Equalize",
}
THEIRS = tuple(RandAugment()._augmentation_space(31, (32, 32)))
MAGNITUDES = range(0, 31, 3)
LEVELS_ONLY = ("posterise", "equalise", "solarise")


def pictures(channels, n=11, side=32):
    """uint8 images with smooth parts, where interpolation and histograms matter."""
    shape = (n, channels, side, side)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(1))
    images[:, :, : side // 2] //= 3
    images[0] = 77
    return images


def torchvision_operation(image, kind, magnitude, sign):
    name = NAMES[kind]
    space = RandAugment()._augmentation_space(31, image.shape[1:])
    magnitudes, signed = space[name]
    strength = float(magnitudes[magnitude]) if magnitudes.ndim else 0.0
    strength *= sign if signed else 1
    return _apply_op(image, name, strength, InterpolationMode.NEAREST, None)


def test_the_list_is_torchvisions():
    assert tuple(NAMES[kind] for kind in KINDS) == THEIRS


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_operation_equals_torchvision(kind, sign, channels):
    images = pictures(channels)
    floats = images / 255
    # torchvision has some operations for uint8 alone; the others run on floats.
    source = images if kind in LEVELS_ONLY else floats
    expected = [
        torchvision_operation(x, kind, m, sign)
        for x, m in zip(source, MAGNITUDES, strict=True)
    ]
    expected = torch.stack(expected).float()
    expected = expected / 255 if kind in LEVELS_ONLY else expected
    got = operate_(floats.clone(), sign * torch.tensor(list(MAGNITUDES)) / 30, kind)
    differs = (got - expected).abs() > 3e-6
    # A pixel that lies between two others by rounding may be taken from either.
    allowed = 0.0005 if kind in KINDS[1:6] else 0
    assert differs.float().mean() <= allowed


def randaugment(images, draws, magnitude):
    operations = Operations(np.arange(len(images)))
    plan_randaugment(operations, draws, magnitude)
    return operations.run(images)


def test_each_image_gets_its_own_operations_in_turn():
    images = pictures(3, n=60) / 255
    draws = draw_randaugment(60, 2, generator())
    expected = []
    for image, kinds, signs in zip(images, *draws, strict=True):
        one = image[None].clone()
        for kind, sign in zip(kinds, signs.tolist(), strict=True):
            operate_(one, torch.tensor([sign * 9 / 30]), KINDS[kind])
        expected.append(one[0])
    kept = images.clone()
    got = randaugment(images, draws, 9)
    torch.testing.assert_close(got, torch.stack(expected), atol=1e-6, rtol=0)
    assert images.equal(kept)


def test_identity_for_all_changes_nothing():
    images = pictures(3) / 255
    none = np.zeros((11, 2), np.int64)
    assert randaugment(images, Draws(none, none + 1), 30).equal(images)


def test_operations_and_signs_are_equally_likely():
    kinds, signs = draw_randaugment(14_000, 2, generator())
    counts = np.bincount(kinds.flatten(), minlength=14)
    assert counts.min() > 1780 and counts.max() < 2220  # 2,000 +- 5 deviations
    assert (signs == 1).mean() == pytest.approx(0.5, abs=0.015)
    assert (abs(signs) == 1).all()
