"""The noisy mean of clipped updates: sensitivity, noise, adaptive clip norm."""

import math

import numpy as np
import pytest

from furlkit.aggregators.private_mean import (
    next_clip,
    noise_of_sum,
    private_mean,
    system_noise,
)

NAMES = ("encoder.w", "encoder.bn.running_mean", "encoder.bn.running_var")


def model(k: int, size: float = 1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    return {
        "encoder.w": rng.normal(size=(5, 3), scale=size).astype(np.float32),
        "encoder.bn.running_mean": rng.normal(size=4, scale=size).astype(np.float32),
        "encoder.bn.running_var": 1 + rng.random(4).astype(np.float32),
        "encoder.bn.num_batches_tracked": np.array(10 + k),
    }


def settings(**changed) -> dict:
    known = {"clip": 1.5, "clip_statistics": None, "noise": 0.0, "cohort": 5}
    return known | changed


def sum_of(combined, models, parent, **changed) -> np.ndarray:
    """The sum of the clipped updates as a vector, statistics in units of the norm."""
    how = settings(**changed)
    found = combined(private_mean, models, None, parent, **how)
    scale = how["clip"] / (how["clip_statistics"] or how["clip"])
    units = (1, scale, scale)
    moves = [
        how["cohort"] * unit * (found[name].astype(float) - parent[name]).ravel()
        for name, unit in zip(NAMES, units, strict=True)
    ]
    return np.concatenate(moves)


@pytest.mark.parametrize("statistics", [None, 4.0])
@pytest.mark.parametrize("size", [0.01, 1.0, 1e6])
def test_an_upload_moves_the_sum_by_at_most_the_clip_norm(combined, statistics, size):
    """Any upload, honest or huge, against the same round without the upload."""
    parent, others = model(99), [model(k) for k in range(4)]
    how = {"clip_statistics": statistics}
    without = sum_of(combined, others, parent, **how)
    for k in (5, 6, 7):
        found = sum_of(combined, [*others, model(k, size)], parent, **how)
        # float32 weights are rounded after the sum.
        assert np.linalg.norm(found - without) <= 1.5 * (1 + 1e-5) + 1e-5


def test_short_updates_give_the_plain_mean_with_counters_of_the_parent(combined):
    parent = model(99)
    models = [
        {
            k: (v + np.float32(0.01) * model(j)[k]).astype(v.dtype)
            for k, v in parent.items()
        }
        for j in range(5)
    ]
    found = combined(private_mean, models, None, parent, **settings(clip=100.0))
    for name in NAMES:
        expected = np.mean([each[name] for each in models], axis=0)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)
        assert found[name].dtype == parent[name].dtype
    counter = "encoder.bn.num_batches_tracked"
    assert found[counter] == parent[counter]


def test_the_divisor_is_the_cohort_not_the_number_of_uploads(combined):
    parent, one = {"w": np.zeros(2)}, {"w": np.array([3.0, 4.0])}
    found = combined(private_mean, [one], None, parent, **settings(clip=10.0))
    np.testing.assert_allclose(found["w"], [0.6, 0.8])
    found = combined(private_mean, [one], None, parent, **settings(clip=1.0))
    np.testing.assert_allclose(found["w"], [0.12, 0.16])


def test_an_update_too_long_to_measure_is_left_out(combined):
    parent = {"w": np.zeros(2)}
    huge = {"w": np.array([1e300, -1e300])}
    found = combined(private_mean, [huge], None, parent, **settings())
    np.testing.assert_array_equal(found["w"], [0, 0])


@pytest.mark.parametrize(("statistics", "factor"), [(None, 1.0), (6.0, 4.0)])
def test_the_noise_has_the_deviation_z_times_c_over_the_cohort(
    combined, statistics, factor
):
    parent = {
        "w": np.zeros(20_000, np.float32),
        "bn.running_mean": np.zeros(20_000, np.float32),
    }
    how = settings(noise=2.0, clip_statistics=statistics)
    found = combined(private_mean, [parent] * 5, None, parent, **how)
    sigma = 2.0 * 1.5 / 5
    for name, scale in (("w", 1.0), ("bn.running_mean", factor)):
        # The deviation of 20,000 numbers is known to 0.5 %. Seven deviations: a test of
        # the system's noise fails once in 10^11 runs.
        assert np.std(found[name]) == pytest.approx(sigma * scale, rel=0.035)
        assert abs(np.mean(found[name])) < 7 * sigma * scale / math.sqrt(20_000)
    both = np.corrcoef(found["w"], found["bn.running_mean"])[0, 1]
    assert abs(both) < 7 / math.sqrt(20_000)


def test_system_noise_is_normal_and_never_the_same():
    from scipy.stats import kstest

    first, second = system_noise(20_001), system_noise(20_001)
    assert len(np.unique(np.concatenate([first, second]))) == 40_002
    for draws in (first, second):
        # Each bound fails once in 10^10 runs.
        assert kstest(draws, "norm").pvalue > 1e-11
        assert 3.2 < np.abs(draws).max() < 8


def test_a_noisy_variance_stays_positive(combined):
    parent = {"bn.running_var": np.ones(1000, np.float32), "w": np.zeros(1)}
    found = combined(private_mean, [parent], None, parent, **settings(noise=50.0))
    assert found["bn.running_var"].min() == np.float32(0.1)


def test_the_clip_norm_follows_the_quantile_of_the_lengths():
    """Andrew et al., Eq. 3, by hand: 3 of 4 updates are not longer than 2."""
    lengths = np.array([0.5, 1.0, 2.0, 9.0])
    how = {"clip": 2.0, "clip_quantile": 0.5, "clip_rate": 0.2, "cohort": 4}
    found = next_clip(lengths, **how, count_noise=0.0)
    assert found == pytest.approx(2.0 * math.exp(-0.2 * (0.75 - 0.5)))
    for _ in range(200):
        how["clip"] = next_clip(lengths, **how, count_noise=0.0)
    assert 0.9 < how["clip"] < 2.1  # Between the second and the third length.


@pytest.mark.parametrize("drawn", [-1e9, 1e9])
def test_a_round_changes_the_clip_norm_by_at_most_e(drawn):
    how = {"clip": 2.0, "clip_quantile": 0.5, "clip_rate": 1e30, "cohort": 4}
    found = next_clip(
        np.ones(3), **how, count_noise=1e30, draw=lambda n: np.full(n, drawn)
    )
    assert found == pytest.approx(2.0 * math.exp(-math.copysign(1, drawn)))


def test_an_upload_moves_the_count_by_half():
    """With a fixed draw, adding a client changes b by 1 / (2 M)."""
    how = {"clip": 2.0, "clip_quantile": 0.5, "clip_rate": 1.0, "cohort": 4}
    lengths = np.array([0.5, 1.0, 9.0])
    before = math.log(next_clip(lengths, **how, count_noise=0.0))
    for added in (1.0, 50.0):
        more = math.log(next_clip(np.append(lengths, added), **how, count_noise=0.0))
        assert abs(more - before) == pytest.approx(0.5 / 4)


def test_sum_and_count_together_cost_the_noise_multiplier():
    assert noise_of_sum(1.3, None) == 1.3
    z = noise_of_sum(1.0, 1.0)
    assert z == pytest.approx(math.sqrt(4 / 3))
    # Gaussians compose by the sum of 1 / z^2; the count has sensitivity 1/2.
    assert z**-2 + (2 * 1.0) ** -2 == pytest.approx(1.0)
    assert noise_of_sum(2.0, 1.0) == math.inf
