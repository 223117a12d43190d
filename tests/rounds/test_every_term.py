"""A round of every term of the catalogue, killed and resumed."""

import math

import pytest

from furlkit import catalogue
from furlkit.files.checkpoint import read_checkpoint
from furlkit.training import loop
from furlkit.weights import PRIVATE, part_of, within
from tests.exchanged import FAST, model_of, term_words
from tests.helpers import contents, epoch_losses, furlkit


@pytest.mark.parametrize("name", catalogue.TERMS)
def test_a_term_is_trained_resumed_and_sends_the_model_alone(
    exchanged, tmp_path, monkeypatch, dies_at, name
):
    monkeypatch.chdir(exchanged)
    words = ("local-train", "p", model_of(name), *FAST, "--client", 0, "-q")

    def train(folder):
        out = ("--private-out", tmp_path / folder / "k", "-o", tmp_path / folder / "c")
        return furlkit(*words, *term_words(name), "--save-every", 0, *out)

    assert train("a") == 0
    with dies_at(loop.Trainer, "step", 2):
        train("b")
    assert train("b") == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    losses = epoch_losses(tmp_path / "a" / "c")
    assert all(math.isfinite(line[name]) for line in losses)
    parts = {part_of(k) for k in read_checkpoint(tmp_path / "a" / "c").tensors}
    assert not any(within(part, (*PRIVATE, "own", "last")) for part in parts)
