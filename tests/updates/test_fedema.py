"""FedEMA: the equations on three numbers, its limits, what it remembers."""

import numpy as np
import pytest

from furlkit.updates.fedema import LAMBDA, distance, fedema


def model(encoder, predictor=0.0, mean=0.0, count=1):
    return {
        "encoder.fc.weight": np.array([encoder], np.float32),
        "projector.fc1.weight": np.array([0.0], np.float32),
        "predictor.fc1.weight": np.array([predictor], np.float32),
        "encoder.bn.running_mean": np.array([mean], np.float32),
        "encoder.bn.num_batches_tracked": np.array(count),
    }


def test_first_round_takes_the_global_model():
    w_g = model(1.0)
    w, memory, decision = fedema(w_g, None, {}, tau=0.7)
    assert w is w_g
    assert memory == {} and decision == (0.0, None) and decision.word == "took"


def test_value_by_hand():
    """lambda = 0.5 / 4; then at a gap of 2 m is 0.25: 0.25 * 1 + 0.75 * 3 = 2.5."""
    w, memory, decision = fedema(model(5.0), model(1.0), {}, tau=0.5)
    assert decision == (0.5, 4.0) and decision.word == "mixed"
    assert float(w["encoder.fc.weight"][0]) == pytest.approx(3.0)  # m = tau
    assert float(memory[LAMBDA]) == pytest.approx(0.125)
    far, near = model(3.0, 8.0, 4.0), model(1.0, 0.0, 0.0)
    w, again, decision = fedema(far, near, memory, tau=0.5)
    assert decision == pytest.approx((0.25, 2.0))
    assert float(w["encoder.fc.weight"][0]) == pytest.approx(2.5)
    assert float(w["predictor.fc1.weight"][0]) == pytest.approx(6.0)
    assert float(w["encoder.bn.running_mean"][0]) == pytest.approx(3.0)
    assert float(again[LAMBDA]) == pytest.approx(0.125)  # set once


def test_matches_the_equation_in_loops():
    rng = np.random.default_rng(0)
    names = ("encoder.a", "encoder.b", "projector.c", "predictor.d")
    w_g, w_k = (
        {name: rng.normal(size=(2, 3)).astype(np.float32) for name in names}
        for _ in range(2)
    )
    memory = {LAMBDA: np.array(0.11)}
    w, _, _ = fedema(w_g, w_k, memory, tau=0.7)
    squares = 0.0
    for name in names[:3]:
        for a, b in zip(w_g[name].ravel(), w_k[name].ravel(), strict=True):
            squares += (float(a) - float(b)) ** 2
    m = min(0.11 * squares**0.5, 1)
    for name in names:
        expected = m * w_k[name] + (1 - m) * w_g[name]
        np.testing.assert_allclose(w[name], expected, rtol=1e-5, atol=1e-6)


def test_limits():
    far, memory = model(100.0), {LAMBDA: np.array(1.0)}
    w, _, decision = fedema(far, model(1.0), memory, tau=0.7)
    assert decision.word == "kept"
    assert float(w["encoder.fc.weight"][0]) == 1.0  # m is at most 1: all of its own
    same, memory, _ = fedema(model(1.0), model(1.0), {}, tau=0.7)
    assert float(same["encoder.fc.weight"][0]) == 1.0
    assert memory == {}  # no distance, no scale yet
    w, _, _ = fedema(model(5.0), model(1.0), {}, tau=0.0)
    assert float(w["encoder.fc.weight"][0]) == 5.0  # tau 0 is FedAvg


def test_distance_leaves_predictor_and_statistics_out_and_types_stay():
    assert distance(model(3.0, 9.0, 9.0), model(1.0)) == pytest.approx(2.0)
    w, _, _ = fedema(model(5.0, count=3), model(1.0, count=7), {}, tau=0.5)
    assert w["encoder.fc.weight"].dtype == np.float32
    assert int(w["encoder.bn.num_batches_tracked"]) == 7
    assert w["encoder.bn.num_batches_tracked"].dtype.kind == "i"
