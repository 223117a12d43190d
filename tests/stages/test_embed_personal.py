"""embed --personal: FedStyle's Eq. 4, and h_s, against a forward pass by hand."""

import json

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.private import read_private
from furlkit.models.loading import load_net
from furlkit.weights import below
from tests.helpers import NET, furlkit, round_0

FAST = ("--data", "digits", "--epochs", 1, "--batch-size", 240)


@pytest.fixture(scope="module")
def styled_clients(tmp_path_factory):
    """Two clients after a round with infusion, and the mean of their models."""
    folder = round_0(tmp_path_factory.mktemp("styled_clients"), ("--clients", 2), NET)
    both = (folder / "p.st", folder / "g.st", *FAST, "--client", "0-1")
    assert furlkit("pretrain-style", *both, "-o", folder / "s{client}") == 0
    files = ("--private", folder / "s{client}", "--private-out", folder / "k{client}")
    words = (*both, "--infusion", 1, *files, "-o", folder / "c{client}")
    assert furlkit("local-train", *words) == 0
    clients = (folder / "c0", folder / "c1")
    assert furlkit("aggregate", *clients, "-o", folder / "g1") == 0
    return folder


@pytest.fixture
def embed(styled_clients, tmp_path):
    def run(name, *more, model="c0", private="k0"):
        words = ("embed", styled_clients / model, "--data", "digits", "--split", "test")
        own = ("--personal", styled_clients / private) if private else ()
        assert furlkit(*words, *own, *more, "-o", tmp_path / name) == 0
        return read_features(tmp_path / name)

    return run


def h_of(embed, model):
    return embed(f"plain_{model}", model=model, private=None).rows


@torch.no_grad()
def style_by_hand(styled_clients, client):
    """h_s of the test images: the content model's net with the style's weights."""
    model, private = (
        read_checkpoint(styled_clients / "g.st"),
        read_private(styled_clients / f"k{client}", None),
    )
    net = load_net(model, torch.device("cpu")).eval()
    style = below("style.encoder.", private.tensors)
    net.encoder.load_state_dict({k: torch.from_numpy(v) for k, v in style.items()})
    pixels = torch.from_numpy(Source("digits", split="test").images().images).float()
    x = (pixels.permute(0, 3, 1, 2) / 255 - model.facts.mean[0]) / model.facts.std[0]
    return net.encoder(x).numpy()


def infused_by_hand(styled_clients, client, h_c, h_s):
    G = below("generator.", read_private(styled_clients / f"k{client}", None).tensors)
    both = np.concatenate([h_c, h_s], axis=1)
    hidden = np.maximum(both @ G["fc1.weight"].T + G["fc1.bias"], 0)
    return hidden @ G["fc2.weight"].T + G["fc2.bias"]


@pytest.mark.parametrize("model", ["c0", "g1"])
def test_h_is_content_and_infused_content(styled_clients, embed, model):
    h_c, h_s = h_of(embed, model), style_by_hand(styled_clients, 0)
    expected = h_c + infused_by_hand(styled_clients, 0, h_c, h_s)
    found = embed("h", model=model)
    np.testing.assert_allclose(found.rows, expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(found.rows, h_c, atol=1e-3)


def test_the_style_alone_needs_no_generator(styled_clients, embed):
    expected = style_by_hand(styled_clients, 0)
    for private in ("k0", "s0"):
        found = embed(private, "--style", private=private)
        np.testing.assert_allclose(found.rows, expected, rtol=1e-4, atol=1e-4)


def test_every_client_has_a_view_of_its_own(embed):
    one, other = (embed(f"k{c}", model="g1", private=f"k{c}") for c in (0, 1))
    assert (one.facts.client, other.facts.client) == (0, 1)
    assert not np.allclose(one.rows, other.rows, atol=1e-3)


def test_the_file_says_whose_h_it_is(styled_clients, embed, tmp_path, run):
    for name, more, word in (("a", (), "personal"), ("b", ("--style",), "style")):
        found = embed(name, *more)
        assert found.facts.personal == ("style" if more else "stylised")
        said = json.loads(run("inspect", tmp_path / name, "--json").out)["summary"]
        assert f"by the {word} model of client 0" in said
        contents = Container(tmp_path / name).header.inputs
        assert contents["private"] == read_private(styled_clients / "k0", 0).content
    assert read_features(tmp_path / "a").facts.layer == "h"
    plain = embed("c", private=None)
    assert plain.facts.personal is None
    assert "personal" not in Container(tmp_path / "c").header.facts


def test_similarities_of_personal_features(embed, styled_clients, tmp_path):
    words = ("embed", styled_clients / "c0", "--data", "digits", "--split", "test")
    words = (*words, "--personal", styled_clients / "k0", "--similarity")
    assert furlkit(*words, "-o", tmp_path / "s") == 0
    rows = embed("h").rows
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = Container(tmp_path / "s").tensors()["matrix"]
    np.testing.assert_allclose(found, rows @ rows.T, atol=1e-4)


@pytest.mark.parametrize(
    "more, private, code, words",
    [
        ((), "k1", 65, ("client 1", "client 0")),
        ((), "s0", 65, ("generator", "--infusion")),
        (("--layer", "z"), "k0", 2, ("--layer z", "--personal")),
        ((), "c0", 65, ("checkpoint", "private")),
    ],
)
def test_what_is_refused(styled_clients, tmp_path, refused, more, private, code, words):
    path = styled_clients / private
    line = (
        "embed",
        styled_clients / "c0",
        "--data",
        "digits",
        "--personal",
        path,
        *more,
    )
    files = (path,) if code == 65 else ()
    for dry in ((), ("--dry-run",)):
        refused(tmp_path, code, (*files, *words), *line, *dry, "-o", tmp_path / "x")


def test_style_alone_is_of_a_private_file_and_the_output_is_no_input(
    styled_clients, tmp_path, refused
):
    line = ("embed", styled_clients / "c0", "--data", "digits")
    words = (*line, "--style", "-o", tmp_path / "x")
    refused(tmp_path, 2, ("--style", "--personal"), *words)
    words = (*line, "--personal", styled_clients / "k0", "-o", styled_clients / "k0")
    refused(styled_clients, 2, (f"-o {styled_clients / 'k0'}",), *words)
