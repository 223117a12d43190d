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
    """The commands that open a file: how each is given the one that does not fit."""
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
    "door, given, message",
    [
        (aggregate, "partition", "is a partition file; expected a checkpoint"),
        (aggregate, "global", "role global, the ones local-train writes (role client)"),
        (train_partition, "global", "is a checkpoint file; expected a partition"),
        (train, "partition", "is a partition file; expected a checkpoint"),
        (train, "client_0", "role client, the global model of the last round was"),
        (pretrain, "partition", "is a partition file; expected a checkpoint"),
        (
            aggregate_ensemble,
            "partition",
            "is a partition file, a features or similarity",
        ),
        (
            aggregate_ensemble,
            "client_0",
            "is a checkpoint file, a features or similarity",
        ),
        (distill_ensemble, "global", "is a checkpoint file"),
        (distill_start, "partition", "is a partition file; expected a checkpoint"),
        (evaluate, "partition", "is a partition file; expected a checkpoint"),
        (embed, "partition", "is a partition file; expected a checkpoint"),
        (export, "partition", "is a partition file; expected a checkpoint"),
        (init_from, "partition", "is a partition file; expected a checkpoint"),
        (plot, "global", "is a checkpoint file; expected a partition"),
        (packed, "global", "is a checkpoint file; expected a dataset"),
    ],
)
def test_wrong_kind(world, refused, door, given, message):
    path = world.folder / f"{given}.safetensors"
    refused(world.folder, 65, (path, message), *door(world, path))


def test_private_progress_metrics_and_journal_are_no_uploads(world, refused):
    tensors, made = {"w": np.ones(2)}, Provenance("local-train")
    private = world.folder / "private_0.safetensors"
    write_private(private, tensors, PrivateFacts(0, 1, ["a style"]), made)
    progress = ProgressFile(world.clients[0], made)
    progress.save(3, tensors, {})
    write_metrics(world.folder / "knn.json", {"accuracy": 1.0})
    for path, message in (
        (private, "is a private file; expected a checkpoint"),
        (progress.path, "is a progress file; expected a checkpoint"),
        (world.folder / "knn.json", "not a safetensors file"),
        (world.folder / "client_0.log.jsonl", "not a safetensors file"),
    ):
        refused(world.folder, 65, (path, message), *aggregate(world, path))


@pytest.mark.parametrize(
    "count, message",
    [
        (50, "one has 50 examples, the other 1,438"),
        (1438, "they have the same number of examples but other labels"),
    ],
)
def test_partition_of_another_dataset(world, run, refused, count, message):
    labels, other = world.folder / "labels.json", world.folder / "other.safetensors"
    labels.write_text(json.dumps([k % 10 for k in range(count)]))
    assert run("partition", "--data", labels, "-o", other).code == 0
    words = (other, "was made for another dataset than digits", message)
    refused(world.folder, 65, words, *train_partition(world, other))


def test_global_model_of_another_partition(world, run, refused):
    assert run(*aggregate(world, world.clients[0])).code == 0
    trained = world.output.rename(world.folder / "r1.safetensors")
    other = world.folder / "other.safetensors"
    assert run("partition", *DIGITS, "--clients", 4, "-o", other).code == 0
    words = (trained, "its clients were trained under another partition than", other)
    refused(world.folder, 65, words, *train(world, trained, other))


def test_client_that_is_not_there(world, refused):
    arguments = [3 if word == 0 else word for word in train(world, world.model)]
    words = ("--client 3", world.partition, "has the clients 0 to 2")
    refused(world.folder, 2, words, *arguments)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "door",
    [aggregate, train, pretrain, distill_start, evaluate, export, embed, init_from],
)
def test_values_that_are_not_finite(world, forge, refused, door, value):
    path = world.clients[0] if door is aggregate else world.model
    weight = Container(path).tensors()[WEIGHT]
    weight.reshape(-1)[3] = value
    forge(path, {WEIGHT: weight})
    words = (path, f"{WEIGHT} has 1 values that are NaN or infinite")
    refused(world.folder, 65, words, *door(world, path))


@pytest.mark.parametrize(
    "name, array, found",
    [
        (SCALE, np.ones(1, np.float32), " (1,), "),
        (SCALE, np.ones((8, 1), np.float32), " (8, 1), "),
        (WEIGHT, np.ones((1, 1, 1, 1), np.float32), " (1, 1, 1, 1), "),
        (WEIGHT, None, f"lacks {WEIGHT}"),
        ("encoder.more", np.ones(1, np.float32), "has "),
    ],
)
@pytest.mark.parametrize(
    "door", [aggregate, train, pretrain, distill_start, evaluate, embed]
)
def test_tensors_of_another_net(world, forge, refused, door, name, array, found):
    """Above all, (1,) in place of (8,) is never stretched to fit."""
    path = world.clients[0] if door is aggregate else world.model
    forge(path, {name: array})
    refused(world.folder, 65, (path, name, found), *door(world, path))


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8"])
def test_upload_of_another_type(world, forge, refused, dtype):
    path = world.clients[2]
    forge(path, {WEIGHT: Container(path).tensors()[WEIGHT].astype(dtype)})
    words = (path, f"{WEIGHT} is {np.dtype(dtype)}, the others have float32")
    refused(world.folder, 65, words, *aggregate(world, world.clients[0]))


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8"])
@pytest.mark.parametrize("door", [train, pretrain, distill_start, evaluate])
def test_global_model_of_another_type(world, forge, refused, door, dtype):
    weight = Container(world.model).tensors()[WEIGHT].astype(dtype)
    forge(world.model, {WEIGHT: weight})
    refused(world.folder, 65, (world.model, WEIGHT), *door(world, world.model))


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
    for door in (train, pretrain, distill_start, evaluate):
        refused(world.folder, 65, (world.model,), *door(world, world.model))


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"round": 0}, "its round is 0, the others have 1; train that client again"),
        ({"parent": "b" * 64}, f"its parent is {'b' * 64}, the others have"),
        ({"client": 2}, "are both of client 2 and differ; leave one of them out"),
        ({"examples": 0}, "says it was trained on 0 examples"),
        ({"std": [9.0]}, "the others have"),
        ({"architecture": {"encoder": "x"}}, "the others have"),
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
    words = ("3 clients have reported, --min-clients", "run the same command")
    arguments = aggregate(world, world.clients[0])
    refused(world.folder, 75, words, *arguments, "--min-clients", 4)


def test_weights_that_lack_a_client(world, refused):
    weights = world.folder / "weights.json"
    arguments = (*aggregate(world, world.clients[0]), "--weights", weights)
    refused(world.folder, 65, (weights, "no such file"), *arguments)
    for text, code, message in (
        ('{"0": 1, "1": 1}', 2, "has no weight for client 2"),
        ('{"0": 1, "1": 1, "2": "x"}', 65, "wanted an object like"),
        ('{"0": 1,', 65, "is not JSON"),
    ):
        weights.write_text(text)
        refused(world.folder, code, (weights, message), *arguments)


def test_weights_that_are_neither_a_word_nor_a_file(world, refused):
    arguments = (*aggregate(world, world.clients[0]), "--weights", "unifrom")
    words = ("--weights unifrom: no such file; wanted examples, uniform",)
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
        refused(world.folder, 2, (f"-o {client}: this command uses that",), *command)


def test_a_device_is_looked_for_before_any_work(world, refused):
    train = ("local-train", world.partition, world.model, "--data", "digits")
    more = ("--client", 0, "--device", "cuda:99", "--dry-run", "-o", world.output)
    refused(world.folder, 2, ("--device cuda:99",), *train, *more)
