"""What local-train refuses, and what a client keeps from round to round."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.files.checkpoint import read_checkpoint, write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.private import PrivateFacts, read_private, write_private
from furlkit.weights import is_batchnorm_statistic
from tests.helpers import furlkit, round_0

FAST = ("--data", "digits", "--batch-size", 32, "--epochs", 1)


def listing(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def five_clients(tmp_path_factory):
    return round_0(tmp_path_factory.mktemp("five_clients"))


@pytest.fixture
def train(five_clients, tmp_path):
    def run(
        name,
        *more,
        partition=five_clients / "p.st",
        model=five_clients / "g.st",
        clients="0",
    ):
        output = tmp_path / f"{name}.safetensors"
        command = ("local-train", partition, model, "--client", clients, *FAST, *more)
        return furlkit(*command, "-o", output), output

    return run


@pytest.fixture
def refused(train, tmp_path, capsys):
    """Nothing on disk changes, the code is the one given; returns the message."""

    def run(code, *more, **where):
        before = listing(tmp_path)
        capsys.readouterr()
        found, _ = train("refused", *more, **where)
        out, err = capsys.readouterr()
        assert (found, out, listing(tmp_path)) == (code, "", before), err
        return err

    return run


@pytest.mark.parametrize(
    "objective, head",
    [
        ("rotation", "rotation"),
        ("autoencoder", "decoder"),
        ("supervised", "classifier"),
    ],
)
def test_a_model_without_the_head_of_the_objective(
    refused, five_clients, objective, head
):
    err = refused(65, "--objective", objective)
    assert f"{five_clients / 'g.st'}: has no {head}" in err
    assert f"--objective {objective}" in err


@pytest.mark.parametrize("option", [("--temperature", 0.5), ("--form", "full")])
def test_an_option_of_another_objective(refused, option):
    err = refused(2, "--objective", "rotation", *option)
    assert option[0] in err and "--objective rotation" in err


@pytest.mark.parametrize(
    "option",
    [
        ("--lr", "nan"), ("--lr", "inf"), ("--lr", 1e38), ("--lr", 0), ("--proximal", "nan"),
        ("--crop-scale", "nan,1"), ("--epochs", 0), ("--batch-size", 1),
        ("--client", "²"), ("--client", "0-99999999999"), ("--device", "cuda:²"),
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense(refused, option):
    assert str(option[1])[:3] in refused(2, *option)


def test_supervised_training_without_labels(refused, tmp_path, capsys):
    data, model = tmp_path / "d.safetensors", tmp_path / "g.st"
    assert furlkit("pack", "digits", "--no-labels", "-o", data) == 0
    net = ("--data", "digits", "--width", 0.02, "--objective", "supervised")
    assert furlkit("init", *net, "-o", model) == 0
    err = refused(65, "--objective", "supervised", "--data", data, model=model)
    assert f"{data}: has no labels" in err


def test_a_classifier_with_too_few_classes(refused, tmp_path):
    net = ("--data", "digits", "--width", 0.02, "--objective", "supervised")
    model = tmp_path / "g.st"
    assert furlkit("init", *net, "--classes", 7, "-o", model) == 0
    err = refused(65, "--objective", "supervised", model=model)
    assert "10 classes" in err and "--classes 10" in err


def test_colour_images_for_a_grey_net(refused, five_clients, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "colour.npz", images=pixels, labels=np.arange(40) % 4)
    data, partition = tmp_path / "colour.npz", tmp_path / "p.st"
    assert furlkit("partition", "--data", data, "-o", partition) == 0
    err = refused(65, "--data", data, partition=partition)
    assert f"{five_clients / 'g.st'}: " in err and "--channels 3" in err
    err = refused(65, partition=partition)
    assert f"{partition}: " in err and "digits" in err


def test_a_client_without_images(refused, tmp_path):
    partition = tmp_path / "p.st"
    public = ("--public-client", 0)
    assert furlkit("partition", "--data", "digits", *public, "-o", partition) == 0
    err = refused(65, partition=partition)
    assert f"{partition}: client 0 has 0 images" in err


def test_a_client_that_is_not_there(refused, five_clients):
    err = refused(2, clients="5")
    assert f"--client 5: {five_clients / 'p.st'}" in err and "0 to 4" in err


def test_a_clients_model_in_place_of_the_global_one(refused, train):
    _, client = train("c")
    err = refused(65, model=client)
    assert f"{client}: " in err and "role client" in err


def test_a_model_of_another_partition(refused, train, tmp_path):
    _, client = train("c")
    model, other = tmp_path / "g1.st", tmp_path / "p.st"
    assert furlkit("aggregate", client, "-o", model) == 0
    assert furlkit("partition", "--data", "digits", "--seed", 9, "-o", other) == 0
    err = refused(65, model=model, partition=other)
    assert f"{model}: " in err and "another partition" in err


@pytest.mark.parametrize("odd", ["float64", "shape", "name", "lost"])
def test_tensors_that_do_not_fit_their_architecture(
    refused, five_clients, tmp_path, odd
):
    source = read_checkpoint(five_clients / "g.st")
    tensors, name = dict(source.tensors), "encoder.conv1.weight"
    array = tensors.pop(name)
    if odd != "lost":
        changed = array.astype("f8") if odd == "float64" else array
        changed = changed[..., :1] if odd == "shape" else changed
        tensors[name] = array
        tensors["strange" if odd == "name" else name] = changed
    model = tmp_path / "g.st"
    write_checkpoint(model, tensors, source.facts, Provenance("init"))
    for more in ((), ("--dry-run",)):
        err = refused(65, *more, model=model)
        assert f"{model}: " in err and "architecture" in err
        assert ("strange" if odd == "name" else name) in err


def test_paths_that_would_overwrite_each_other(refused, five_clients, tmp_path):
    err = refused(2, clients="0-2")
    assert "3 clients" in err and "pattern" in err
    several = ("-o", tmp_path / "c{client}", "--private-out", tmp_path / "x")
    plain = [
        FAST,
        (
            "local-train",
            five_clients / "p.st",
            five_clients / "g.st",
            "--client",
            "0-1",
        ),
    ]
    before = listing(tmp_path)
    assert furlkit(*plain[1], *plain[0], *several) == 2
    assert listing(tmp_path) == before
    same = tmp_path / "refused.safetensors"
    assert str(same) in refused(2, "--private-out", same)
    kept = tmp_path / "kept"
    err = refused(2, "--private", kept, "--private-out", kept)
    assert f"--private-out {kept}" in err
    assert furlkit(*plain[1][:-1], 0, *FAST, "-o", five_clients / "g.st") == 2
    assert furlkit(*plain[1][:-1], 0, *FAST, "-o", tmp_path) == 2


def test_a_round_after_the_end_of_a_cosine(refused, train, tmp_path):
    model = tmp_path / "g1.st"
    assert furlkit("aggregate", train("c")[1], "-o", model) == 0
    second = train("c2", "--schedule-rounds", 2, model=model)[1]
    assert furlkit("aggregate", second, "-o", tmp_path / "g2.st") == 0
    cosine = ("--schedule", "cosine", "--schedule-rounds", 2)
    err = refused(2, *cosine, model=tmp_path / "g2.st")
    assert "--schedule-rounds 2" in err and "round 3" in err


def test_a_dry_run_writes_nothing(train, tmp_path, capsys):
    code, output = train("c", "--dry-run", "--private-out", tmp_path / "kept")
    assert code == 0 and list(tmp_path.iterdir()) == []
    out, err = capsys.readouterr()
    assert out == (
        f"would write {output}: client 0, round 1, 288 images, 1 epochs of simclr\n"
    )
    assert err == ""


def test_batchnorm_statistics_stay_at_home(five_clients, train, tmp_path, refused):
    """Two rounds under --bn keep: what a client kept is what it starts from."""
    clients = [
        train(f"c{k}", "--private-out", tmp_path / f"k{k}", clients=k)[1]
        for k in (0, 1)
    ]
    model = tmp_path / "g1.st"
    assert furlkit("aggregate", *clients, "--bn", "keep", "-o", model) == 0
    kept = read_private(tmp_path / "k0", 0).tensors
    assert kept and all(map(is_batchnorm_statistic, kept))
    sent = read_checkpoint(clients[0]).tensors
    assert all(np.array_equal(array, sent[name]) for name, array in kept.items())
    own = ("--private", tmp_path / "k0", "--private-out", tmp_path / "k0b")
    code, second = train("second", *own, model=model)
    assert code == 0
    after = read_checkpoint(second)
    count = "encoder.bn1.num_batches_tracked"
    assert after.tensors[count] == 2 * kept[count] == 18
    assert after.header.inputs["private"] == read_private(tmp_path / "k0", 0).content
    _, newcomer = train("newcomer", model=model)
    assert read_checkpoint(newcomer).tensors[count] == 9
    err = refused(65, "--private", tmp_path / "k1", model=model)
    assert f"{tmp_path / 'k1'}: " in err and "client 1" in err
    err = refused(65, "--private", tmp_path / "k0b", model=model)
    assert f"{tmp_path / 'k0b'}: " in err and "round 2" in err


def test_a_private_file_of_another_net(refused, tmp_path):
    path = tmp_path / "kept"
    statistics = {"encoder.bn1.running_mean": np.zeros(3, "f4")}
    facts = PrivateFacts(0, 0, ["encoder"], [])
    write_private(path, statistics, {}, facts, Provenance("local-train"))
    err = refused(65, "--private", path)
    assert f"{path}: encoder.bn1.running_mean" in err and "(3,)" in err


def test_json_and_quiet(train, capsys):
    code, output = train("c", "-q", "--json")
    out, err = capsys.readouterr()
    assert code == 0 and err == ""
    data = json.loads(out)
    assert data["content"] == read_checkpoint(output).content
    assert (data["client"], data["round"], data["examples"]) == (0, 1, 288)


def test_a_bar_on_a_terminal_and_log_lines_elsewhere(five_clients, tmp_path):
    command = [sys.executable, "-m", "furlkit", "local-train"]
    files = [str(five_clients / "p.st"), str(five_clients / "g.st")]
    command += [*files, "--client", "0", *map(str, FAST), "-o", str(tmp_path / "c.st")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        pass  # The terminal is closed: the program has ended.
    out = process.communicate()[0].decode()
    os.close(ours)
    assert process.returncode == 0
    assert out.count("\n") == 1 and out.startswith(str(tmp_path / "c.st"))
    assert "━".encode() in seen and b"\x1b[" in seen
    assert b"client 0 epoch 1/1 loss" in seen


def test_statistics_that_the_global_model_has_too_are_reported_once(
    train, tmp_path, capsys
):
    assert train("first", "--private-out", tmp_path / "k")[0] == 0
    assert (
        furlkit("aggregate", tmp_path / "first.safetensors", "-o", tmp_path / "g1") == 0
    )
    capsys.readouterr()
    again = ("--private", tmp_path / "k")
    assert train("second", *again, model=tmp_path / "g1")[0] == 0
    err = capsys.readouterr().err
    assert err.count("warning: ") == 1
    assert str(tmp_path / "k") in err and "--bn keep" in err


@pytest.mark.parametrize(
    ("needs", "objective", "word"),
    [
        ({"heads": ("projector",)}, "rotation", "projector"),
        ({"pairs": True}, "moco", "two views"),
    ],
)
def test_a_term_needs_heads_and_views_of_the_objective(
    refused, monkeypatch, needs, objective, word
):
    entry = replace(catalogue.TERMS["proximal"], **needs)
    monkeypatch.setitem(catalogue.TERMS, "proximal", entry)
    message = refused(2, "--proximal", 0.1, "--objective", objective)
    assert "--proximal" in message and objective in message and word in message


def test_a_term_with_weights_of_the_last_round_needs_a_private_file(
    refused, monkeypatch
):
    entry = replace(catalogue.TERMS["proximal"], inputs=("received", "last"))
    monkeypatch.setitem(catalogue.TERMS, "proximal", entry)
    message = refused(2, "--proximal", 0.1)
    assert "--proximal" in message and "--private-out" in message
