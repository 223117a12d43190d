"""The mean of correlation matrices, and the mean without a client."""

import numpy as np

from furlkit.aggregators.correlations import mean_correlations, without_own


def test_the_mean_by_hand():
    a, b = np.float32([[1, 2], [2, 5]]), np.float32([[3, 0], [0, 1]])
    found = mean_correlations([a, b])
    assert found.dtype == np.float32 and found.tolist() == [[2, 1], [1, 3]]


def test_a_client_that_subtracts_its_matrix_has_the_mean_of_the_others():
    draw = np.random.default_rng(0).standard_normal
    matrices = [draw((4, 4)).astype(np.float32) for _ in range(5)]
    mean = mean_correlations(matrices)
    for k, own in enumerate(matrices):
        others = mean_correlations(matrices[:k] + matrices[k + 1 :])
        np.testing.assert_allclose(without_own(mean, own, 5), others, atol=1e-6)
