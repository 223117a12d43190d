"""The composition: values without randomness, and what randomness may change."""

import dataclasses

import pytest
import torch
from torchvision.transforms import functional as TF

from furlkit.data.augment import Augmentation, augment, normalise, plain
from furlkit.errors import InputError, UsageError
from tests.data.augment.noise import generator

NOTHING = Augmentation(
    crop_scale=(1, 1), crop_ratio=(1, 1), flip=0, jitter_probability=0, grey=0
)
EVERYTHING = Augmentation(blur=0.5, solarise=0.2, cutout=5, randaugment=(2, 9))


def stored(n=6, side=16, channels=3):
    shape = (n, side, side, channels)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(1))


def unit(images):
    return images.permute(0, 3, 1, 2) / 255


def only(**values):
    return dataclasses.replace(NOTHING, **values)


def close(got, expected, tolerance=3e-6):
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=0)


def test_plain_keeps_the_pixels_of_images_of_the_size():
    close(plain(stored(), 16), unit(stored()), 1e-7)


@pytest.mark.parametrize("size", [7, 16, 40])
def test_plain_resizes_as_torchvision(size):
    images = torch.cat([stored(), stored()], dim=2)  # 16 x 32
    expected = TF.resize(unit(images), [size, size], antialias=True)
    close(plain(images, size), expected)


def test_normalise_equals_torchvision():
    images, mean, std = unit(stored()), (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    close(normalise(images, mean, std), TF.normalize(images, mean, std))


def test_no_operation_equals_plain():
    close(augment(stored(), NOTHING, 16, generator()), plain(stored(), 16), 0)
    close(augment(stored(), NOTHING, 9, generator()), plain(stored(), 9), 0)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (only(flip=1), TF.hflip),
        (only(grey=1), lambda x: TF.rgb_to_grayscale(x, 3)),
        (only(solarise=1), lambda x: TF.solarize(x, 0.5)),
        (
            only(blur=1, blur_sigma=(0.7, 0.7)),
            lambda x: TF.gaussian_blur(x, 3, 0.7),
        ),
        (
            only(grey=1, blur=1, blur_sigma=(0.7, 0.7), flip=1),
            lambda x: TF.gaussian_blur(TF.hflip(TF.rgb_to_grayscale(x, 3)), 3, 0.7),
        ),
    ],
)
def test_certain_operation_equals_torchvision(how, expected):
    close(augment(stored(), how, 16, generator()), expected(unit(stored())))


@pytest.mark.parametrize("name", ["flip", "grey", "solarise", "blur", "jitter"])
def test_probability_is_the_share_of_images_changed(name):
    images = stored(1).expand(2000, -1, -1, -1)
    how = only(jitter_probability=0.3) if name == "jitter" else only(**{name: 0.3})
    got = augment(images, how, 16, generator())
    changed = (got - unit(images[:1])).abs().amax(dim=(1, 2, 3)) > 1e-5
    # Five deviations are 0.05; a blur of the smallest sigmas changes nothing.
    assert 0.24 < changed.float().mean() < 0.35


def test_grey_and_blur_are_chosen_independently():
    images = stored(1).expand(3000, -1, -1, -1)
    how = only(grey=0.4, blur=0.5, blur_sigma=(1, 1))
    got = augment(images, how, 16, generator())
    grey = (got - got.mean(dim=1, keepdim=True)).abs().amax(dim=(1, 2, 3)) < 1e-5
    blurred = got.var(dim=(1, 2, 3)) < torch.where(grey, 0.022, 0.045)
    assert (grey & blurred).float().mean().item() == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 16, 20])
def test_everything_at_once_stays_in_range(channels, size):
    got = augment(stored(40, channels=channels), EVERYTHING, size, generator())
    assert got.shape == (40, channels, size, size) and got.dtype == torch.float32
    assert got.isfinite().all()
    assert got.min() > -1e-6 and got.max() < 1 + 1e-6
    assert got.var() > 0.01


def test_same_generator_same_views_and_input_is_kept():
    images = stored()
    first = augment(images, EVERYTHING, 16, generator(5), views=2)
    assert first.equal(augment(images, EVERYTHING, 16, generator(5), views=2))
    assert not first.equal(augment(images, EVERYTHING, 16, generator(6), views=2))
    assert images.equal(stored())


def test_two_views_are_the_batch_twice_in_order():
    images = torch.arange(0, 250, 50, dtype=torch.uint8).view(5, 1, 1, 1)
    images = images.expand(5, 16, 16, 3)
    got = augment(images, only(crop_scale=(0.2, 1)), 16, generator(), views=2)
    close(got.mean(dim=(1, 2, 3)), torch.arange(0, 250, 50).repeat(2) / 255)


def test_two_views_differ_and_one_view_does_not_repeat():
    images = stored(1).expand(4, -1, -1, -1)
    got = augment(images, Augmentation(), 16, generator(), views=2).flatten(1)
    distance = torch.cdist(got, got) + torch.eye(8)
    assert distance.min() > 0.1


def test_a_weak_view_is_crop_and_flip_alone():
    how = Augmentation(
        (0.3, 0.8), (0.9, 1.1), 0.4, blur=1, solarise=1, cutout=4, randaugment=(3, 20)
    )
    expected = only(crop_scale=(0.3, 0.8), crop_ratio=(0.9, 1.1), flip=0.4)
    images = stored()
    weak = augment(images, how.weak, 16, generator())
    assert torch.equal(weak, augment(images, expected, 16, generator()))
    assert not torch.equal(weak, augment(images, how, 16, generator()))


def test_generator_advances_equally_for_any_image_size():
    small, large = generator(), generator()
    augment(stored(side=8), EVERYTHING, 8, small)
    augment(stored(side=24), EVERYTHING, 12, large)
    assert small.get_state().equal(large.get_state())


def test_same_generator_gives_the_same_colours_whatever_the_size():
    """Constant images, so that only the drawn factors show."""
    how = only(jitter_probability=0.8, grey=0.2)
    colour = torch.tensor([200, 120, 40], dtype=torch.uint8)
    small = augment(colour.expand(50, 8, 8, 3), how, 8, generator())
    large = augment(colour.expand(50, 24, 24, 3), how, 24, generator())
    close(small[:, :, 0, 0], large[:, :, 0, 0], 1e-5)


def test_a_net_learns_from_a_view():
    net = torch.nn.Conv2d(3, 2, 3)
    net(augment(stored(), Augmentation(), 16, generator())).sum().backward()
    assert net.weight.grad.abs().sum() > 0


def test_autocast_changes_nothing():
    expected = augment(stored(), Augmentation(), 16, generator())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert augment(stored(), Augmentation(), 16, generator()).equal(expected)


def test_an_empty_batch_gives_an_empty_view():
    assert augment(stored(0), EVERYTHING, 16, generator(), views=2).shape == (
        0,
        3,
        16,
        16,
    )


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ({"crop_scale": (0.0, 1.0)}, "--crop-scale"),
        ({"crop_scale": (0.5, 0.2)}, "--crop-scale"),
        ({"crop_scale": (0.5, 1.2)}, "--crop-scale"),
        ({"crop_ratio": (2.0, 1.0)}, "--crop-ratio"),
        ({"jitter": (0.4, 0.4, 0.4, 0.6)}, "--jitter"),
        ({"jitter": (-0.4, 0.4, 0.4, 0.1)}, "--jitter"),
        ({"blur_sigma": (0.0, 2.0)}, "--blur-sigma"),
        ({"randaugment": (2, 31)}, "--randaugment"),
        ({"randaugment": (-1, 9)}, "--randaugment"),
    ],
)
def test_wrong_value_names_its_flag_and_the_value(values, flag):
    with pytest.raises(UsageError) as caught:
        Augmentation(**values)
    found = next(iter(values.values()))
    assert str(caught.value).startswith(f"{flag}: found {found}")


def test_float_images_are_refused():
    with pytest.raises(InputError, match=r"torch.float32 \(2, 4, 4, 3\)"):
        plain(torch.zeros(2, 4, 4, 3), 4)
