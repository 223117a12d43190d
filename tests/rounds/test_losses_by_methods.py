"""FedStyle's losses under all methods it compares: a round, a restart, and scores."""

import json
import math

import pytest

from furlkit import catalogue
from furlkit.files.checkpoint import read_checkpoint
from furlkit.training import loop
from furlkit.weights import PRIVATE, part_of, within
from tests.helpers import contents, epoch_losses, furlkit, save_digits

NET = ("--width", 0.02, "--projector", "8,4", "--predictor", "8,4")
FAST = ("--batch-size", 12, "-q")
EPOCH = ("--epochs", 1)
LOSSES = ("simclr", "moco", "simsiam", "byol", "barlow")
# As FedStyle's appendix has them; the presets of these names have the same flags.
METHODS = {
    "fedavg": EPOCH,
    "fedper": (*EPOCH, "--send", "encoder"),
    "fedrep": ("--phases", "{heads}:1,encoder:1", "--send", "encoder"),
    "fedprox": (*EPOCH, "--update", "own", "--proximal", 0.2),
    "ditto": (*EPOCH, "--personal", "ditto", "--pull", 2, "--pull-to", "trained"),
    "apfl": (*EPOCH, "--personal", "apfl", "--mix", "views"),
    "fedstyle": (*EPOCH, "--infusion", 0.5),
}
HEAD = ("--epochs", 2, "--probes", 1, "-q")


@pytest.fixture(scope="module")
def two_styled_clients(tmp_path_factory):
    """48 digits of two clients with style models, 20 to test on, and one model."""
    folder = tmp_path_factory.mktemp("grid")
    save_digits(folder, 48, 20)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", 2, "-o", folder / "p") == 0
    init = ("init", *data, *NET, "--objective", "simsiam", "-o", folder / "g")
    assert furlkit(*init) == 0
    style = ("pretrain-style", folder / "p", folder / "g", *data, "--client", "0-1")
    style += (*FAST, *EPOCH, "--projector", "8,4", "-o", folder / "s{client}")
    assert furlkit(*style) == 0
    return folder


@pytest.fixture
def train(two_styled_clients, tmp_path):
    def run(folder, loss, method, *more):
        out = tmp_path / folder
        heads = "+".join(catalogue.OBJECTIVES[loss].head_names)
        how = [str(word).replace("{heads}", heads) for word in METHODS[method]]
        words = [
            "local-train",
            two_styled_clients / "p",
            two_styled_clients / "g",
            *FAST,
            *how,
        ]
        words += ["--data", two_styled_clients / "d.npz", "--objective", loss, *more]
        words += (
            ["--private", two_styled_clients / "s{client}"]
            if method == "fedstyle"
            else []
        )
        words += ["--private-out", out / "k{client}", "-o", out / "c{client}"]
        return furlkit(*words, "--client", "0-1")

    return run


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_round_is_trained_resumed_and_scored(
    two_styled_clients, train, tmp_path, dies_at, loss, method
):
    assert train("a", loss, method) == 0
    with dies_at(loop.Trainer, "step", 2):
        train("b", loss, method, "--save-every", 0)
    assert train("b", loss, method, "--save-every", 0) == 0
    folder = tmp_path / "b"
    assert contents(tmp_path / "a") == contents(folder)

    losses = epoch_losses(folder / "c0")
    assert all(math.isfinite(value) for line in losses for value in line.values())
    uploads, private = ([folder / f"{kind}{k}" for k in (0, 1)] for kind in "ck")
    parts = {part_of(name) for name in read_checkpoint(uploads[0]).tensors}
    assert not any(within(part, (*PRIVATE, "own")) for part in parts)
    assert (parts == {"encoder"}) == (method in ("fedper", "fedrep"))
    assert furlkit("aggregate", *uploads, "-q", "-o", folder / "g1") == 0
    data = (
        "--data",
        two_styled_clients / "d.npz",
        "--test-data",
        two_styled_clients / "t.npz",
        *HEAD,
    )
    own = ("--generator", "trained" if method == "fedstyle" else "none")
    given = (two_styled_clients / "p", folder / "g1", *private, *uploads)
    words = ("evaluate", "personal", *given, *data, *own)
    assert furlkit(*words, "-o", folder / "personal.json") == 0
    found = json.loads((folder / "personal.json").read_text())
    assert [each["client"] for each in found["clients"]] == [0, 1]
    assert 0 <= found["accuracy"] <= 1 and found["test_examples"] == 20
