"""The function of every rule, teacher and protocol in the catalogue is called.

Each test replaces the function of one entry and sees the new function in a command.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.errors import FurlkitError
from furlkit.files.declared import SharedFacts, write_result
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from tests.helpers import furlkit, round_0, write_alone

NET = (
    *("--width", 0.02, "--projector", "8,4", "--predictor", "8,4"),
    *("--head", "predictor", "--head", "classifier", "--classes", 10),
)
DIGITS = ("--data", "digits")
MODELS = ("u0.st", "u1.st")
ROWS = ("f0.st", "f1.st")
RULES = {
    **{name: (*MODELS, "--parent", "g.st") for name, rule in catalogue.RULES.items()
       if rule.reads == "checkpoint"},
    "krum": (*MODELS, "--assumed-hostile", 0),
    "dictionary": ROWS,
    "centroids": ("z0.st", "z1.st", "--centroids", 1),
    "correlations": ("r0.st", "r1.st"),
    "masked-sum": ("m0.st", "--parent", "g.st"),
    "kernels": ("h0.st", "h1.st"),
    "ensemble": ("h0.st", "h1.st", "--matrix"),
    "probabilities": ("c0.st", "c1.st"),
}  # fmt: skip
TEACHERS = {
    "ensemble": ("h.st", "g.st", "--anchors", 32),
    "self": ("g.st",),
    "probabilities": ("c.st", "g.st"),
    "labels": ("g.st",),
    "contrast": ("g.st",),
    "models": (*MODELS, "g.st"),
    "anchor": ("g.st", "u0.st"),
}
FEW = ("--epochs", 1)
PROTOCOLS = {
    "linear": ("g.st", *DIGITS, *FEW),
    "knn": ("g.st", *DIGITS),
    "personal": ("p.st", "g.st", *DIGITS, *FEW),
    "classifier": ("g.st", *DIGITS),
    "cluster": ("g.st", *DIGITS, "--kmeans", 3),
    "semi": ("g.st", *DIGITS, "--partition", "p.st", "--fraction", 0.5, *FEW),
    "finetune": ("g.st", *DIGITS, "--partition", "p.st"),
    "transfer": ("g.st", *DIGITS),
    "angles": (*MODELS, *DIGITS, "--split", "test"),
    "drift": (*MODELS, *DIGITS, "--split", "test"),
    "neighbours": ("n.st", *DIGITS),
    "negatives": ("p.st",),
}


CANDIDATES = ("--model", "u0.st", "--candidates", "digits", "--partition", "p.st")
AUDITS = {
    "membership": ("u0.st", "--members", "digits", "--images", 20),
    "rows": ("f0.st", *CANDIDATES),
    "classes": (*MODELS, "--public", "digits", "--images", 50),
    "inversion": ("f0.st", *CANDIDATES, "--public", "digits", *FEW),
}
MARK = "the other function"


def other(*_given, **_options):
    raise FurlkitError(MARK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One round of two clients, with all that they can share."""
    patch, folder = pytest.MonkeyPatch(), tmp_path_factory.mktemp("entries")
    patch.chdir(folder)
    round_0(folder, ("--clients", 2, "--public-fraction", 0.2), NET)
    train = ("local-train", "p.st", "g.st", *DIGITS, "--client", "0-1", "--epochs", 1)
    shared = ("--features-out", "f{client}.st", "--private-out", "k{client}.st")
    assert furlkit(*train, *shared, "-o", "u{client}.st") == 0
    public = (*DIGITS, "--partition", "p.st", "--part", "public")
    for k in (0, 1):
        for name, more in {"h": (), "c": ("--share", "probabilities")}.items():
            assert (
                furlkit("embed", f"u{k}.st", *public, *more, "-o", f"{name}{k}.st") == 0
            )
    for name, rule in {"h": "ensemble", "c": "probabilities"}.items():
        uploads = (f"{name}0.st", f"{name}1.st")
        assert furlkit("aggregate", "--rule", rule, *uploads, "-o", f"{name}.st") == 0
    for k in (0, 1):
        facts = FeatureFacts("z", {}, str(k), client=k, round=1)
        how = (np.arange(1), facts, Provenance("local-train"))
        rows = np.ones((1, 2), np.float32)
        write_features(folder / f"z{k}.st", rows, *how, counts=np.ones(1))
        whose = (SharedFacts(1, k), Provenance("local-train"))
        write_result(folder / f"r{k}.st", "correlations", {"R": np.eye(2)}, *whose)
    write_alone(folder / "u0.st", folder / "m0.st")
    assert furlkit("neighbours", "g.st", *DIGITS, "-o", "n.st") == 0
    yield folder
    patch.undo()


@pytest.fixture
def calls(monkeypatch, folder, tmp_path, run):
    """Replace the function of an entry; a command must then call the new one."""

    def check(entries, name, *words):
        place = f"{__name__}:other"
        monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
        monkeypatch.setitem(entries, name, replace(entries[name], function=place))
        monkeypatch.chdir(folder)
        outcome = run(*words, "-o", tmp_path / "out")
        assert outcome.code == 1 and MARK in outcome.err, outcome.err

    return check


@pytest.mark.parametrize("name", catalogue.RULES)
def test_rules(calls, name, tmp_path):
    state = ("--state-out", tmp_path / "s") if catalogue.RULES[name].state else ()
    calls(catalogue.RULES, name, "aggregate", "--rule", name, *RULES[name], *state)


@pytest.mark.parametrize("name", catalogue.TEACHERS)
def test_teachers(calls, name):
    words = ("distill", *TEACHERS[name], *DIGITS, "--teacher", name, "--epochs", 1)
    calls(catalogue.TEACHERS, name, *words, "--batch-size", 16)


@pytest.mark.parametrize("name", catalogue.PROTOCOLS)
def test_protocols(calls, name):
    calls(catalogue.PROTOCOLS, name, "evaluate", name, *PROTOCOLS[name])


@pytest.mark.parametrize("name", catalogue.AUDITS)
def test_audits(calls, name):
    calls(catalogue.AUDITS, name, "audit", name, *AUDITS[name])
