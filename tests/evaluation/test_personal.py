"""Scores of many clients, by hand."""

import pytest

from furlkit.evaluation.personal import over_clients, over_probes, worst_tenth


@pytest.mark.parametrize(
    "clients, lowest", [(1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (30, 3), (101, 11)]
)
def test_the_worst_tenth_is_rounded_up(clients, lowest):
    scores = [k / clients for k in range(clients)][::-1]
    expected = sum(range(lowest)) / lowest / clients
    assert worst_tenth(scores) == pytest.approx(expected)


def test_mean_and_deviation_between_clients():
    assert over_clients([0.5, 0.75, 1.0]) == {
        "accuracy": 0.75, "clients_std": 0.25, "worst_tenth_accuracy": 0.5,
    }  # fmt: skip
    assert over_clients([0.5])["clients_std"] == 0


def test_the_deviation_of_probes_is_that_of_their_means_over_clients():
    found = over_probes([[0.5, 0.75], [0.25, 0.75]])
    assert found["probes"] == [0.375, 0.75]
    assert found["accuracy_std"] == pytest.approx(0.375 / 2**0.5)
    assert over_probes([[0.5], [0.25]]) == {}
