"""Measures of a batch for the journal."""

import math

import pytest
import torch

from furlkit.evaluation.collapse import rankme
from furlkit.evaluation.drift import alignment, uniformity
from furlkit.evaluation.quality import quality


def gaussian(n, d):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def test_two_views_have_three_measures():
    z = gaussian(8, 3)
    found = quality(z, pairs=True)
    assert found == {
        "rankme": rankme(z),
        "uniformity": pytest.approx((uniformity(z[:4]) + uniformity(z[4:])) / 2),
        "alignment": alignment(z[:4], z[4:]),
    }


def test_one_view_has_no_alignment():
    z = gaussian(8, 3)
    assert quality(z, pairs=False) == {"rankme": rankme(z), "uniformity": uniformity(z)}


def test_measures_that_rows_do_not_allow_are_left_out():
    assert quality(gaussian(4, 3) * math.inf, pairs=True) == {}
    assert quality(gaussian(2, 3), pairs=True).keys() == {"rankme", "alignment"}
    assert quality(gaussian(1, 3), pairs=False).keys() == {"rankme"}
