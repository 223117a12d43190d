"""Hetero-SSFL: clients with different nets share cosines of public images."""

import json

import numpy as np
import pytest

from furlkit.files.similarity import cosines, read_similarity
from tests.helpers import contents, epoch_losses, furlkit, save_digits

pytest.importorskip("timm")
DATA = ("--data", "d.npz")
NETS = {  # By client.
    0: ("--encoder", "cnn5", "--width", 0.1),
    1: ("--encoder", "timm:test_resnet"),
}
FAST = (*DATA, "--epochs", 2, "--batch-size", 32, "--lr", 0.002, "-q")
PUBLIC = (*DATA, "--partition", "p", "--part", "public")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Round 1 of two clients, their cosines and the mean kernel."""
    path, patch = tmp_path_factory.mktemp("heterossfl"), pytest.MonkeyPatch()
    save_digits(path, train=200, test=64)
    patch.chdir(path)
    share = ("--clients", 2, "--public-fraction", 0.3)
    assert furlkit("partition", *DATA, *share, "-o", "p") == 0
    for client, net in NETS.items():
        start = ("--projector", "16,8", "--run-name", "mixed", "-o", f"g_{client}")
        assert furlkit("init", *DATA, *net, *start) == 0
        assert train(client, f"g_{client}", "--cka", 1, "-o", f"c1_{client}") == 0
        assert (
            furlkit("embed", f"c1_{client}", *PUBLIC, *SHARED, "-o", f"s_{client}") == 0
        )
    assert furlkit("aggregate", "s_0", "s_1", "--rule", "kernels", "-o", "kernel") == 0
    yield path
    patch.undo()


SHARED = ("--similarity",)
KERNEL = ("--kernel", "kernel", "--kernel-data", "d.npz", "--cka-batch-size", 30)


def train(client, model, *more):
    words = ("local-train", "p", model, *FAST, "--client", client, "--update", "keep")
    return furlkit(*words, *more)


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def test_the_kernel_is_the_mean_of_the_clients_cosines(here):
    mean = read_similarity(here / "kernel")
    parts = [cosines(read_similarity(here / f"s_{k}").matrix) for k in NETS]
    np.testing.assert_allclose(mean.matrix, (parts[0] + parts[1]) / 2, atol=1e-6)
    assert mean.facts.client is None and mean.facts.round == 1
    assert mean.facts.owners == [[0, 60], [1, 60]] and mean.facts.run == "mixed"


def test_rows_instead_of_cosines_give_the_same_kernel(here, tmp_path):
    for k in NETS:
        assert furlkit("embed", f"c1_{k}", *PUBLIC, "-o", tmp_path / f"h_{k}") == 0
    rows = (tmp_path / "h_0", tmp_path / "h_1")
    words = ("aggregate", *rows, "--rule", "kernels", "-o", tmp_path / "kernel")
    assert furlkit(*words) == 0
    both = (read_similarity(path / "kernel").matrix for path in (here, tmp_path))
    np.testing.assert_allclose(*both, atol=1e-5)


def test_different_nets_agree_more_with_the_term(here, tmp_path):
    def agreement(name, *more):
        for k in NETS:
            model = tmp_path / f"{name}_{k}"
            assert train(k, f"c1_{k}", *more, "-o", model) == 0
        models = (tmp_path / f"{name}_0", tmp_path / f"{name}_1")
        output = tmp_path / f"{name}.json"
        words = ("evaluate", "drift", *models, *DATA, "--split", "train", "-o", output)
        assert furlkit(*words) == 0
        return json.loads(output.read_text())["mean_cka"]

    without, with_term = agreement("a"), agreement("b", "--cka", 5, *KERNEL)
    assert with_term > without + 0.05
    assert all(0 < losses["cka"] < 5 for losses in epoch_losses(tmp_path / "b_0"))


def test_the_first_round_has_no_kernel_and_no_term(here):
    assert all("cka" not in losses for losses in epoch_losses(here / "c1_0"))


def test_inspect_and_replay_know_the_kernel(here, tmp_path, run):
    out = run("inspect", "kernel").out
    assert "mean cosines of 60 images by the models of 2 clients after round 1" in out
    assert "similarities between images" in run("inspect", "--outgoing", "s_0").out
    more = ("--cka", 1, *KERNEL)
    assert train(0, "c1_0", *more, "-o", tmp_path / "c") == 0
    said = run("replay", tmp_path / "c", "--among", here).out
    assert "--kernel" in said and "--cka 1" in said
    again = run("aggregate", "s_1", "s_0", "--rule", "kernels", "-o", tmp_path / "k")
    assert again.code == 0
    assert (tmp_path / "k").read_bytes() == (here / "kernel").read_bytes()


REFUSED = [
    (("--cka", 1, "--kernel", "kernel"), 2, "--kernel-data"),
    ((*KERNEL[:4],), 2, "--cka"),
    (("--cka", 1, *KERNEL[2:4]), 2, "--kernel-data"),
    (("--cka", 1, "--kernel", "s_0", *KERNEL[2:]), 65, "aggregate --rule kernels"),
    (("--cka", 1, *KERNEL[:3], "digits"), 65, "kernel: was made of other images"),
]


@pytest.mark.parametrize(("more", "code", "word"), REFUSED)
def test_kernels_that_do_not_fit_are_refused(here, tmp_path, run, more, code, word):
    words = ("local-train", "p", "c1_0", *FAST, "--client", 0, "--update", "keep")
    outcome = run(*words, *more, "-o", tmp_path / "c")
    assert outcome.code == code and word in outcome.err
    assert not (tmp_path / "c").exists()


def test_a_kernel_of_a_later_round_is_refused(here, tmp_path, run):
    words = ("local-train", "p", "g_0", *FAST, "--client", 0, "--cka", 1, *KERNEL)
    outcome = run(*words, "-o", tmp_path / "c")
    assert outcome.code == 65 and "round 1" in outcome.err


def test_means_and_largest_cosines_are_no_uploads(here, tmp_path, run):
    outcome = run("aggregate", "kernel", "--rule", "kernels", "-o", tmp_path / "k")
    assert outcome.code == 65 and "a mean of several clients" in outcome.err
    top = ("--similarity", "--top", 50, "-o", tmp_path / "t")
    assert run("embed", "c1_0", *PUBLIC, *top).code == 0
    words = ("aggregate", tmp_path / "t", "--rule", "kernels", "-o", tmp_path / "k")
    outcome = run(*words)
    assert outcome.code == 65 and "--top" in outcome.err


def test_a_round_with_the_term_gives_the_same_bytes_again(here, tmp_path):
    for folder in ("a", "b"):
        output = tmp_path / folder / "c"
        assert train(0, "c1_0", "--cka", 1, *KERNEL, "-o", output) == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
