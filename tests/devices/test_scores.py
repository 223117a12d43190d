"""Models are scored, embedded and compared on the device, with the CPU's results.

The list of protocols is the catalogue's: a protocol without a case fails here.
"""

import pytest
import torch

from furlkit import catalogue
from furlkit.catalogue import Group
from furlkit.evaluation import clusters, drift, knn, linear, logistic, scores
from tests.device import NAME, device
from tests.devices.conftest import words_of
from tests.exchanged import DATA
from tests.helpers import furlkit

SCORED = (*DATA, "--test-data", "t.npz")
OWN = ("p", "g1", "infused_0", "infused_1", *SCORED)
TUNED = (
    *("--epochs", 1, "--batch-size", 32, "--optimiser", "sgd", "--lr", 0.001),
    *("--hidden", 8),
)
PERSONAL_EPOCHS = ("--epochs", 2, "--probes", 2)
CASES = {
    "linear": [
        ("g1", *SCORED, "--epochs", 3), ("g1", *SCORED, "--solver", "lbfgs"),
    ],
    "knn": [("g1", *SCORED, "--k", 20)],
    "personal": [
        (*OWN, "--solver", "lbfgs"), (*OWN, *PERSONAL_EPOCHS),
        (*OWN, *PERSONAL_EPOCHS, "--generator", "frozen"),
        (*OWN, *PERSONAL_EPOCHS, "--generator", "trained"),
    ],
    "classifier": [("g1", *SCORED)],
    "cluster": [("g1", *SCORED), ("g1", *SCORED, "--kmeans", 5, "--repeats", 2)],
    "semi": [
        ("g1", *SCORED, "--fraction", 0.5, "--mode", "central", *TUNED),
        ("g1", *SCORED, "--fraction", 0.9, "--rounds", 2, "--partition", "p", *TUNED),
    ],
    "finetune": [("g1", *SCORED, "--rounds", 2, "--partition", "p", *TUNED)],
    "transfer": [("g1", *SCORED, "--image-size", 12, *TUNED)],
    "angles": [("c_0", "c_1", *DATA)],
    "drift": [("c_0", "c_1", *DATA, "--images", 100)],
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_penalty(monkeypatch):
    """The strongest penalty alone, which takes the fewest steps of L-BFGS."""
    monkeypatch.setattr(logistic, "L2", (1.0,))


def has_device(protocol):
    """Whether a protocol computes: neighbours and negatives only count labels."""
    groups = [group for group in protocol.groups if isinstance(group, Group)]
    return any(option.name == "device" for group in groups for option in group.options)


def protocols():
    names = [k for k, p in catalogue.PROTOCOLS.items() if has_device(p)]
    for name in names:
        # A protocol that is new to the catalogue fails in the test, by its name.
        for place, words in enumerate(CASES.get(name, [()])):
            # L-BFGS takes hundreds of steps for each client.
            slow = name == "personal" and "lbfgs" in words
            marks = [pytest.mark.slow] * slow
            yield pytest.param(name, place, id=f"{name}{place}", marks=marks)


@pytest.mark.parametrize(("name", "case"), list(protocols()))
def test_a_protocol_gives_the_same_scores_on_the_device(both, name, case):
    words = words_of(CASES, name, "this protocol")[case]
    counter = both("evaluate", name, *words, "-o", "OUT/score.json")
    assert not counter.reads, "a training step waited"


COMPARED = ("linear", "knn", "personal", "cluster", "classifier", "angles", "drift")


@pytest.mark.parametrize("name", COMPARED)
def test_features_are_compared_on_the_device(both, monkeypatch, name):
    """Not only the network: every computation with features that are scored."""
    used = []
    for module in (clusters, knn, linear, logistic, drift, scores):
        check = module.check_features
        noted = lambda x, check=check: (used.append(x.device.type), check(x))  # noqa: E731
        monkeypatch.setattr(module, "check_features", noted)
    both("evaluate", name, *CASES[name][-1], "-o", "OUT/score.json")
    assert sorted(set(used)) == ["cpu", NAME]
    assert used.count("cpu") == used.count(NAME)


@pytest.mark.parametrize("count", [1, 4, 30])
def test_k_means_on_the_device_finds_the_centroids_of_scikit_learn(here, count):
    h = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    expected = clusters.kmeans(h, count, 7)
    found = clusters.kmeans(h.to(device()), count, 7)
    assert found.device == device()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


SHARED = [
    ("c_0", "--layer", "h"), ("c_0", "--layer", "z"), ("c_0", "--share", "probabilities"),
    ("c_0", "--similarity"), ("c_0", "--similarity", "--top", 20),
    ("g1", "--personal", "infused_0"), ("g1", "--personal", "infused_0", "--style"),
]  # fmt: skip


@pytest.mark.parametrize("words", SHARED, ids=lambda words: "".join(map(str, words)))
def test_images_are_embedded_on_the_device(both, words):
    both("embed", *words, *DATA, "-o", "OUT/rows")


def test_neighbours_are_found_on_the_device(both):
    both("neighbours", "g1", *DATA, "--nearest", 3, "-o", "OUT/neighbours")


KNOWN = ("--model", "c_0", "--candidates", "d.npz", "--partition", "p", "--k", 5)
AUDITS = {
    "membership": [
        ("c_0", "--members", "d.npz", "--others", "t.npz", "--parent", "g0")
    ],
    "rows": [("r_0", *KNOWN)],
    "classes": [
        ("c_0", "c_1", "--public", "t.npz"),
        ("r_0", "r_1", "--public", "t.npz", "--model", "c_0", "--model", "c_1"),
        ("top_0", "top_1", "--public", "d.npz"),
    ],
    "inversion": [("r_0", *KNOWN, "--public", "t.npz", "--epochs", 1)],
}


@pytest.mark.parametrize("name", catalogue.AUDITS)
def test_an_audit_runs_on_the_device(round_of_files, here, tmp_path, name):
    """Crops differ in rounding, so ranks and curves may differ from the CPU's."""
    for place, words in enumerate(AUDITS[name]):
        output = tmp_path / f"{name}{place}.json"
        assert furlkit("audit", name, *words, "--device", NAME, "-o", output) == 0
