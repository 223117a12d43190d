"""The recipe of differential privacy: cohort, noise of simulated clients, equal terms."""

import tomllib
from itertools import pairwise

import pytest

from tests.examples.conftest import EXAMPLES, of

RECIPE = EXAMPLES / "privacy" / "noise.toml"


def options(step: dict) -> dict[str, str]:
    return dict(pairwise(step["command"]))


@pytest.mark.parametrize("clients", [20, 100])
def test_the_cohort_is_the_number_of_clients_and_terms_are_equal(plan, clients):
    steps = plan(RECIPE, f"table={clients}", "seed=0")
    noisy = [options(s) for s in of(steps, "average") if "--noise" in s["command"]]
    assert {found["--cohort"] for found in noisy} == {str(clients)}
    assert {found["--noise"] for found in noisy} == {"1e-6", "0.3", "1", "2"}
    assert {found["--delta"] for found in noisy} == {"1e-05"}
    assert len(noisy) == 4 * 10
    terms = [options(step) for step in of(steps, "train")]
    for name in ("--epochs", "--lr", "--batch-size"):
        assert len({found[name] for found in terms}) == 1


def test_simulated_noise_is_z_times_20_over_n():
    lines = tomllib.loads(RECIPE.read_text())["table"]["simulated"]["lines"]
    simulated = {k: v for k, v in lines.items() if "clients" in k}
    assert len(simulated) == 6
    for label, text in simulated.items():
        number, z = label.split(" clients, noise ")
        expected = float(z) * 20 / int(number.replace(",", ""))
        assert float(text.partition("noise=")[2]) == pytest.approx(expected)


def test_labels_fit_series():
    """compare --series LABEL=FILE ends a label at the first =."""
    found = tomllib.loads(RECIPE.read_text())
    labels = {*found["lines"]["noise"], *found["table"]["simulated"]["lines"]}
    assert len(labels) == 12 and not any("=" in label for label in labels)
