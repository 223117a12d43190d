"""Files that are whole but do not belong where they are given."""

import json

import numpy as np
import pytest

from furlkit.files.container.read import Container
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.metrics import write_metrics
from furlkit.files.private import PrivateFacts, write_private
from furlkit.files.progress import ProgressFile

DIGITS = ("--data", "digits")
WEIGHT, SCALE = "encoder.conv2.weight", "encoder.bn3.weight"


def aggregate(world, path):
    """The first of the commands that open a file; each is given one that does not fit."""
    return "aggregate", path, *world.clients[1:], "-o", world.output


def train(world, path, partition=None):
    rest = ("--client", 0, "--epochs", 1, "-o", world.output)
    return "local-train", partition or world.partition, path, *DIGITS, *rest


def train_partition(world, path):
    return train(world, world.model, path)


def pretrain(world, path):
    outputs = ("--targets-out", world.folder / "targets", "-o", world.output)
    return "pretrain-align", path, *DIGITS, "--epochs", 1, *outputs


def aggregate_ensemble(world, path):
    return "aggregate", "--rule", "ensemble", path, "-o", world.output


def distill_ensemble(world, path):
    return "distill", path, world.model, *DIGITS, "--epochs", 1, "-o", world.output


def distill_start(world, path):
    """From an ensemble that fits, of nine images."""
    ensemble = world.folder / "ensemble.safetensors"
    dataset = Container(world.partition).header.facts["dataset"]
    facts = EnsembleFacts("rows", [0], 1, 0.1, dataset, "all", 9)
    parts, made = {0: np.eye(9, dtype=np.float32)}, Provenance("aggregate")
    write_parts(ensemble, parts, {}, np.arange(9), facts, made)
    rest = ("--epochs", 1, "-o", world.output)
    return "distill", ensemble, path, *DIGITS, *rest


def evaluate(world, path):
    return "evaluate", "knn", path, *DIGITS, "-o", world.output


def embed(world, path):
    return "embed", path, *DIGITS, "-o", world.output


def export(world, path):
    return "export", path, "-o", world.folder / "exported"


def init_from(world, path):
    rest = ("--width", 0.02, "--projector", "8,4", "-o", world.output)
    return "init", *DIGITS, "--from", path, *rest


def plot(world, path):
    return "plot", "partition", path, "-o", world.folder / "heat.png"


def packed(world, path):
    return "partition", "--data", path, "-o", world.output


@pytest.mark.parametrize(
    "command, given, found, expected",
    [
        (aggregate, "partition", "partition", "checkpoint"),
        (aggregate, "global", "role global", "role client"),
        (train_partition, "global", "checkpoint", "partition"),
        (train, "partition", "partition", "checkpoint"),
        (train, "client_0", "role client", "global"),
        (pretrain, "partition", "partition", "checkpoint"),
        (aggregate_ensemble, "partition", "partition", "similarity"),
        (aggregate_ensemble, "client_0", "checkpoint", "similarity"),
        (distill_ensemble, "global", "checkpoint", "ensemble"),
        (distill_start, "partition", "partition", "checkpoint"),
        (evaluate, "partition", "partition", "checkpoint"),
        (embed, "partition", "partition", "checkpoint"),
        (export, "partition", "partition", "checkpoint"),
        (init_from, "partition", "partition", "checkpoint"),
        (plot, "global", "checkpoint", "partition"),
        (packed, "global", "checkpoint", "dataset"),
    ],
)
def test_wrong_kind(world, refused, command, given, found, expected):
    path = world.folder / f"{given}.safetensors"
    refused(world.folder, 65, (path, found, expected), *command(world, path))


def test_private_progress_metrics_and_journal_are_no_uploads(world, refused):
    tensors, provenance = {"w": np.ones(2)}, Provenance("local-train")
    private = world.folder / "private_0.safetensors"
    facts = PrivateFacts(0, 1, ["a style"], [])
    write_private(private, tensors, {}, facts, provenance)
    progress = ProgressFile(world.clients[0], provenance)
    progress.save(3, tensors, {})
    write_metrics(world.folder / "knn.json", {"accuracy": 1.0})
    for path, message in (
        (private, "private file"),
        (progress.path, "progress file"),
        (world.folder / "knn.json", "safetensors file"),
        (world.folder / "client_0.log.jsonl", "safetensors file"),
    ):
        refused(world.folder, 65, (path, message), *aggregate(world, path))


@pytest.mark.parametrize("count, message", [(50, "50"), (1438, "labels")])
def test_partition_of_another_dataset(world, run, refused, count, message):
    labels, other = world.folder / "labels.json", world.folder / "other.safetensors"
    labels.write_text(json.dumps([k % 10 for k in range(count)]))
    assert run("partition", "--data", labels, "-o", other).code == 0
    words = (other, "digits", message)
    refused(world.folder, 65, words, *train_partition(world, other))


def test_global_model_of_another_partition(world, run, refused):
    assert run(*aggregate(world, world.clients[0])).code == 0
    trained = world.output.rename(world.folder / "r1.safetensors")
    other = world.folder / "other.safetensors"
    assert run("partition", *DIGITS, "--clients", 4, "-o", other).code == 0
    words = (trained, other, "partition")
    refused(world.folder, 65, words, *train(world, trained, other))


def test_client_that_is_not_there(world, refused):
    arguments = [3 if word == 0 else word for word in train(world, world.model)]
    words = ("--client 3", world.partition, "0 to 2")
    refused(world.folder, 2, words, *arguments)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "command",
    [aggregate, train, pretrain, distill_start, evaluate, export, embed, init_from],
)
def test_values_that_are_not_finite(world, forge, refused, command, value):
    path = world.clients[0] if command is aggregate else world.model
    weight = Container(path).tensors()[WEIGHT]
    weight.reshape(-1)[3] = value
    forge(path, {WEIGHT: weight})
    words = (path, WEIGHT, "NaN")
    refused(world.folder, 65, words, *command(world, path))


@pytest.mark.parametrize(
    "name, array, found",
    [
        (SCALE, np.ones(1, np.float32), "(1,)"),
        (SCALE, np.ones((8, 1), np.float32), "(8, 1)"),
        (WEIGHT, np.ones((1, 1, 1, 1), np.float32), "(1, 1, 1, 1)"),
        (WEIGHT, None, WEIGHT),
        ("encoder.more", np.ones(1, np.float32), "encoder.more"),
    ],
)
@pytest.mark.parametrize(
    "command", [aggregate, train, pretrain, distill_start, evaluate, embed]
)
def test_tensors_of_another_net(world, forge, refused, command, name, array, found):
    """Above all, (1,) in place of (8,) is never broadcast."""
    path = world.clients[0] if command is aggregate else world.model
    forge(path, {name: array})
    refused(world.folder, 65, (path, name, found), *command(world, path))


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8"])
def test_upload_of_another_type(world, forge, refused, dtype):
    path = world.clients[2]
    forge(path, {WEIGHT: Container(path).tensors()[WEIGHT].astype(dtype)})
    words = (path, WEIGHT, str(np.dtype(dtype)), "float32")
    refused(world.folder, 65, words, *aggregate(world, world.clients[0]))


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8"])
@pytest.mark.parametrize("command", [train, pretrain, distill_start, evaluate])
def test_global_model_of_another_type(world, forge, refused, command, dtype):
    weight = Container(world.model).tensors()[WEIGHT].astype(dtype)
    forge(world.model, {WEIGHT: weight})
    refused(world.folder, 65, (world.model, WEIGHT), *command(world, world.model))


@pytest.mark.parametrize(
    "architecture",
    [
        {},
        {"encoder": "x"},
        {"image_size": "8"},
        {"image_size": -8},
        {"width": 1e9},
        {"projector": [0]},
        {"projector": "8,4"},
        {"channels": 0},
        {"unknown": 1},
    ],
)
def test_architecture_that_cannot_be(world, forge, refused, architecture):
    known = Container(world.model).header.facts["architecture"]
    words = {**known, **architecture} if architecture else {}
    forge(world.model, facts={"architecture": words})
    for command in (train, pretrain, distill_start, evaluate):
        refused(world.folder, 65, (world.model,), *command(world, world.model))


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"round": 0}, "round"),
        ({"parent": "b" * 64}, "b" * 64),
        ({"client": 2}, "client 2"),
        ({"examples": 0}, "0 examples"),
        ({"std": [9.0]}, "std"),
        ({"architecture": {"encoder": "x"}}, "architecture"),
    ],
)
def test_upload_that_does_not_fit_the_others(world, forge, refused, facts, message):
    path = forge(world.clients[0], facts=facts)
    refused(world.folder, 65, (world.folder, message), *aggregate(world, path))


def test_same_file_twice_is_one_vote(world, run):
    assert run(*aggregate(world, world.clients[0])).code == 0
    once = world.output.read_bytes()
    twice = (world.clients[2], world.clients[0], world.clients[1], *world.clients)
    assert run("aggregate", *twice, "-o", world.output).code == 0
    assert world.output.read_bytes() == once


def test_too_few_clients(world, refused):
    words = ("3 clients", "--at-least")
    arguments = aggregate(world, world.clients[0])
    refused(world.folder, 75, words, *arguments, "--at-least", 4)


def test_weights_that_lack_a_client(world, refused):
    weights = world.folder / "weights.json"
    arguments = (*aggregate(world, world.clients[0]), "--weights", weights)
    refused(world.folder, 65, (weights, "no such file"), *arguments)
    for text, code, message in (
        ('{"0": 1, "1": 1}', 2, "client 2"),
        ('{"0": 1, "1": 1, "2": "x"}', 65, "object"),
        ('{"0": 1,', 65, "JSON"),
    ):
        weights.write_text(text)
        refused(world.folder, code, (weights, message), *arguments)


def test_weights_that_are_neither_a_word_nor_a_file(world, refused):
    arguments = (*aggregate(world, world.clients[0]), "--weights", "unifrom")
    words = ("--weights unifrom", "no such file")
    refused(world.folder, 65, words, *arguments)


def test_an_output_that_is_an_input(world, refused):
    client, data = world.clients[0], ("--data", "digits")
    for command in (
        ("aggregate", *world.clients, "-o", client),
        ("embed", client, *data, "-o", client),
        (
            "embed",
            client,
            *data,
            "--partition",
            client,
            "-o",
            world.folder / "." / client,
        ),
        ("evaluate", "knn", client, *data, "-o", client),
        ("init", *data, "--from", client, "-o", client),
        ("pack", client, "-o", client),
    ):
        refused(world.folder, 2, (f"-o {client}",), *command)


def test_a_device_is_looked_for_before_any_work(world, refused):
    train = ("local-train", world.partition, world.model, "--data", "digits")
    more = ("--client", 0, "--device", "cuda:99", "--dry-run", "-o", world.output)
    refused(world.folder, 2, ("--device cuda:99",), *train, *more)
