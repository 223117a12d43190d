"""evaluate personal --generator: FedStyle's Eq. 4 with each client's style and G."""

import numpy as np
import pytest
import torch

from furlkit.evaluation.linear import LinearSettings, fit_linear, predict_linear
from furlkit.evaluation.stylised import Pair, fit_stylised
from furlkit.files.features import read_features
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.models.style import filled_generator
from furlkit.randomness import torch_generator
from furlkit.weights import below
from tests.helpers import few_digits, furlkit

NET = ("--width", 0.05, "--projector", "16,8")
FAST = ("--epochs", 1, "--batch-size", 90, "-q")
HEAD = ("--epochs", 40, "--lr", 0.03, "--probes", 2)
HOW = LinearSettings(lr=0.03, epochs=40)


@pytest.fixture(scope="module")
def styled_clients(tmp_path_factory):
    """Two clients after a round with infusion; digits to train and test on."""
    folder = few_digits(tmp_path_factory.mktemp("personal"), 2, NET)
    data = ("--data", folder / "d.npz")
    both = (folder / "p", folder / "g0", *data, *FAST, "--client", "0-1")
    assert furlkit("pretrain-style", *both, "-o", folder / "s{client}") == 0
    files = ("--private", folder / "s{client}", "--private-out", folder / "k{client}")
    words = (*both, "--infusion", 1, *files, "-o", folder / "c{client}")
    assert furlkit("local-train", *words) == 0
    uploads = (folder / "c0", folder / "c1")
    assert furlkit("aggregate", *uploads, "-q", "-o", folder / "g1") == 0
    return folder


@pytest.fixture
def words(styled_clients, tmp_path):
    def line(name, *more, files=("k0", "k1"), model="g1"):
        data = (
            "--data",
            styled_clients / "d.npz",
            "--test-data",
            styled_clients / "t.npz",
        )
        given = (
            styled_clients / "p",
            styled_clients / model,
            *(styled_clients / file for file in files),
        )
        output = ("-o", tmp_path / f"{name}.json")
        return ("evaluate", "personal", *given, *data, *HEAD, *more, *output)

    return line


@pytest.fixture
def evaluate(words):
    def run(name, *more, **how):
        line = words(name, *more, **how)
        return furlkit(*line, "-q"), line[-1]

    return run


def embedded(styled_clients, tmp_path, model, data, *more):
    words = (
        "embed",
        styled_clients / model,
        "--data",
        styled_clients / data,
        "--layer",
        "h",
        *more,
    )
    assert furlkit(*words, "-q", "--force", "-o", tmp_path / "h") == 0
    return torch.from_numpy(read_features(tmp_path / "h").rows)


def labels_of(styled_clients, name):
    return torch.from_numpy(np.load(styled_clients / name)["labels"])


def test_the_frozen_generator_s_features_are_those_of_embed(
    score, styled_clients, tmp_path
):
    """A head on what `embed --personal` writes predicts the same classes."""
    found = score("x", "--generator", "frozen")["clients"][1]["probes"]
    own = ("--personal", styled_clients / "k1")
    train, test = (
        embedded(styled_clients, tmp_path, "g1", d, *own) for d in ("d.npz", "t.npz")
    )
    index = torch.from_numpy(read_partition(styled_clients / "p").of(1))
    drawn = [torch_generator(0, "evaluate", "linear", *extra) for extra in ((), (1,))]
    heads = fit_linear(
        train[index], labels_of(styled_clients, "d.npz")[index], 10, HOW, drawn
    )
    truth = labels_of(styled_clients, "t.npz")
    expected = [(predict_linear(test, *h) == truth).float().mean() for h in heads]
    assert found == pytest.approx([float(each) for each in expected], abs=0.02)


def test_a_trained_generator_starts_from_the_client_s_own(
    score, styled_clients, tmp_path
):
    found = score("x", "--generator", "trained")
    assert found["options"]["generator"] == "trained"
    pairs = {}
    for data in ("d.npz", "t.npz"):
        plain = embedded(styled_clients, tmp_path, "g1", data)
        style = ("--personal", styled_clients / "k1", "--style")
        pairs[data] = Pair(
            plain, embedded(styled_clients, tmp_path, "g1", data, *style)
        )
    index = torch.from_numpy(read_partition(styled_clients / "p").of(1))
    learned = Pair(*(part[index] for part in pairs["d.npz"]))
    labels, truth = (
        labels_of(styled_clients, "d.npz")[index],
        labels_of(styled_clients, "t.npz"),
    )
    tensors = below("generator.", read_private(styled_clients / "k1", 1).tensors)
    G = filled_generator(tensors, torch.device("cpu")).requires_grad_()
    drawn = [torch_generator(0, "evaluate", "linear", *extra) for extra in ((), (1,))]
    fits = fit_stylised(learned, labels, 10, HOW, drawn, G)
    expected = [(f.predict(pairs["t.npz"]) == truth).float().mean() for f in fits]
    assert found["clients"][1]["probes"] == pytest.approx(
        [float(each) for each in expected], abs=0.02
    )


def test_none_frozen_and_trained_differ_and_none_is_the_default(score):
    plain = score("x")
    assert plain["clients"] == score("y", "--generator", "none")["clients"]
    assert "generator" not in plain["options"]
    others = [score(how, "--generator", how) for how in ("frozen", "trained")]
    found = [plain["probes"], *(other["probes"] for other in others)]
    assert found[0] != found[1] != found[2] != found[0]
    assert min(map(min, found)) > 0.15  # Chance is 0.1, where all would agree.


def test_it_goes_with_local_models_and_the_preset_has_it(score):
    own = score("x", "--generator", "frozen", files=("k0", "k1", "c0", "c1"))
    alone = score("y", "--generator", "frozen", files=("k1",), model="c1")
    assert own["clients"][1]["probes"] == alone["clients"][0]["probes"]
    options = score("z", "--preset", "fedstyle", "--epochs", 2)["options"]
    assert (options["generator"], options["optimiser"]) == ("trained", "adam")


@pytest.mark.parametrize("how", ["frozen", "trained"])
def test_a_client_without_a_style_or_a_generator_is_refused(
    styled_clients, words, tmp_path, refused, how
):
    more, out = ("--generator", how), tmp_path
    expected = ("client 1", "private file", "--client")
    some = words("x", *more, "--client", "0-1", files=("k0",))
    refused(out, 2, expected, *some)
    expected = (styled_clients / "s0", "generator", "--infusion")
    refused(out, 65, expected, *words("x", *more, "--dry-run", files=("s0",)))


def test_a_convex_fit_trains_no_generator(
    words, tmp_path, refused, run, styled_clients
):
    data = ("--data", styled_clients / "d.npz", "--test-data", styled_clients / "t.npz")
    line = (
        "evaluate",
        "personal",
        styled_clients / "p",
        styled_clients / "g1",
        styled_clients / "k0",
        *data,
    )
    line = (*line, "--solver", "lbfgs", "-o", tmp_path / "x.json", "--generator")
    refused(tmp_path, 2, ("--generator trained", "lbfgs"), *line, "trained")
    assert run(*line, "frozen", "--dry-run").code == 0
