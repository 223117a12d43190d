"""Epsilon over rounds: numbers of three other accountants, by property, by integration."""

import math

import pytest

from furlkit.aggregators.accountant import (
    Rounds,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    renyi,
    renyi_epsilon,
)

# Noise multiplier, sampling rate, rounds, delta; epsilon by Opacus 1.6.0 (RDPAccountant),
# and the lower and upper bound by prv-accountant 0.2.0 (error 0.01), which is tight.
SETTINGS = [
    (1.1, 0.01, 1000, 1e-5, 1.7117700912203435, 1.5052584, 1.5254727),
    (0.8, 0.1, 100, 1e-6, 13.897411368665754, 12.5206152, 12.5419263),
    (2.0, 0.2, 50, 1e-5, 3.8493652544047365, 3.4778033, 3.4982436),
    (1.0, 1.0, 10, 1e-5, 19.05359753163139, 17.8458709, 17.8673042),
]


@pytest.mark.parametrize(
    ("z", "q", "rounds", "delta", "opacus", "low", "high"), SETTINGS
)
def test_epsilon_is_of_opacus_and_above_the_tight_bound(
    z, q, rounds, delta, opacus, low, high
):
    history = [Rounds(z, q, rounds)]
    assert renyi_epsilon(history, delta) == pytest.approx(opacus, rel=1e-9)
    found = epsilon_of(history, delta)
    if q == 1:
        assert low <= found <= high  # Exact, unlike RDP.
    else:
        assert low <= found == renyi_epsilon(history, delta) <= 1.15 * high


def test_an_example_of_opacus():
    """Its own test: noise 1.5, sampling 0.04, 2,250 steps, between 7.3291 and 7.3292."""
    assert 7.3291 < epsilon_of([Rounds(1.5, 0.04, 2250)], 1e-5) < 7.3292


def test_examples_of_dp_accounting():
    """Its own tests: epsilon 1 at 0.78760074 needs deviation 1/3, or 10/6 25 times."""
    delta = 0.78760074
    assert gaussian_epsilon([Rounds(1 / 3, 1, 1)], delta) == pytest.approx(1, abs=1e-6)
    assert gaussian_epsilon([Rounds(10 / 6, 1, 25)], delta) == pytest.approx(
        1, abs=1e-6
    )


# By dp-accounting 0.6.0: whole orders of RDP, and PLDAccountant for single Gaussians.
@pytest.mark.parametrize(
    ("alpha", "z", "q", "expected"),
    [
        (2, 0.3, 0.1, 6.507419420124387),
        (2, 4, 0.5, 0.01599500979614632),
        (32, 0.3, 0.1, 175.40091574630006),
        (32, 1, 0.01, 11.246275937048072),
        (256, 4, 0.5, 7.304134715465523),
    ],
)
def test_orders_are_of_dp_accounting(alpha, z, q, expected):
    assert renyi(q, z, alpha) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("z", "rounds", "expected"),
    [(0.3, 10, 99.67291862617411), (1, 10, 17.85658683146691), (2, 10, 7.511275904)],
)
def test_rounds_without_sampling_are_exact(z, rounds, expected):
    assert epsilon_of([Rounds(z, 1, rounds)], 1e-5) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("z", "q", "rounds"), [(1.1, 0.01, 1000), (0.7, 0.2, 40)])
def test_dp_accounting_agrees(z, q, rounds):
    """Fractional orders of dp-accounting are upper bounds, a little larger than ours."""
    theirs = pytest.importorskip("dp_accounting", reason="pip install dp-accounting")
    event = theirs.PoissonSampledDpEvent(q, theirs.GaussianDpEvent(z))
    whole = theirs.rdp.RdpAccountant([2, 8, 32]).compose(event)
    for alpha, expected in zip([2, 8, 32], whole._rdp, strict=True):
        assert renyi(q, z, alpha) == pytest.approx(expected, rel=1e-9)
    upper = theirs.rdp.RdpAccountant().compose(event, rounds).get_epsilon(1e-5)
    tight = theirs.pld.PLDAccountant().compose(event, rounds).get_epsilon(1e-5)
    assert tight <= epsilon_of([Rounds(z, q, rounds)], 1e-5) <= upper * (1 + 1e-9)


def test_fractional_orders_match_an_adaptive_integration():
    from scipy.integrate import quad

    for alpha, z, q in ((1.5, 1.0, 0.01), (3.7, 4.0, 0.5), (1.3, 0.8, 0.1)):

        def density(x, alpha=alpha, z=z, q=q):
            ratio = 1 - q + q * math.exp((2 * x - 1) / (2 * z**2))
            normal = math.exp(-(x**2) / (2 * z**2)) / (z * math.sqrt(2 * math.pi))
            return normal * ratio**alpha

        area, _ = quad(density, -15 * z, alpha + 15 * z, epsabs=0, epsrel=1e-12)
        assert renyi(q, z, alpha) == pytest.approx(
            math.log(area) / (alpha - 1), rel=1e-6
        )


def test_epsilon_falls_with_noise_and_delta_and_grows_with_rounds_and_rate():
    def epsilon(z=1.0, q=0.1, rounds=10, delta=1e-5):
        return epsilon_of([Rounds(z, q, rounds)], delta)

    assert epsilon(z=2) < epsilon() < epsilon(z=0.5)
    assert epsilon(delta=1e-3) < epsilon() < epsilon(delta=1e-8)
    assert epsilon(rounds=5) < epsilon() < epsilon(rounds=20)
    assert epsilon(q=0.01) < epsilon() < epsilon(q=1)


def test_rounds_with_different_noise_add_up():
    one = [Rounds(1.0, 0.1, 20)]
    assert epsilon_of([Rounds(1.0, 0.1, 12), Rounds(1.0, 0.1, 8)], 1e-5) == (
        pytest.approx(epsilon_of(one, 1e-5))
    )
    more = [*one, Rounds(3.0, 1.0, 1)]
    assert epsilon_of(one, 1e-5) < epsilon_of(more, 1e-5)


def test_tiny_noise_has_a_finite_epsilon_and_no_noise_none():
    assert epsilon_of([Rounds(0.0, 1, 1)], 1e-5) == math.inf
    tiny = epsilon_of([Rounds(1e-4, 0.5, 10)], 1e-5)
    assert 1e8 < tiny < math.inf
    assert gaussian_delta(2.0, 0.0) == pytest.approx(math.erf(1 / math.sqrt(2)))
