import numpy as np
import pytest

from furlkit.aggregators.mean import shares_of
from furlkit.errors import UsageError
from furlkit.weights import is_batchnorm_statistic, weighted_sum


def noise(seed: int, dtype: str, shape=(5, 3)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("clients", [1, 2, 7])
def test_sum_matches_loops_in_float64(dtype, clients):
    arrays = [noise(k, dtype) for k in range(clients)]
    shares = shares_of(range(1, clients + 1))
    found = weighted_sum(arrays, shares)
    assert found.dtype == np.dtype(dtype)
    for row in range(5):
        for column in range(3):
            total = -0.0
            for array, share in zip(arrays, shares, strict=True):
                total += float(array[row, column]) * share
            assert found[row, column] == np.dtype(dtype).type(total)


def test_small_differences_survive_in_float64():
    """In float32 the sum 1 + 2**-24 is 1, and a thousand of them stay 1."""
    arrays = [np.float32([1])] + [np.float32([2**-24])] * 1024
    assert weighted_sum(arrays, [1.0] * 1025)[0] == np.float32(1 + 2**-14)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_sum_of_one_is_identity_to_the_bit(dtype):
    info = np.finfo(dtype)
    array = np.array(
        [0.0, -0.0, info.max, info.min, info.tiny, info.smallest_subnormal, 1 / 3],
        dtype,
    )
    assert weighted_sum([array], [1.0]).tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "?"])
def test_integers_stay_integers_and_the_largest_is_taken(dtype):
    arrays = [np.array(v, dtype) for v in ([1, 0], [0, 1], [1, 0])]
    found = weighted_sum(arrays, [0.5, 0.25, 0.25])
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == [1, 1]


def test_counts_beyond_float_precision_are_exact():
    arrays = [np.array(2**62 + 1), np.array(2**62)]
    assert weighted_sum(arrays, [0.5, 0.5]) == 2**62 + 1


def test_inputs_are_left_alone():
    arrays = [np.ones(2), np.ones(2), np.array([3, 4])]
    weighted_sum(arrays[:2], [0.5, 0.5])
    weighted_sum(arrays[2:], [1.0])[0] = 9
    assert arrays[0].tolist() == [1, 1] and arrays[2].tolist() == [3, 4]


def test_shape_and_emptiness_are_kept():
    assert weighted_sum([np.array(2.0), np.array(4.0)], [0.5, 0.5]) == 3
    assert weighted_sum([np.empty((0, 3), "f4")], [1.0]).shape == (0, 3)


def test_numbers_of_arrays_and_shares_must_agree():
    with pytest.raises(ValueError, match="zip"):
        weighted_sum([np.ones(1)], [0.5, 0.5])
    with pytest.raises(ValueError, match="no arrays to sum"):
        weighted_sum([], [])


def test_mean_is_between_least_and_most():
    arrays = [noise(k, "f4") for k in range(9)]
    found = weighted_sum(arrays, shares_of([3.0, 1, 4, 1, 5, 9, 2, 6, 5]))
    assert np.all(found <= np.max(arrays, axis=0))
    assert np.all(found >= np.min(arrays, axis=0))


def test_shares_are_weights_over_their_sum():
    assert shares_of([1, 3]) == [0.25, 0.75]
    assert shares_of([0, 2]) == [0.0, 1.0]


@pytest.mark.parametrize(
    "weights", [[0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1], [1e308] * 9]
)
def test_weights_that_are_no_shares(weights):
    with pytest.raises(UsageError, match="--weights: .* cannot be shares"):
        shares_of(weights)


@pytest.mark.parametrize("name", ["bn.running_mean", "a.b.running_var", "running_var"])
def test_batchnorm_statistics(name):
    assert is_batchnorm_statistic(name)


@pytest.mark.parametrize("name", ["bn.weight", "running_mean.weight", "xrunning_mean"])
def test_what_is_no_batchnorm_statistic(name):
    assert not is_batchnorm_statistic(name)


def test_batchnorm_of_torch_has_these_names():
    from torch import nn

    names = {n for n in nn.BatchNorm2d(3).state_dict() if is_batchnorm_statistic(n)}
    assert names == {"running_mean", "running_var", "num_batches_tracked"}
