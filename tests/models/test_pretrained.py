"""Weights of other networks, made to fit."""

import numpy as np
import pytest
import torch

from furlkit.models.pretrained import _fitted_positions, _fitted_stem


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_grey_images_answer_as_equal_channels_do():
    colour, grey = drawn(4, 3, 3, 3), drawn(2, 1, 6, 6)
    weight, changes = _fitted_stem(colour, (4, 1, 3, 3))
    assert changes == ["from 3 to 1 channels"]
    found = torch.conv2d(torch.from_numpy(grey), torch.from_numpy(weight))
    three = torch.from_numpy(np.repeat(grey, 3, axis=1))
    torch.testing.assert_close(found, torch.conv2d(three, torch.from_numpy(colour)))


def test_colour_filters_of_grey_ones_answer_grey_images_alike():
    grey = drawn(4, 1, 3, 3)
    weight, changes = _fitted_stem(grey, (4, 3, 3, 3))
    assert changes == ["from 1 to 3 channels"] and weight.dtype == np.float32
    np.testing.assert_allclose(weight.sum(axis=1, keepdims=True), grey, rtol=1e-6)


def test_a_smaller_stem_answers_flat_surfaces_as_before():
    weight, changes = _fitted_stem(np.ones((2, 3, 7, 7), np.float32), (2, 1, 3, 3))
    assert changes[1].startswith("from 7 x 7 to 3 x 3")
    # 3 channels summed, 49 ones spread over 9.
    np.testing.assert_allclose(weight, np.full((2, 1, 3, 3), 3 * 49 / 9), rtol=1e-6)


@pytest.mark.parametrize("p, old, new", [(0, 4, 2), (1, 14, 2), (2, 3, 7)])
def test_positions_are_resampled_as_timm_does_it(p, old, new):
    layers = pytest.importorskip("timm.layers")
    positions = drawn(1, p + old * old, 5)
    found, changes = _fitted_positions(positions, (1, p + new * new, 5))
    expected = layers.resample_abs_pos_embed(
        torch.from_numpy(positions), [new, new], num_prefix_tokens=p
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6, atol=1e-6)
    assert changes == [f"from {old} x {old} to {new} x {new} positions (--image-size)"]


@pytest.mark.parametrize("shape", [(1, 5, 6), (1, 7, 4), (5, 4)])
def test_positions_that_are_no_square_of_the_same_width_stay(shape):
    positions = drawn(1, 17, 4)
    found, changes = _fitted_positions(positions, shape)
    assert found is positions and changes == []
