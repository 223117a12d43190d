import json

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.evaluation.knn import predict_knn
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.features import read_features
from tests.helpers import furlkit, round_0


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A client's model, and a global one whose BatchNorm stayed with the clients."""
    folder = round_0(tmp_path_factory.mktemp("world"))
    fast = ("--data", "digits", "--epochs", 1, "--client", 0, "--seed", 5)
    client = folder / "c.st"
    start = (folder / "p.st", folder / "g.st")
    assert furlkit("local-train", *start, *fast, "-o", client) == 0
    assert furlkit("aggregate", client, "--bn", "keep", "-o", folder / "keep.st") == 0
    return folder


@pytest.fixture
def evaluate(world, tmp_path):
    def run(name, protocol, *more, model=world / "c.st"):
        output = tmp_path / f"{name}.json"
        more = ("--data", "digits", *more)
        return furlkit("evaluate", protocol, model, *more, "-o", output), output

    return run


@pytest.mark.parametrize("protocol", [("linear", "--epochs", 3), ("knn", "--k", 20)])
def test_a_score_says_what_was_scored_and_how(world, evaluate, protocol, capsys):
    seed = ("--seed", 2) if protocol[0] == "linear" else ()
    code, path = evaluate("score", *protocol, *seed)
    assert code == 0
    found = json.loads(path.read_text())
    assert found["kind"] == "metrics" and found["protocol"] == protocol[0]
    confusion = np.array(found["confusion"])
    assert confusion.shape == (10, 10) and confusion.sum() == 359
    assert found["train_examples"] == 1438 and found["test_examples"] == 359
    assert found["accuracy"] == pytest.approx(np.trace(confusion) / 359)
    recall = np.diag(confusion) / confusion.sum(axis=1)
    assert found["per_class"] == pytest.approx(recall.tolist())
    assert found["class_names"] == list("0123456789")
    assert found["seed"] == (2 if seed else None)
    assert found["options"][protocol[1][2:]] == protocol[2]
    model = read_checkpoint(world / "c.st")
    assert found["checkpoint"]["content"] == model.content
    assert found["checkpoint"]["seed"] == 5
    facts = found["checkpoint"]["facts"]
    assert (facts["role"], facts["round"], facts["client"]) == ("client", 1, 0)
    assert capsys.readouterr().out == (
        f"{path}: {protocol[0]} accuracy {100 * found['accuracy']:.2f}% on 359 images, "
        "client model of round 1\n"
    )


def test_knn_scores_the_features_that_embed_writes(world, evaluate, tmp_path):
    parts = {}
    for split in ("train", "test"):
        path = tmp_path / f"{split}.st"
        data = ("--data", "digits", "--split", split)
        assert furlkit("embed", world / "c.st", *data, "-o", path) == 0
        labels = torch.from_numpy(Source("digits", split=split).images().labels)
        parts[split] = torch.from_numpy(read_features(path).rows), labels
    predicted = predict_knn(*parts["train"], parts["test"][0], 10, 5, 0.2)
    expected = (predicted == parts["test"][1]).double().mean().item()
    _, path = evaluate("knn", "knn", "--k", 5, "--temperature", 0.2)
    assert json.loads(path.read_text())["accuracy"] == pytest.approx(expected)


def test_the_last_epoch_counts_and_not_the_best(evaluate):
    """The head's steps do not depend on --epochs; the best accuracy would never fall."""
    sgd = ("--optimiser", "sgd", "--lr", 3, "--momentum", 0.9)
    found = [
        json.loads(evaluate(str(n), "linear", *sgd, "--epochs", n)[1].read_text())
        for n in range(1, 7)
    ]
    accuracies = [score["accuracy"] for score in found]
    assert accuracies != sorted(accuracies)


@pytest.mark.parametrize("protocol", [("linear", "--epochs", 2, "--seed", 3), ("knn",)])
def test_same_command_same_bytes(evaluate, protocol):
    paths = [evaluate(name, *protocol)[1] for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_probe_reads_the_seed(evaluate):
    probe = ("linear", "--epochs", 1)
    one, other = (evaluate(str(s), *probe, "--seed", s)[1] for s in (0, 1))
    confusions = [json.loads(path.read_text())["confusion"] for path in (one, other)]
    assert confusions[0] != confusions[1]


def test_a_packed_file_has_no_test_split_of_its_own(evaluate, tmp_path, capsys):
    train, test = tmp_path / "train.safetensors", tmp_path / "test.safetensors"
    assert furlkit("pack", "digits", "-o", train) == 0
    assert furlkit("pack", "digits", "--split", "test", "-o", test) == 0
    code, path = evaluate("x", "knn", "--data", train)
    assert code == 2 and not path.exists()
    assert f"--data {train}: has no test split" in capsys.readouterr().err
    code, path = evaluate("packed", "knn", "--data", train, "--test-data", test)
    assert code == 0
    assert path.read_bytes() == evaluate("named", "knn")[1].read_bytes()


def test_a_dry_run_writes_nothing(evaluate, tmp_path, capsys):
    for protocol in ("linear", "knn"):
        assert evaluate("x", protocol, "--dry-run")[0] == 0
    assert list(tmp_path.iterdir()) == []
    assert "would score" in capsys.readouterr().out


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_model_whose_batchnorm_stayed_with_the_clients(
    world, evaluate, tmp_path, capsys, more
):
    assert evaluate("x", "knn", *more, model=world / "keep.st")[0] == 65
    err = capsys.readouterr().err
    assert f"{world / 'keep.st'}: " in err and "BatchNorm" in err
    assert list(tmp_path.iterdir()) == []


def test_images_without_labels_score_nothing(evaluate, tmp_path, capsys):
    data = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", data) == 0
    assert evaluate("x", "knn", "--test-data", data)[0] == 65
    assert f"{data}: has no labels" in capsys.readouterr().err
