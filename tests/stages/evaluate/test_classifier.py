import json

import numpy as np
import pytest
import torch

from furlkit.data.augment import Augmentation
from furlkit.data.sets import digits, source
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.models import embedding
from furlkit.models.embedding import predict
from furlkit.models.loading import load_net, view_of
from tests.stages.evaluate.greys import mean_grey_encoder, save_greys

DIGITS = ("--data", "digits")
SMALL = ("--width", 0.02, "--objective", "supervised")
CENTRES = (0.0, 0.4, 0.8)
GREYS, LABELS = (0, 100, 200, 255), (0, 1, 1, 2)


@pytest.fixture
def score(run, tmp_path):
    """Score a model; returns the outcome and the output file."""

    def call(model, *more, name="score"):
        output = tmp_path / f"{name}.json"
        return run("evaluate", "classifier", model, *more, "-o", output), output

    return call


@pytest.fixture
def by_grey(run, forge, tmp_path):
    """A net with mean grey for h, and the class whose centre is nearest to it."""
    path = tmp_path / "grey.st"
    size = ("--image-size", 8, "--channels", 1, "--classes", 3, "--mean", 0, "--std", 1)
    assert run("init", *SMALL, *size, "-o", path).code == 0
    shapes = {k: v.shape for k, v in Container(path).tensors().items()}
    tensors = mean_grey_encoder(shapes)
    t = np.array(CENTRES, "f4")
    weight = np.zeros(shapes["classifier.weight"], "f4")
    weight[:, 0] = 2 * t
    tensors |= {"classifier.weight": weight, "classifier.bias": -(t**2)}
    return forge(path, tensors)


def greys(path, labels=LABELS, channels=1, **more):
    """Images of one grey each: by 0.4 and 0.8 of white they are 0, 1, 2, 2."""
    return save_greys(path, GREYS, labels, channels, **more)


@pytest.fixture
def untrained(run, tmp_path):
    path = tmp_path / "g.st"
    assert run("init", *DIGITS, *SMALL, "-o", path).code == 0
    return path


def test_accuracy_by_hand(score, by_grey, tmp_path):
    done, path = score(by_grey, "--test-data", greys(tmp_path / "t.npz"))
    found = json.loads(path.read_text())
    line = f"{path}: classifier accuracy 75.00% on 4 images, global model of round 0\n"
    assert done == (0, line, "")
    assert (found["kind"], found["protocol"]) == ("metrics", "classifier")
    assert found["accuracy"] == 0.75 and found["per_class"] == [1, 0.5, 1]
    assert found["confusion"] == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]
    assert found["test_examples"] == 4 and found["class_names"] == ["0", "1", "2"]


def test_it_says_what_was_scored_and_on_what(score, untrained):
    path = score(untrained, *DIGITS, "--threads", 1)[1]
    found, model = json.loads(path.read_text()), read_checkpoint(untrained)
    assert found["checkpoint"]["content"] == model.content
    assert found["checkpoint"]["stage"] == "init"
    assert found["checkpoint"]["facts"] == model.header.facts
    assert found["data"] == {
        "test": Source("digits", split="test").images().fingerprint
    }
    assert found["options"]["threads"] == 1 and found["seed"] is None
    assert "train_examples" not in found


def test_a_round_of_supervised_clients(run, score, tmp_path):
    """The clients' models and their mean, against the predictions of finetuning."""
    paths = [tmp_path / f"c{k}.st" for k in range(2)]
    steps = (
        ("partition", *DIGITS, "--clients", 2, "-o", tmp_path / "p"),
        ("init", *DIGITS, "--width", 0.05, "--objective", "supervised",
         "-o", tmp_path / "g"),
        ("local-train", tmp_path / "p", tmp_path / "g", *DIGITS, "--client", "0-1",
         "--preset", "fedavg", "--epochs", 2, "--batch-size", 32, "--lr", 0.003,
         "--flip", 0, "--crop-scale", "1,1",
         "-o", tmp_path / "c{client}.st"),
        ("aggregate", *paths, "--preset", "fedavg", "-o", tmp_path / "mean.st"),
    )  # fmt: skip
    assert [run(*step).code for step in steps] == [0] * len(steps)
    test = Source("digits", split="test").images()
    for path, who in ((paths[0], "client"), (tmp_path / "mean.st", "global")):
        done, output = score(path, *DIGITS, "--preset", "fedavg")
        model = read_checkpoint(path)
        net = load_net(model, torch.device("cpu"))
        expected = predict(net, test.images, view_of(model, Augmentation())).numpy()
        found = json.loads(output.read_text())
        assert done.out.endswith(f"on 359 images, {who} model of round 1\n")
        assert found["accuracy"] == (expected == test.labels).mean() > 0.5
        text = run("inspect", output).out
        assert f"classifier accuracy {100 * found['accuracy']:.2f} %" in text


@pytest.mark.parametrize("size", [256, 7, 1000])
def test_same_bytes_again_and_in_batches_of_any_size(
    score, untrained, monkeypatch, size
):
    expected = score(untrained, *DIGITS)[1].read_bytes()
    assert np.count_nonzero(np.sum(json.loads(expected)["confusion"], axis=0)) > 1
    monkeypatch.setattr(embedding, "BATCH", size)
    assert score(untrained, *DIGITS, name="other")[1].read_bytes() == expected


def test_a_dry_run_checks_and_writes_nothing(score, untrained):
    done, path = score(untrained, *DIGITS, "--dry-run")
    assert done[:2] == (0, f"would score {untrained} by classifier on 359 images\n")
    assert not path.exists()


def test_only_the_test_split_of_a_named_set_is_read(score, untrained, monkeypatch):
    opened, read = [], digits.read_digits
    monkeypatch.setattr(digits, "read_digits", lambda s: opened.append(s) or read(s))
    assert score(untrained, *DIGITS)[0].code == 0
    assert opened == ["test"]


def test_no_image_is_read_of_data_that_only_gives_the_classes(
    score, by_grey, tmp_path, monkeypatch
):
    """The test set lacks class 2; images of --data would not even fit the net."""
    test = greys(tmp_path / "t.npz", labels=(0, 1, 1, 1))
    train = greys(tmp_path / "d.npz", channels=3, class_names=np.array(list("abc")))
    seen, load = [], source.read_npz
    monkeypatch.setattr(
        source, "read_npz", lambda *a: seen.append(a[0].name) or load(*a)
    )
    done, path = score(by_grey, "--data", train, "--test-data", test)
    found = json.loads(path.read_text())
    assert done.code == 0 and found["accuracy"] == 0.5
    assert found["per_class"] == [1, 1 / 3, None]
    assert found["class_names"] == list("abc")
    assert seen == ["t.npz"]


def test_a_packed_test_split_scores_as_the_named_one(run, score, untrained, tmp_path):
    packed = tmp_path / "test.safetensors"
    assert run("pack", "digits", "--split", "test", "-o", packed).code == 0
    expected = score(untrained, *DIGITS, name="named")[1].read_bytes()
    for more in (DIGITS, ()):
        path = score(untrained, *more, "--test-data", packed)[1]
        assert path.read_bytes() == expected


@pytest.mark.parametrize("preset", ["fedavg", "flesd-fedavg", "digits"])
def test_a_preset_need_not_have_its_table(score, untrained, preset):
    """A recipe names its preset on every stage."""
    expected = score(untrained, *DIGITS)[1].read_bytes()
    done, path = score(untrained, "--preset", preset, *DIGITS)
    assert done.code == 0 and path.read_bytes() == expected


def test_a_preset_that_has_the_table_is_read(score, untrained, tmp_path):
    preset = tmp_path / "own.toml"
    preset.write_text('[evaluate.classifier]\ndata = "digits"\nthreads = 2\n')
    done, path = score(untrained, "--preset", preset, "--threads", 1)
    assert done.code == 0
    assert json.loads(path.read_text())["options"]["threads"] == 1
    preset.write_text("[evaluate.classifier]\nepochs = 2\n")
    done, _ = score(untrained, "--preset", preset, *DIGITS)
    assert done.code == 2 and "'epochs'" in done.err
    done, _ = score(untrained, "--preset", "nope", *DIGITS)
    assert done.code == 2 and "--preset nope" in done.err


@pytest.fixture
def no_score(refused, tmp_path):
    """The command is refused, and so is its dry run; the output stays what it was."""

    def check(code, words, model, *more):
        output = tmp_path / "score.json"
        output.touch()
        command = ("evaluate", "classifier", model, *more)
        for dry in ((), ("--dry-run",)):
            refused(tmp_path, code, words, *command, *dry, "-o", output)

    return check


def test_a_model_without_a_classifier(run, no_score, tmp_path):
    path = tmp_path / "g.st"
    assert run("init", *DIGITS, "--width", 0.02, "-o", path).code == 0
    no_score(65, (path, "classifier", "--objective supervised"), path, *DIGITS)


def test_other_numbers_of_classes(no_score, by_grey, tmp_path):
    no_score(65, (by_grey, "3 classes", "digits has 10"), by_grey, *DIGITS)
    few = greys(tmp_path / "few.npz", labels=(0, 1, 1, 0))
    words = (by_grey, "3 classes", f"{few} has 2")
    no_score(65, (*words, "--data"), by_grey, "--test-data", few)
    no_score(65, words, by_grey, "--test-data", few, "--data", few)
    many = greys(tmp_path / "many.npz", labels=(0, 1, 2, 3))
    words = (by_grey, "3 classes", f"{many} has 4")
    fits = greys(tmp_path / "fits.npz")
    no_score(65, words, by_grey, "--test-data", many)
    no_score(65, words, by_grey, "--test-data", fits, "--data", many)


def test_classes_of_other_names(score, no_score, by_grey, tmp_path):
    def named(name, *classes):
        return greys(tmp_path / f"{name}.npz", class_names=np.array(classes))

    train, test = named("train", "ant", "bee", "cat"), named("t", "ant", "cat", "dog")
    words = (test, train, "class 1", "'cat'", "'bee'")
    no_score(65, words, by_grey, "--data", train, "--test-data", test)
    numbered = greys(tmp_path / "numbered.npz")
    for one, other in ((train, numbered), (numbered, train), (train, train)):
        done, path = score(by_grey, "--data", one, "--test-data", other)
        assert done.code == 0
        assert json.loads(path.read_text())["class_names"] == ["ant", "bee", "cat"]


def test_a_class_that_the_test_folder_lacks(run, no_score, tmp_path):
    """A folder numbers the classes it has, so that one missing shifts the others."""
    from PIL import Image

    for split, classes in (("train", "abc"), ("test", "ab")):
        for name in classes:
            (tmp_path / split / name).mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / split / name / "0.png")
    model = tmp_path / "colour.st"
    size = ("--image-size", 8, "--channels", 3, "--classes", 3)
    assert run("init", *SMALL, *size, "-o", model).code == 0
    train, test = tmp_path / "train", tmp_path / "test"
    words = (test, train, "class 2", "'c'")
    no_score(65, words, model, "--data", train, "--test-data", test)


def test_images_of_other_channels_or_without_labels(no_score, by_grey, tmp_path):
    colour = greys(tmp_path / "colour.npz", channels=3)
    no_score(65, (by_grey, colour, "--channels 3"), by_grey, "--test-data", colour)
    bare = greys(tmp_path / "bare.npz", labels=None)
    no_score(65, (bare, "labels"), by_grey, "--test-data", bare)


def test_a_model_whose_h_is_not_finite(score, forge, by_grey, tmp_path):
    weight = Container(by_grey).tensors()["encoder.fc.weight"]
    weight[0, 0], bias = 3e38, np.full(len(weight), 3e38, "f4")
    forge(by_grey, {"encoder.fc.weight": weight, "encoder.fc.bias": bias})
    done, path = score(by_grey, "--test-data", greys(tmp_path / "t.npz"))
    assert done.code == 65 and not path.exists()
    assert f"error: {by_grey}: " in done.err and "NaN" in done.err


def test_wrong_usage(no_score, refused, by_grey, tmp_path):
    fits = greys(tmp_path / "fits.npz")
    words = (f"--data {fits}", "test split", "--test-data")
    no_score(2, words, by_grey, "--data", fits)
    no_score(2, ("--data", "--test-data"), by_grey)
    for output in (by_grey, fits):
        command = ("evaluate", "classifier", by_grey, "--test-data", fits, "-o", output)
        refused(tmp_path, 2, (f"-o {output}",), *command)


def test_files_that_are_no_models(refused, by_grey, tmp_path):
    fits, broken = greys(tmp_path / "fits.npz"), tmp_path / "broken.st"
    broken.write_bytes(by_grey.read_bytes()[:-1])
    for model, word in (
        (fits, fits),
        (broken, "truncated"),
        (tmp_path / "no", "no such file"),
    ):
        command = ("evaluate", "classifier", model, "--test-data", fits)
        refused(tmp_path, 65, (word, model), *command, "-o", tmp_path / "s.json")
