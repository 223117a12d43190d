"""Sobel against loops, scikit-image's filter and images with known edges."""

import math

import numpy as np
import pytest
import torch
from skimage import filters

from furlkit.data.augment import Augmentation, normalise, plain, sobel
from furlkit.data.batches import Images, View
from tests.data.augment.noise import noise

X = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))
Y = tuple(zip(*X, strict=True))


def in_loops(image):
    """One image (C, H, W), pixel by pixel."""
    channels, height, width = image.shape
    edges = [[0.0] * width for _ in range(height)]
    for i in range(height):
        for j in range(width):
            g = [0.0, 0.0]
            for a in range(3):
                for b in range(3):
                    row = min(max(i + a - 1, 0), height - 1)
                    column = min(max(j + b - 1, 0), width - 1)
                    grey = sum(float(c[row, column]) for c in image) / channels
                    for axis, kernel in enumerate((X, Y)):
                        g[axis] += kernel[a][b] * grey
            edges[i][j] = math.hypot(*g)
    low, high = min(map(min, edges)), max(map(max, edges))
    return [[(value - low) / (high - low) for value in row] for row in edges]


@pytest.mark.parametrize("channels", [1, 3])
def test_it_matches_loops_in_every_channel(channels):
    images = noise(2, channels, 6, 9).double()
    found = sobel(images)
    assert found.shape == images.shape
    for image, edges in zip(images, found, strict=True):
        expected = torch.tensor(in_loops(image), dtype=torch.float64)
        torch.testing.assert_close(edges, expected.expand_as(edges))


def test_it_is_scikit_images_filter_scaled():
    grey = noise(4, 1, 12, 7).double()
    for image, edges in zip(grey[:, 0].numpy(), sobel(grey)[:, 0].numpy(), strict=True):
        m = filters.sobel(image)
        expected = (m - m.min()) / (m.max() - m.min())
        np.testing.assert_allclose(edges, expected, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 0.7, 1.0])
def test_a_constant_image_has_no_edges(value):
    colours = torch.tensor([value, value / 2, 0.3]).view(1, 3, 1, 1)
    for image in (torch.full((2, 1, 8, 8), value), colours.expand(2, 3, 8, 8)):
        assert sobel(image).eq(0).all()
        # Beside an image that has edges, too.
        both = torch.cat([image, noise(1, image.shape[1], 8, 8)])
        assert sobel(both)[0].eq(0).all() and sobel(both)[2].max() == 1


def test_an_edge_by_hand():
    """Black at the left, white at the right: 4 on both sides of the edge, else 0."""
    image = torch.zeros(1, 1, 5, 6)
    image[..., 3:] = 1
    expected = torch.tensor([0.0, 0, 1, 1, 0, 0]).expand(1, 1, 5, 6)
    assert sobel(image).equal(expected)


def test_contrast_and_brightness_do_not_matter_and_turns_turn_the_edges():
    images = noise(3, 3, 9, 9).double()
    found = sobel(images)
    torch.testing.assert_close(sobel(0.2 * images + 0.5), found)
    torch.testing.assert_close(sobel(1 - images), found)
    torch.testing.assert_close(sobel(images.rot90(1, (2, 3))), found.rot90(1, (2, 3)))
    assert found.amin((1, 2, 3)).eq(0).all() and found.amax((1, 2, 3)).eq(1).all()


def test_a_batch_gives_the_edges_of_its_images_normalised_as_they_are():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 10, 10, 1), np.uint8)
    view = View(Augmentation(), 8, 3, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1), True)
    images = Images(pixels, None, np.arange(5), view, torch.device("cpu"))
    rng = torch.Generator().manual_seed(0)
    state = rng.get_state()
    batch = images.batch(torch.tensor([3, 1]), rng)
    x = plain(torch.from_numpy(pixels[[3, 1]]).expand(-1, -1, -1, 3), 8)
    torch.testing.assert_close(batch.edges(), normalise(sobel(x), view.mean, view.std))
    assert batch.edges().is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(rng.get_state(), state)
