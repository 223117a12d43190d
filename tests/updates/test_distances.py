"""Distances between models: loops over every number, and what counts as a layer."""

import numpy as np
import pytest

from furlkit.errors import UsageError
from furlkit.updates.distances import mean_conv, relative, sum_squares

SHAPES = {
    "encoder.a.weight": (2, 1, 3, 3),
    "encoder.b.weight": (3, 2, 1, 1),
    "encoder.fc.weight": (4, 3),
    "encoder.conv.bias": (2,),
    "encoder.bn.running_mean": (2,),
}
STATISTIC = "encoder.bn.running_mean"


def model(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {k: rng.normal(size=s).astype(np.float32) for k, s in SHAPES.items()}


def squares(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
        total += (x - y) ** 2
    return total


def test_mean_conv_matches_loops_over_the_weights_of_four_dimensions():
    a, b = model(0), model(1)
    names = ("encoder.a.weight", "encoder.b.weight")
    expected = sum(squares(a[k], b[k]) ** 0.5 for k in names) / 2
    assert mean_conv(a, b) == pytest.approx(expected)


def test_sum_squares_and_relative_match_loops_over_all_weights():
    a, b = model(0), model(1)
    weights = [k for k in SHAPES if k != STATISTIC]
    gap = sum(squares(a[k], b[k]) for k in weights)
    length = sum(squares(a[k], 0 * a[k]) for k in weights)
    assert sum_squares(a, b) == pytest.approx(gap)
    assert relative(a, b) == pytest.approx((gap / length) ** 0.5)


@pytest.mark.parametrize("distance", [mean_conv, sum_squares, relative])
def test_a_model_is_at_distance_0_from_itself_and_statistics_do_not_count(distance):
    a = model(0)
    assert distance(a, {**a, STATISTIC: a[STATISTIC] + 5}) == 0


def test_relative_has_no_unit():
    a, b = model(0), model(1)
    larger = [{k: 8 * v for k, v in each.items()} for each in (a, b)]
    assert relative(*larger) == pytest.approx(relative(a, b))
    zero = {k: 0 * v for k, v in a.items()}
    assert relative(zero, zero) == 0


def test_a_model_without_convolutions_is_refused():
    linear = {"encoder.conv1.weight": np.ones((2, 2))}
    with pytest.raises(UsageError, match="--distance relative"):
        mean_conv(linear, linear)
