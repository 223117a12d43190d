"""Ditto and APFL on the command line: limit cases to the bit, what leaves, restarts."""

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.private import read_private
from furlkit.training import loop
from furlkit.weights import OWN, below, part_of
from tests.helpers import Killed, digest, epoch_losses, furlkit, step_of, tensor_bytes

NET = ("--width", 0.02, "--projector", "8,4", "--predictor", "8,4")
OBJECTIVES = ("simclr", "moco", "simsiam", "byol")
FAST = ("--epochs", 1, "--batch-size", 10)
DITTO, APFL = ("--personal", "ditto"), ("--personal", "apfl")
FORMS = {
    "ditto": DITTO,
    "fedstyle-ditto": (*DITTO, "--pull", 2, "--pull-to", "trained"),
    "apfl": APFL,
    "fedstyle-apfl": (*APFL, "--mix", "views"),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A few small images, three clients, and a start for each objective."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (60, 8, 8, 1), dtype=np.uint8)
    np.savez(folder / "d.npz", images=pixels, labels=np.arange(60) % 4)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", 3, "-o", folder / "p") == 0
    for name in OBJECTIVES:
        words = ("init", *data, *NET, "--objective", name, "-o", folder / name)
        assert furlkit(*words) == 0
    return folder


@pytest.fixture(scope="module")
def rounds(world):
    """Two rounds of some clients, each kind of run once; gives their folder."""
    done = {}

    def run(objective, *more, clients="0-1"):
        key = (objective, more, clients)
        if key not in done:
            folder = done[key] = world / f"run{len(done)}"
            for number in (1, 2):
                one_round(world, folder, objective, more, clients, number)
        return done[key]

    return run


def one_round(world, folder, objective, more, clients, number):
    model = world / objective if number == 1 else folder / f"g{number - 1}"
    kept = ("--private-out", folder / f"k{number}_{{client}}")
    if number > 1:
        kept += ("--private", folder / f"k{number - 1}_{{client}}")
    words = ("local-train", world / "p", model, *FAST, *more, *kept)
    words += ("--data", world / "d.npz", "--objective", objective)
    out = folder / f"c{number}_{{client}}"
    assert furlkit(*words, "--client", clients, "-q", "-o", out) == 0
    uploads = sorted(folder.glob(f"c{number}_?"))
    assert furlkit("aggregate", *uploads, "-q", "-o", folder / f"g{number}") == 0


def own_bytes(folder, number, client=0):
    return below(OWN, tensor_bytes(folder / f"k{number}_{client}"))


def trained_alone(rounds, objective, *more):
    """What client 0 makes of the start when no one else takes part."""
    folder = rounds(objective, *more, clients="0")
    return {**tensor_bytes(folder / "c2_0"), **carried(folder / "k2_0")}


def carried(path):
    """What a learner carries besides its net: a target, a queue."""
    found = tensor_bytes(path)
    return {k: v for k, v in found.items() if part_of(k) in CARRIED}


CARRIED = ("target.encoder", "target.projector", "queue")


@every_objective
@pytest.mark.parametrize("form", FORMS)
def test_the_upload_is_that_of_fedavg_to_the_bit_and_holds_nothing_of_ones_own(
    rounds, objective, form
):
    plain, personal = rounds(objective), rounds(objective, *FORMS[form])
    for name in ("c1_0", "c1_1", "c2_0", "c2_1", "g2"):
        assert tensor_bytes(plain / name) == tensor_bytes(personal / name)
    upload = read_checkpoint(personal / "c2_0")
    assert not [name for name in upload.tensors if name.startswith(OWN)]
    assert upload.facts.loss == read_checkpoint(plain / "c2_0").facts.loss
    # The other parts of the private files are those of FedAvg too.
    own = tensor_bytes(personal / "k2_0")
    rest = {k: v for k, v in own.items() if k.partition(".")[0] not in ("own", "memory")}
    assert rest == tensor_bytes(plain / "k2_0") and len(own) > len(rest)


@every_objective
@pytest.mark.parametrize(
    "alone", [(*DITTO, "--pull", 0), (*APFL, "--own-share", 1)], ids=["ditto", "apfl"]
)
def test_without_a_pull_and_with_all_of_its_own_the_client_trains_alone_to_the_bit(
    rounds, objective, alone
):
    folder = rounds(objective, *alone)
    assert own_bytes(folder, 2) == trained_alone(rounds, objective)
    # It did not get there by the global model, which others have moved.
    assert own_bytes(folder, 2) != tensor_bytes(folder / "c2_0")


@every_objective
def test_with_nothing_of_its_own_the_mixture_is_the_model_of_fedavg_to_the_bit(
    rounds, objective
):
    folder = rounds(objective, *APFL, "--own-share", 0)
    own, sent = read_private(folder / "k2_0", 0).tensors, tensor_bytes(folder / "c2_0")
    # Its weights do not count, and its statistics are those of the model that is sent.
    for name, array in below(OWN, own).items():
        if "running" in name and name in sent:
            assert array.tobytes() == sent[name]
    assert carried(folder / "k2_0") == {
        k: v for k, v in own_bytes(folder, 2).items() if part_of(k) in CARRIED
    }
    losses = epoch_losses(folder / "c2_0")[-1]
    assert losses[f"own.{objective}"] == losses[objective]
