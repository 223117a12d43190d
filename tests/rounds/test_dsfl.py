"""DS-FL: clients send what they take public images for, and learn what all of them do."""

import json

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.models.loading import load_net
from furlkit.reports.ledger import read_ledger
from furlkit.training import loop
from tests.helpers import furlkit, tensor_bytes

DIGITS = ("--data", "digits")
CLIENTS, PUBLIC = (0, 1), 60
TRAIN = ("--epochs", 1, "--batch-size", 240, "-q")
PRESET = ("--preset", "dsfl")


def named(folder, number, what):
    return folder / f"r{number}" / f"{what}.safetensors"


def client_round(folder, number, client):
    """Train a client from its own model, and write what it takes public images for."""
    start = named(folder, 0, "global") if number == 1 else named(folder, number - 1, f"own_{client}")  # fmt: skip
    words = ("local-train", folder / "p.safetensors", start, *DIGITS, *PRESET, *TRAIN)
    model = named(folder, number, f"client_{client}")
    assert furlkit(*words, "--client", client, "-o", model) == 0
    part = ("--partition", folder / "p.safetensors", "--part", "public", *PRESET)
    rows = named(folder, number, f"public_{client}")
    assert furlkit("embed", model, *DIGITS, *part, "-o", rows) == 0
    return rows


def learn(folder, number, start, output, *more):
    """Learn what all clients take the public images for."""
    words = ("distill", named(folder, number, "probabilities"), start, *DIGITS, *PRESET)
    how = ("--epochs", 2, "--batch-size", 20, "-q", *more)
    return furlkit(*words, *how, "-o", output)


@pytest.fixture(scope="module")
def run_(tmp_path_factory):
    """Two rounds of two clients, whose models never leave them, and of the server."""
    folder = tmp_path_factory.mktemp("dsfl")
    split = ("--clients", 2, "--public-fraction", 0.042, "-o", folder / "p.safetensors")
    assert furlkit("partition", *DIGITS, *PRESET, *split) == 0
    net = ("--width", 0.05, "-o", named(folder, 0, "global"))
    assert furlkit("init", *DIGITS, *PRESET, *net) == 0
    for number in (1, 2):
        rows = [client_round(folder, number, client) for client in CLIENTS]
        out = named(folder, number, "probabilities")
        assert furlkit("aggregate", *rows, *PRESET, "-o", out) == 0
        for client in CLIENTS:
            start = named(folder, number, f"client_{client}")
            own = named(folder, number, f"own_{client}")
            assert learn(folder, number, start, own) == 0
        start = named(folder, number - 1, "global")
        assert learn(folder, number, start, named(folder, number, "global")) == 0
    return folder


def test_a_client_s_rows_are_the_softmax_of_its_classifier(run_):
    found = read_features(named(run_, 1, "public_1"))
    net = load_net(read_checkpoint(named(run_, 1, "client_1")), torch.device("cpu"))
    images = Source("digits").images()
    x = torch.from_numpy(images.images[found.index]).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        h = net.eval().encoder((x - images.mean[0]) / images.std[0])
        p = net.classifier(h).softmax(dim=1).numpy()
    assert found.facts.layer == "probabilities" and found.rows.shape == (PUBLIC, 10)
    assert np.allclose(found.rows, p, atol=1e-5)
    assert Container(named(run_, 1, "public_1")).header.options["head"] == "classifier"


def test_the_server_sharpens_the_mean_of_all(run_):
    clients = [read_features(named(run_, 2, f"public_{k}")) for k in CLIENTS]
    found = read_features(named(run_, 2, "probabilities"))
    p = np.mean([client.rows.astype("f8") for client in clients], axis=0)
    weights = np.exp(p / 0.1)
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert np.allclose(found.rows, expected, atol=1e-6)
    assert np.array_equal(found.index, clients[0].index)
    assert (found.facts.client, found.facts.round) == (None, 2)


def test_the_order_of_files_changes_no_byte(run_, tmp_path):
    rows = [named(run_, 1, f"public_{k}") for k in (1, 0)]
    assert furlkit("aggregate", *rows, *PRESET, "-o", tmp_path / "p") == 0
    assert (tmp_path / "p").read_bytes() == named(run_, 1, "probabilities").read_bytes()


def test_a_client_s_model_stays_its_own(run_):
    """It has the client's number and images, and its next round starts from it."""
    for number in (1, 2):
        own = Container(named(run_, number, "own_1")).header.facts
        before = Container(named(run_, number, "client_1")).header.facts
        for name in ("role", "client", "examples", "round", "partition"):
            assert own[name] == before[name]
    assert Container(named(run_, 2, "client_1")).header.facts["parent"] == (
        Container(named(run_, 1, "own_1")).content
    )


def test_what_the_clients_take_images_for_is_learnt(run_, tmp_path, forge):
    """Clients who were always right teach the server's model, which sees no label."""
    right = tmp_path / "right"
    right.write_bytes(named(run_, 1, "probabilities").read_bytes())
    index = read_features(right).index
    labels = Source("digits").images().labels[index]
    forge(right, {"rows": np.eye(10, dtype="f4")[labels]})
    words = ("distill", right, named(run_, 0, "global"), *DIGITS, *PRESET, "-q")
    how = ("--epochs", 15, "--batch-size", 20, "--lr", 0.01, "-o", tmp_path / "g")
    assert furlkit(*words, *how) == 0
    scored = ("evaluate", "classifier", tmp_path / "g", *DIGITS, *PRESET)
    assert furlkit(*scored, "-o", tmp_path / "c.json") == 0
    assert json.loads((tmp_path / "c.json").read_text())["accuracy"] > 0.4
    facts = Container(tmp_path / "g").header.facts
    assert (facts["role"], facts["round"], facts["examples"]) == ("global", 1, PUBLIC)


def test_only_probabilities_are_sent_and_received_after_the_first_model(run_):
    moved = read_ledger([run_]).transfers
    roles = {(t.round, t.direction, t.role) for t in moved}
    assert roles == {
        (1, "sent", "upload"), (1, "received", "global"), (1, "received", "probabilities"),
        (2, "sent", "upload"), (2, "received", "probabilities"),
    }  # fmt: skip
    assert all(t.file.kind == "features" for t in moved if t.role != "global")


def test_no_label_of_the_public_images_is_read(run_, tmp_path):
    assert (
        furlkit("pack", "digits", "--no-labels", "-o", tmp_path / "d.safetensors") == 0
    )
    words = ("distill", named(run_, 1, "probabilities"), named(run_, 0, "global"))
    how = (*PRESET, "--epochs", 2, "--batch-size", 20, "-q", "-o", tmp_path / "g")
    assert furlkit(*words, "--data", tmp_path / "d.safetensors", *how) == 0
    assert tensor_bytes(tmp_path / "g") == tensor_bytes(named(run_, 1, "global"))


def test_killed_before_any_step_it_ends_with_the_same_bytes(run_, tmp_path, until_done):
    words = ("distill", named(run_, 2, "probabilities"), named(run_, 1, "global"))
    how = (*DIGITS, *PRESET, "--epochs", 2, "--batch-size", 20, "-q", "--save-every", 0)
    out = tmp_path / "g.safetensors"
    assert until_done(loop.Trainer, "step", *words, *how, "-o", out) >= 3
    assert out.read_bytes() == named(run_, 2, "global").read_bytes()


@pytest.mark.parametrize("encoding", ["float16", "int8"])
def test_fewer_bytes_say_nearly_the_same(run_, tmp_path, encoding):
    model, part = named(run_, 1, "client_0"), ("--partition", run_ / "p.safetensors")
    words = ("embed", model, *DIGITS, *part, "--part", "public", *PRESET)
    assert furlkit(*words, "--encoding", encoding, "-o", tmp_path / "e") == 0
    exact = read_features(named(run_, 1, "public_0")).rows
    assert np.abs(read_features(tmp_path / "e").rows - exact).max() < 1 / 254
    assert furlkit("aggregate", tmp_path / "e", *PRESET, "-o", tmp_path / "p") == 0


@pytest.fixture(scope="module")
def odd(run_, tmp_path_factory, forge):
    """Files that do not fit."""
    folder = tmp_path_factory.mktemp("odd")
    part = ("--partition", run_ / "p.safetensors", "--part", "public")
    client = named(run_, 1, "client_0")
    for name, more in {
        "h": ("--layer", "h"),
        "p": ("--share", "probabilities"),
    }.items():
        assert furlkit("embed", client, *DIGITS, *part, *more, "-o", folder / name) == 0
    words = ("embed", client, *DIGITS, "--share", "probabilities", "--partition")
    assert (
        furlkit(*words, run_ / "p.safetensors", "--part", "0", "-o", folder / "own")
        == 0
    )
    rows = read_features(folder / "p").rows
    for name, tensor in {
        "sums": 2 * rows, "below": rows - 0.2, "fewer": rows[:, :-1] + rows[:, -1:] / 9,
    }.items():  # fmt: skip
        (folder / name).write_bytes((folder / "p").read_bytes())
        forge(
            folder / name,
            {"rows": np.ascontiguousarray(tensor, dtype="f4")},
            {"client": 1},
        )
    assert furlkit("init", *DIGITS, "--width", 0.05, "-o", folder / "z") == 0
    return folder


@pytest.mark.parametrize(
    "files, key",
    [
        (("h",), "expected probabilities"),
        (("sums",), "sums to 2"),
        (("below",), "smallest number"),
        (("own",), "own images"),
        (("p", "fewer"), "number of classes"),
    ],
)
def test_what_is_no_client_s_probabilities_is_not_averaged(
    odd, refused, tmp_path, files, key
):
    given = [odd / name for name in files]
    words = ("aggregate", "--rule", "probabilities", *given, "-o", tmp_path / "out")
    refused(tmp_path, 65, (key,), *words)


def test_probabilities_are_no_features_of_an_ensemble(odd, refused, tmp_path):
    words = ("aggregate", "--rule", "ensemble", odd / "p", "-o", tmp_path / "out")
    refused(tmp_path, 65, (odd / "p", "--rule probabilities"), *words)


def test_embed_refuses_what_has_no_classes_and_cosines_of_probabilities(
    run_, odd, refused, tmp_path
):
    share = (*DIGITS, "--share", "probabilities", "-o", tmp_path / "out")
    refused(tmp_path, 65, (odd / "z", "classifier"), "embed", odd / "z", *share)
    words = ("embed", named(run_, 1, "client_0"), *share, "--similarity")
    refused(tmp_path, 2, ("--similarity",), *words)


@pytest.mark.parametrize(
    "teacher, start, key",
    [("h", "", "expected probabilities"), ("fewer", "", "9 classes"), ("p", "z", "classifier")],
)  # fmt: skip
def test_distill_refuses_what_does_not_fit(
    run_, odd, refused, tmp_path, teacher, start, key
):
    model = odd / start if start else named(run_, 0, "global")
    words = ("distill", odd / teacher, model, "--teacher", "probabilities", *DIGITS)
    refused(tmp_path, 65, (key,), *words, "-o", tmp_path / "out")


def test_distill_refuses_other_images(run_, refused, tmp_path):
    np.savez(tmp_path / "o.npz", images=np.zeros((1438, 8, 8, 1), np.uint8))
    words = ("distill", named(run_, 1, "probabilities"), named(run_, 0, "global"))
    words += ("--teacher", "probabilities", "--data", tmp_path / "o.npz")
    refused(tmp_path, 65, ("other images",), *words, "-o", tmp_path / "out")


RECIPE = """
[settings]
preset = "dsfl"
clients = 3
rounds = 2
fraction = 0.67
[files]
global = "r{round}/global"
own = "r{round}/own_{client}"
model = "r{round}/client_{client}"
rows = "r{round}/public_{client}"
probabilities = "r{round}/probabilities"
[stages]
partition = "partition --data digits --clients {clients} -o {partition}"
init = "init --data digits -o {global@0}"
begin = "init --data digits --from {global@0} -o {own@0}"
train.run = "local-train {partition} {own@own} --data digits --client {client} -o {model}"
train.rounds = "every 1"
embed = "embed {model} --data digits --partition {partition} --part public -o {rows}"
pool = "aggregate {rows*} -o {probabilities}"
learn = "distill {probabilities} {model} --data digits -o {own}"
distill = "distill {probabilities} {global@last} --data digits -o {global}"
"""


def test_a_recipe_of_it_is_planned_and_every_command_fits(run, tmp_path):
    (tmp_path / "dsfl.toml").write_text(RECIPE)
    done = run("plan", tmp_path / "dsfl.toml", "--as", "sh")
    assert done.code == 0, done.err
    assert done.out.count(" local-train ") == 4 and done.out.count(" distill ") == 6
