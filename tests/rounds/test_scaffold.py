"""SCAFFOLD: two rounds of two clients, all of whom take part."""

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.private import read_private, write_private
from furlkit.weights import below
from tests.helpers import epochs, furlkit, round_0

LR, STEPS = 0.05, 2
PLAIN = ("--optimiser", "sgd", "--momentum", 0, "--lr", LR, "--weight-decay", 0)
FAST = ("--data", "digits", "--client", "0-1", "--epochs", 1, "--batch-size", 256)


def tensors(path):
    return read_checkpoint(path).tensors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    world = round_0(tmp_path_factory.mktemp("scaffold"), ("--clients", 2))
    words = ("local-train", world / "p.st")
    both = [*FAST, *PLAIN]
    assert furlkit(*words, world / "g.st", *both, "-o", world / "plain_{client}") == 0
    model, private = world / "g.st", ()
    for r in (1, 2):
        out = (
            "--private-out",
            world / f"v{r}_{{client}}",
            "-o",
            world / f"u{r}_{{client}}",
        )
        train = (*words, model, *both, "--scaffold", *private, *out)
        assert furlkit(*train) == 0
        model, private = world / f"g{r}", ("--private", world / f"v{r}_{{client}}")
        uploads = (world / f"u{r}_0", world / f"u{r}_1")
        assert furlkit("aggregate", *uploads, "--weights", "uniform", "-o", model) == 0
    return world


def test_the_first_round_is_that_of_fedavg(folder):
    for k in (0, 1):
        corrected, plain = tensors(folder / f"u1_{k}"), tensors(folder / f"plain_{k}")
        assert all(np.array_equal(corrected[name], plain[name]) for name in plain)


def test_a_client_s_control_variate_is_its_mean_gradient(folder):
    """c_k+ = c_k - c + (x - y) / (K eta), of files, in both rounds."""
    for r, start in ((1, "g.st"), (2, "g1")):
        x = tensors(folder / start)
        c = below("control.", x)
        for k in (0, 1):
            y = tensors(folder / f"u{r}_{k}")
            sent = below("control.", y)
            kept = (
                {}
                if r == 1
                else below("control.", read_private(folder / f"v1_{k}").memory)
            )
            assert sent.keys() and not any("running" in name for name in sent)
            for name, found in sent.items():
                before = kept.get(name, 0.0) - c.get(name, np.zeros(()))
                expected = before + (x[name] - y[name]) / (STEPS * LR)
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_server_s_control_variate_is_the_mean_of_the_clients(folder):
    c = below("control.", tensors(folder / "g2"))
    both = [below("control.", tensors(folder / f"u2_{k}")) for k in (0, 1)]
    for name, array in c.items():
        np.testing.assert_allclose(
            array, (both[0][name] + both[1][name]) / 2, atol=1e-6
        )


def test_a_client_keeps_what_it_sent_and_the_second_round_is_corrected(folder):
    kept = below("control.", read_private(folder / "v2_1").memory)
    sent = below("control.", tensors(folder / "u2_1"))
    assert kept.keys() == sent.keys()
    assert all(np.array_equal(kept[name], sent[name]) for name in kept)
    first, second = (epochs(folder / f"u{r}_1")[-1]["losses"] for r in (1, 2))
    assert first["scaffold"] == 0 != second["scaffold"]


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--momentum", 0.9), "momentum"),
        (("--send", "encoder"), "--send"),
        (("--personal", "ditto"), "--personal"),
    ],
)
def test_options_that_do_not_fit(run, folder, more, word):
    words = (
        "local-train",
        folder / "p.st",
        folder / "g.st",
        *FAST,
        *PLAIN,
        "--scaffold",
    )
    out = ("--private-out", folder / "n_{client}", "-o", folder / "no_{client}")
    outcome = run(*words, *more, *out)
    assert outcome.code == 2
    assert "--scaffold" in outcome.err and word in outcome.err


def test_a_model_with_control_variates_is_evaluated_as_any_other(folder):
    words = ("evaluate", "knn", folder / "g2", "--data", "digits")
    assert furlkit(*words, "-o", folder / "knn.json") == 0


def test_a_control_variate_of_another_shape_is_refused(run, folder):
    private = read_private(folder / "v1_0")
    name = next(name for name in private.memory if name.endswith("conv1.weight"))
    memory = {**private.memory, name: np.zeros(3, np.float32)}
    path = folder / "forged"
    provenance = Provenance("local-train")
    write_private(path, private.tensors, memory, private.facts, provenance)
    fast = ("--data", "digits", "--client", 0, "--epochs", 1, *PLAIN, "--scaffold")
    words = ("local-train", folder / "p.st", folder / "g1", *fast, "--private", path)
    outcome = run(*words, "--private-out", folder / "n", "-o", folder / "no")
    assert outcome.code == 65
    assert str(path) in outcome.err and "control variate" in outcome.err
