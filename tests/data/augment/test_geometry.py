"""Crops and flips against torchvision's."""

import pytest
import torch
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms import functional as TF

from furlkit.data.augment.geometry import draw_crops, flip, resized_crop
from tests.data.augment.noise import generator, noise

# Both sides interpolate in float32, in another order of operations.
TOLERANCE = 2e-6


def torchvision_crops(images, boxes, flips, size, antialias):
    crops = []
    for image, box, mirror in zip(images, boxes, flips, strict=True):
        place = box.tolist()
        crop = TF.resized_crop(image, *place, [size, size], antialias=antialias)
        crops.append(crop.flip(2) if mirror else crop)
    return torch.stack(crops)


def drawn_boxes(n, sides, scale):
    boxes = draw_crops(n, sides, scale, (3 / 4, 4 / 3), generator())
    return torch.from_numpy(boxes).long()


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("sides", [(32, 32), (20, 28)])
@pytest.mark.parametrize("channels", [1, 3])
def test_enlarged_crops_equal_torchvision_with_and_without_antialiasing(
    antialias, sides, channels
):
    images = noise(24, channels, *sides)
    boxes = drawn_boxes(24, sides, (0.1, 1.0))
    flips = torch.arange(24) % 2 == 0
    expected = torchvision_crops(images, boxes, flips, 32, antialias)
    got = resized_crop(images, torch.arange(24), boxes, flips, 32)
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("sides", [(64, 64), (33, 90), (16, 50)])
def test_reduced_crops_equal_torchvision_with_antialiasing(sides):
    images = noise(24, 3, *sides)
    boxes = drawn_boxes(24, sides, (0.05, 1.0))
    flips = torch.arange(24) % 3 == 0
    expected = torchvision_crops(images, boxes, flips, 24, antialias=True)
    got = resized_crop(images, torch.arange(24), boxes, flips, 24)
    # Places are counted from the image's edge: near pixel 90 they are exact to 4e-6.
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


def test_a_crop_sees_nothing_outside_its_box():
    images = torch.ones(1, 1, 8, 8)
    images[:, :, 2:6, 2:6] = 0.5
    who, box = torch.tensor([0]), torch.tensor([[2, 2, 4, 4]])
    crop = resized_crop(images, who, box, torch.tensor([False]), 16)
    torch.testing.assert_close(crop, torch.full_like(crop, 0.5))


@pytest.mark.parametrize(
    ("sides", "scale"),
    [((32, 32), (0.2, 1.0)), ((32, 32), (0.9, 1.0)), ((20, 60), (0.5, 1.0))],
)
def test_boxes_are_distributed_as_torchvisions(sides, scale):
    n, ratio = 3000, (3 / 4, 4 / 3)
    ours = drawn_boxes(n, sides, scale).double()
    torch.manual_seed(0)  # get_params draws from the global generator
    blank = torch.zeros(3, *sides)
    theirs = [RandomResizedCrop.get_params(blank, scale, ratio) for _ in range(n)]
    theirs = torch.tensor(theirs, dtype=torch.double)
    for column in range(4):
        assert largest_gap(ours[:, column], theirs[:, column]) < 0.05
    areas = [boxes[:, 2] * boxes[:, 3] for boxes in (ours, theirs)]
    assert largest_gap(*areas) < 0.05
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, :2] + ours[:, 2:] <= torch.tensor(sides)).all()


def largest_gap(a, b):
    """Kolmogorov-Smirnov distance; above 0.05 for 3,000 and 3,000 has p < 0.002."""
    values = torch.cat([a, b]).unique()
    below = [torch.searchsorted(x.sort().values, values, right=True) for x in (a, b)]
    return (below[0] - below[1]).abs().max().item() / len(a)


def test_box_that_cannot_fit_falls_back_to_the_centre():
    boxes = draw_crops(4, (10, 40), (1.0, 1.0), (1.0, 1.0), generator())
    blank = torch.zeros(3, 10, 40)
    expected = RandomResizedCrop.get_params(blank, (1.0, 1.0), (1.0, 1.0))
    assert boxes.tolist() == [list(expected)] * 4 == [[0, 15, 10, 10]] * 4


def test_boxes_scale_with_the_image_for_the_same_generator():
    small, large = generator(), generator()
    # At most half the area: then every first shape fits, however it is rounded.
    few = draw_crops(500, (32, 32), (0.2, 0.5), (3 / 4, 4 / 3), small)
    many = draw_crops(500, (320, 320), (0.2, 0.5), (3 / 4, 4 / 3), large)
    assert small.get_state().equal(large.get_state())
    difference = abs(many / 10 - few).max(axis=0)
    assert (difference[:2] < 2.5).all()  # The rest of a side is rounded twice.
    assert (difference[2:] <= 0.55).all()


def test_flip_mirrors_the_chosen_images():
    images = noise(3, 3, 4, 5)
    got = flip(images, torch.tensor([True, False, True]))
    expected = torch.stack([images[0].flip(2), images[1], images[2].flip(2)])
    assert got.equal(expected)
