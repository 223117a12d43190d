"""FedAvgM, FedAdam and FedYogi: loops, properties, known values, Flower's strategies."""

import math

import numpy as np
import pytest

from furlkit.aggregators.fedopt import fedadam, fedavgm, fedyogi
from furlkit.aggregators.mean import mean

ADAPTIVE = {"lr": 0.3, "beta_1": 0.8, "beta_2": 0.6, "adaptivity": 0.05}
RULES = {
    "fedavgm": (fedavgm, ("m",), {"lr": 0.7, "momentum": 0.8}),
    "fedadam": (fedadam, ("m", "v"), ADAPTIVE),
    "fedyogi": (fedyogi, ("m", "v"), ADAPTIVE),
}
EXACT = {"lr": 6.0, "beta_1": 0.5, "beta_2": 0.5, "adaptivity": 1.0}
BATCHNORM = "encoder.bn.running_mean"


def model(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    return {"encoder.w": rng.normal(size=(2, 4)), BATCHNORM: rng.normal(size=3),
            "encoder.steps": np.array([k, 7])}  # fmt: skip


def numbers(*values: float) -> dict[str, np.ndarray]:
    return {"w": np.array(values, np.float32)}


def in_loops(name, delta, m, v, lr, beta_1=0.0, beta_2=0.0, adaptivity=0.0, momentum=0):
    """One number: Hsu et al., and lines 10 to 16 of Algorithm 2."""
    if name == "fedavgm":
        m = momentum * m + delta
        return lr * m, m, v
    m = beta_1 * m + (1 - beta_1) * delta
    if name == "fedadam":
        v = beta_2 * v + (1 - beta_2) * delta * delta
    elif v > delta * delta:
        v -= (1 - beta_2) * delta * delta
    elif v < delta * delta:
        v += (1 - beta_2) * delta * delta
    return lr * m / (math.sqrt(v) + adaptivity), m, v


@pytest.mark.parametrize("name", RULES)
def test_three_rounds_match_loops(name, remembered):
    rule, slots, options = RULES[name]
    shares, parent, state = [0.5, 0.3, 0.2], model(99), None
    expected = parent["encoder.w"].ravel().tolist()
    m, v = [0.0] * 8, [options.get("adaptivity", 0.0) ** 2] * 8
    for number in range(3):
        models = [model(3 * number + k) for k in range(3)]
        found, state = remembered(rule, slots, models, parent, state, shares, **options)
        for i in range(8):
            rows = [one["encoder.w"].ravel()[i] for one in models]
            delta = sum(p * w for p, w in zip(shares, rows, strict=True)) - expected[i]
            step, m[i], v[i] = in_loops(name, delta, m[i], v[i], **options)
            expected[i] += step
        np.testing.assert_allclose(found["encoder.w"].ravel(), expected, rtol=1e-12)
        np.testing.assert_allclose(state["m.encoder.w"], m, rtol=1e-12)
        if "v" in slots:
            np.testing.assert_allclose(state["v.encoder.w"], v, rtol=1e-12)
        parent = found


@pytest.mark.parametrize("name", RULES)
def test_statistics_and_counts_are_averaged_and_not_remembered(
    name, remembered, combined
):
    rule, slots, options = RULES[name]
    models = [model(k) for k in range(3)]
    found, state = remembered(rule, slots, models, model(9), **options)
    average = combined(mean, models)
    for tensor in (BATCHNORM, "encoder.steps"):
        assert found[tensor].tolist() == average[tensor].tolist()
    assert set(state) == {f"{slot}.encoder.w" for slot in slots}


@pytest.mark.parametrize("name", RULES)
def test_clients_that_did_not_move_leave_the_model(name, remembered):
    rule, slots, options = RULES[name]
    found, state = remembered(rule, slots, [numbers(1, 2, 3)] * 2, numbers(1, 2, 3),
                              **options)  # fmt: skip
    assert found["w"].tolist() == [1, 2, 3] and found["w"].dtype == np.float32
    assert state["m.w"].tolist() == [0, 0, 0]


def test_fedavgm_without_momentum_is_the_mean(remembered, combined):
    models = [model(k) for k in range(4)]
    options = {"lr": 1.0, "momentum": 0.0}
    found, _ = remembered(fedavgm, ("m",), models, model(9), **options)
    average = combined(mean, models)
    np.testing.assert_allclose(found["encoder.w"], average["encoder.w"], rtol=1e-14)


@pytest.mark.parametrize("rule", [fedadam, fedyogi])
def test_steps_hardly_depend_on_the_length_of_updates(rule, remembered):
    """With a small tau, and beta_1 0, a first step is lr / sqrt(1 - beta_2)."""
    options = {"lr": 0.1, "beta_1": 0.0, "beta_2": 0.75, "adaptivity": 1e-9}
    uploads = [numbers(1e-3, -1, 100)]
    found, _ = remembered(rule, ("m", "v"), uploads, numbers(0, 0, 0), **options)
    np.testing.assert_allclose(found["w"], [0.2, -0.2, 0.2], rtol=1e-5)


def test_fedavgm_of_three_numbers(remembered):
    options, slots = {"lr": 0.5, "momentum": 0.5}, ("m",)
    first = [numbers(2, 2, 0), numbers(4, 2, 8)]
    found, state = remembered(fedavgm, slots, first, numbers(1, 2, 4), **options)
    assert found["w"].tolist() == [2, 2, 4] and state["m.w"].tolist() == [2, 0, 0]
    second = [numbers(4, 2, 8), numbers(4, 2, 4)]
    found, state = remembered(fedavgm, slots, second, found, state, **options)
    assert found["w"].tolist() == [3.5, 2, 5] and state["m.w"].tolist() == [3, 0, 2]


def test_fedadam_of_three_numbers(remembered):
    """v = 0.5 + 0.5 Delta^2, and steps of 6 * 0.5 Delta / (sqrt(v) + 1)."""
    uploads = [numbers(6, 3, 1), numbers(8, -1, -1)]
    found, state = remembered(fedadam, ("m", "v"), uploads, numbers(0, 0, 0), **EXACT)
    assert found["w"].tolist() == [3.5, 1.5, 0]
    assert state["m.w"].tolist() == [3.5, 0.5, 0]
    assert state["v.w"].tolist() == [25, 1, 0.5]


def test_fedyogi_of_three_numbers(remembered):
    """v grows by 0.5 Delta^2 where Delta^2 exceeds 1, and stays where it is 1."""
    uploads = [numbers(4, 3, 1), numbers(4, -1, -1)]
    found, state = remembered(fedyogi, ("m", "v"), uploads, numbers(0, 0, 0), **EXACT)
    assert found["w"].tolist() == [3, 1.5, 0]
    assert state["v.w"].tolist() == [9, 1, 1]


def flowers(name, lr, momentum=0.0, **options):
    """Flower's strategy from a model of zeros: (models, examples, round) -> model."""
    flwr = pytest.importorskip("flwr", reason="flwr is heavy; install it to compare")
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.common import parameters_to_ndarrays as arrays
    from flwr.server import strategy

    start = {"initial_parameters": ndarrays_to_parameters([np.zeros(40)])}
    if name == "fedavgm":
        known = {"server_learning_rate": lr, "server_momentum": momentum}
        one = strategy.FedAvgM(**start, **known)
    else:
        kind = {"fedadam": strategy.FedAdam, "fedyogi": strategy.FedYogi}[name]
        one = kind(**start, eta=lr, tau=options.pop("adaptivity"), **options)
    assert flwr

    def step(models, examples, number):
        sent = [
            (None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters([w]), n, {}))
            for w, n in zip(models, examples, strict=True)
        ]
        return arrays(one.aggregate_fit(number, sent, [])[0])[0]

    return step


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_the_same_as_flower(name, remembered):
    """Flower starts v at 0, and corrects FedAdam's learning rate for the bias."""
    rule, slots, options = RULES[name]
    theirs, rng = flowers(name, **options), np.random.default_rng(5)
    examples, parent = [30, 10, 60], {"w": np.zeros(40)}
    state = {f"{slot}.w": np.zeros(40) for slot in slots}
    for number in range(1, 6):
        models = [{"w": parent["w"] + rng.normal(size=40)} for _ in examples]
        own = dict(options)
        if name == "fedadam":
            decay = [1 - options[b] ** (number + 1) for b in ("beta_2", "beta_1")]
            own["lr"] *= math.sqrt(decay[0]) / decay[1]
        shares = [n / 100 for n in examples]
        expected = theirs([one["w"] for one in models], examples, number)
        parent, state = remembered(rule, slots, models, parent, state, shares, **own)
        np.testing.assert_allclose(parent["w"], expected, rtol=1e-10, atol=1e-12)
