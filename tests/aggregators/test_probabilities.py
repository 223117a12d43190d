import math

import numpy as np
import pytest

from furlkit.aggregators.probabilities import entropy_reduced, mean_probabilities


def random_rows(n=7, classes=4, clients=3):
    rng = np.random.default_rng(0)
    return [rng.dirichlet([0.5] * classes, n).astype("f4") for _ in range(clients)]


def entropy(p):
    return -np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0).sum(axis=1)


def test_it_matches_loops():
    given, T = random_rows(), 0.1
    found = entropy_reduced(mean_probabilities(given), T)
    for i in range(7):
        mean = [sum(float(p[i, c]) for p in given) / 3 for c in range(4)]
        weights = [math.exp(value / T) for value in mean]
        expected = [weight / sum(weights) for weight in weights]
        assert found[i].tolist() == pytest.approx(expected, rel=1e-9)


def test_two_clients_who_disagree_by_hand():
    """Means 3/4 and 1/4 with T = 1/2: exp(3/2) and exp(1/2), so 1 / (1 + 1/e)."""
    p = mean_probabilities([np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])])
    assert p.tolist() == [[0.75, 0.25]]
    sharp = 1 / (1 + math.exp(-1))
    assert entropy_reduced(p, 0.5)[0].tolist() == pytest.approx([sharp, 1 - sharp])


def test_a_small_temperature_reduces_entropy_and_in_the_limit_chooses():
    p = mean_probabilities(random_rows())
    order = [entropy(entropy_reduced(p, T)).mean() for T in (1e-4, 0.05, 0.1, 0.3)]
    assert order == sorted(order) and order[2] < entropy(p).mean()
    assert np.array_equal(entropy_reduced(p, 1e-4).round(), np.eye(4)[p.argmax(axis=1)])


def test_rows_are_probabilities_and_even_ones_stay_even():
    sharp = entropy_reduced(mean_probabilities(random_rows()), 0.1)
    assert np.allclose(sharp.sum(axis=1), 1) and (sharp >= 0).all()
    assert entropy_reduced(np.full((1, 4), 0.25), 0.1).tolist() == [[0.25] * 4]


def test_a_mean_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no clients"):
        mean_probabilities([])
