"""FedU2's aggregator: against a search, by property, by hand."""

import numpy as np
import pytest

from furlkit.aggregators.eua import (
    coefficients,
    eua,
    least_norm_weights,
    update_products,
)

MEAN = {"length": "mean", "lr": 1.0}


def updates(m=4, n=6, seed=0):
    return np.random.default_rng(seed).standard_normal((m, n))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def models(rows, parent):
    return [{"w": (parent["w"] + row).astype(np.float32)} for row in rows]


def test_weights_match_a_search_on_the_simplex():
    d = unit(updates(3))
    grid = [(i / 200, j / 200) for i in range(201) for j in range(201 - i)]
    weights = np.array([(a, b, 1 - a - b) for a, b in grid])
    best = weights[np.argmin(np.linalg.norm(weights @ d, axis=1))]
    assert least_norm_weights(d @ d.T) == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_the_direction_helps_every_client_and_active_clients_equally(seed):
    d = unit(updates(seed=seed))
    weights = least_norm_weights(d @ d.T)
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
    step = weights @ d
    rates = d @ step
    assert rates.min() >= step @ step - 1e-9
    assert rates[weights > 1e-9] == pytest.approx(step @ step)


def test_known_weights():
    assert least_norm_weights(np.eye(4)) == pytest.approx(0.25)
    # A third vector between two others is not needed.
    d = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert least_norm_weights(d @ d.T) == pytest.approx([0.5, 0.5, 0])


def test_a_long_update_and_copies_do_not_decide():
    """Two copies of a client weigh as the client; ten times the length changes nothing."""
    a, b = np.eye(2)
    G = np.array([a, a, 10 * b])
    found = coefficients(G @ G.T, "code", 0.5) @ G
    assert found == pytest.approx([0.5, 0.5])  # eta 2 sum lambda_k d_k


def test_products_of_updates_do_not_depend_on_the_origin():
    rows, parent = updates(), updates(1, seed=9)[0]
    every = np.vstack([parent, parent + rows]) - 3.0
    assert update_products(every @ every.T) == pytest.approx(rows @ rows.T)


def test_the_mean_length_is_a_weighted_mean_of_the_models(combined):
    parent = {"w": np.zeros(6, np.float32)}
    rows = updates()
    found = combined(eua, models(rows, parent), parent=parent, **MEAN)["w"]
    lengths = np.linalg.norm(rows, axis=1)
    a = least_norm_weights(unit(rows) @ unit(rows).T) / lengths
    assert found == pytest.approx((a / a.sum()) @ rows, abs=1e-5)


def test_equal_models_are_the_result_and_unmoved_clients_are_left_out(combined):
    parent = {"w": np.ones(6, np.float32)}
    one = models(updates(1), parent)
    found = combined(eua, one * 3, parent=parent, **MEAN)["w"]
    assert found == pytest.approx(one[0]["w"], abs=1e-6)
    found = combined(eua, [*one, parent], parent=parent, **MEAN)["w"]
    assert found == pytest.approx(one[0]["w"], abs=1e-6)
    assert combined(eua, [parent, parent], parent=parent, **MEAN)["w"] == pytest.approx(
        1
    )


def test_statistics_are_averaged_by_shares(combined):
    parent = {"a.running_mean": np.zeros(1, np.float32), "w": np.zeros(2, np.float32)}
    two = [
        {"a.running_mean": np.full(1, v, np.float32), "w": np.ones(2, np.float32)}
        for v in (1.0, 5.0)
    ]
    found = combined(eua, two, shares=(0.75, 0.25), parent=parent, **MEAN)
    assert found["a.running_mean"] == pytest.approx(2.0)
