"""evaluate cluster on images of one grey each, whose clusters are known by hand."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from furlkit import catalogue
from furlkit.catalogue import Head
from furlkit.files.container.read import Container
from furlkit.models.embedding import cluster_probabilities
from tests.stages.evaluate.greys import mean_grey_encoder, save_greys

CENTRES, SCALE = (0.0, 0.5, 1.0), 20
GREYS = (0, 4, 9, 120, 130, 250, 255)
KMEANS = ("--kmeans", 3)


@pytest.fixture
def grey(run, forge, tmp_path):
    """A model with h = (mean grey, 1, 0, ...): greys differ in their direction."""
    path = tmp_path / "grey.st"
    size = ("--image-size", 8, "--channels", 1, "--mean", 0, "--std", 1)
    words = ("--width", 0.02, "--projector", "8,4")
    assert run("init", *words, *size, "-o", path).code == 0
    shapes = {k: v.shape for k, v in Container(path).tensors().items()}
    tensors = mean_grey_encoder(shapes)
    tensors["encoder.fc.bias"][1] = 1
    return forge(path, tensors)


@pytest.fixture
def headed(grey, forge, monkeypatch):
    """The same with clusters 0, 1 and 2 around black, grey and white, as logits."""
    head = Head("clusters", form="linear", widths=(3,))
    monkeypatch.setitem(
        catalogue.HEADS, "clusters", catalogue.HEADS.get("clusters", head)
    )
    opened = Container(grey)
    t, width = np.array(CENTRES, "f4"), opened.tensors()["encoder.fc.bias"].shape[0]
    weight = np.zeros((3, width), "f4")
    weight[:, 0] = SCALE * 2 * t
    tensors = {"clusters.weight": weight, "clusters.bias": -SCALE * t**2}
    architecture = opened.header.facts["architecture"]
    heads = {**architecture["heads"], "clusters": [3]}
    return forge(grey, tensors, {"architecture": {**architecture, "heads": heads}})


def greys(path, labels=None, values=GREYS):
    return save_greys(path, values, labels)


@pytest.fixture
def evaluate(run, tmp_path):
    def call(model, *more, labels=(2, 2, 0, 0, 0, 1, 1)):
        test, output = greys(tmp_path / "t.npz", labels), tmp_path / "c.json"
        data = ("--test-data", test)
        done = run("evaluate", "cluster", model, *data, *more, "-o", output)
        call.line = done.out
        return done.code, output

    return call


def test_a_head_by_hand(score, evaluate, headed):
    """Black is class 2 but for one, grey class 0, white class 1."""
    found = score(headed)
    assert (found["kind"], found["protocol"]) == ("metrics", "cluster")
    assert found["accuracy"] == 6 / 7 and found["per_class"] == [2 / 3, 1, 1]
    assert found["matching"] == [1, 2, 0] and found["occupancy"] == [3, 2, 2]
    assert found["confusion"] == [[2, 0, 1], [0, 2, 0], [0, 0, 2]]
    assert found["surest"] == [[0, 1, 2], [4, 3], [6, 5]]
    assert found["clusters"] == found["classes"] == 3
    assert found["confident"] == 4 / 7 and found["test_examples"] == 7
    assert "repeats" not in found and found["options"]["threshold"] == 0.99
    assert evaluate.line.endswith(
        "cluster accuracy 85.71% on 7 images, global model of round 0; NMI "
        f"{found['nmi']:.3f}, ARI {found['ari']:.3f}, 3 of 3 clusters filled, 57.1% of "
        "the images sure (0.99 or more)\n"
    )


@pytest.mark.parametrize("black, warned", [(18, False), (19, True)])
def test_a_collapsed_clustering_is_warned_of(
    run, headed, forge, tmp_path, black, warned
):
    forge(headed, {}, {"round": 1})
    values = (0,) * black + (255,) * (20 - black)
    data = greys(tmp_path / "t.npz", [0, 1] * 10, values)
    words = ("--test-data", data, "-o", tmp_path / "c.json")
    done = run("evaluate", "cluster", headed, *words)
    assert done.code == 0
    assert (f"{headed}: the clustering has collapsed: 95%" in done.err) == warned
    assert ("--entropy-weight" in done.err) == warned


def test_sureness_is_the_largest_probability(score, headed):
    """softmax of SCALE (2 t g - t^2), in loops."""
    largest = []
    for grey in GREYS:
        terms = [np.exp(SCALE * (2 * t * grey / 255 - t * t)) for t in CENTRES]
        largest.append(max(terms) / sum(terms))
    for threshold in (0.5, 0.985, 0.9865, 0.992, 1):
        found = score(headed, "--threshold", threshold)
        assert found["confident"] == sum(q >= threshold for q in largest) / 7


def test_several_heads_are_told_apart():
    class Two(nn.Module):
        def forward(self, h):
            return torch.stack([h, -h], dim=1)  # (n, heads, H)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.clusters, self.weight = Two(), nn.Parameter(torch.ones(1))

        def head(self, name):
            return self._modules.get(name)

    h = torch.tensor([[0.0, 3.0]])
    for head, sign in ((0, 1), (1, -1)):
        q = cluster_probabilities(Net(), h, head)
        assert torch.equal(q, (sign * h).softmax(dim=1))


def test_k_means_by_hand(score, evaluate, grey, tmp_path):
    train = greys(tmp_path / "train.npz", None, (1, 2, 3, 125, 126, 251, 252))
    found = score(grey, "--data", train, *KMEANS, "--repeats", 3)
    assert found["accuracy"] == 6 / 7 and found["repeats"] == [6 / 7] * 3
    assert found["accuracy_std"] == pytest.approx(0)
    assert found["confusion"] == [[6, 0, 3], [0, 6, 0], [0, 0, 6]]  # of all repeats
    assert sorted(found["occupancy"]) == [2, 2, 3]
    black = found["matching"][2]
    assert sorted(found["surest"][black]) == [0, 1, 2]
    assert found["surest"][black][-1] == 2  # The centroid is at 2 of 255.
    assert "confident" not in found and "threshold" not in found["options"]
    assert found["data"].keys() == {"train", "test"}
    assert "(std 0.00, 3 repeats)" in evaluate.line


@pytest.mark.parametrize(
    "kmeans, labels, shape, words",
    [
        (4, (2, 2, 2, 0, 0, 1, 1), (3, 4), "4 clusters filled for 3 classes, so that 1 clusters match no class"),
        (2, (2, 2, 2, 0, 0, 1, 1), (3, 3), "2 clusters filled for 3 classes, so that 1 classes match no cluster"),
    ],
)  # fmt: skip
def test_more_and_fewer_clusters_than_classes(
    score, evaluate, grey, tmp_path, kmeans, labels, shape, words
):
    train = greys(tmp_path / "train.npz")
    found = score(grey, "--data", train, "--kmeans", kmeans, labels=labels)
    assert np.array(found["confusion"]).shape == shape
    assert np.sum(found["confusion"]) == 7
    assert found["matching"].count(None) == max(0, 3 - kmeans)
    assert np.trace(np.array(found["confusion"])[:, :3]) == round(7 * found["accuracy"])
    assert words in evaluate.line


def test_the_same_command_gives_the_same_bytes_and_other_seeds_others(
    world, run, tmp_path
):
    words = ("evaluate", "cluster", world.model, "--data", "digits", "--kmeans", 10)
    outputs = [tmp_path / f"{k}.json" for k in range(3)]
    for output, more in zip(outputs, ((), (), ("--seed", 1)), strict=True):
        assert run(*words, *more, "-o", output).code == 0
    first, again, other = (output.read_bytes() for output in outputs)
    assert first == again
    a, b = json.loads(first), json.loads(other)
    assert a["surest"] != b["surest"] and b["seed"] == 1
    done = run(*words, "-o", outputs[0])
    assert "already there" in done.out and "NMI" in done.out
    assert outputs[0].read_bytes() == first


def test_labels_of_the_training_images_do_not_matter(score, grey, tmp_path):
    plain = score(grey, "--data", greys(tmp_path / "a.npz"), *KMEANS)
    data = greys(tmp_path / "b.npz", (5, 4, 3, 2, 1, 0, 5))
    labelled = score(grey, "--data", data, *KMEANS)
    for name in ("accuracy", "nmi", "ari", "surest", "matching"):
        assert plain[name] == labelled[name]


def test_dry_run_writes_nothing(run, grey, tmp_path):
    test = greys(tmp_path / "t.npz", (0, 1, 2, 0, 1, 2, 0))
    words = ("evaluate", "cluster", grey, "--data", test, "--test-data", test, *KMEANS)
    done = run(*words, "-o", tmp_path / "c.json", "--dry-run")
    assert done.code == 0 and "k-means, 3 clusters on 7 images" in done.out
    assert not (tmp_path / "c.json").exists()


def test_what_is_refused(grey, headed, world, tmp_path, refused):
    labelled = greys(tmp_path / "t.npz", (0, 1, 2, 0, 1, 2, 0))
    plain = greys(tmp_path / "p.npz")
    test, data = ("--test-data", labelled), ("--data", plain)
    output = ("-o", tmp_path / "c.json")
    for code, words, line in (
        (
            65,
            (world.model, "no clusters", "--kmeans"),
            (world.model, "--data", "digits"),
        ),
        (65, (plain, "no labels"), (headed, "--test-data", plain)),
        (2, ("--data",), (headed,)),
        (2, ("--data",), (grey, *test, *KMEANS)),
        (2, ("--kmeans 8", "7 images"), (grey, *data, *test, "--kmeans", 8)),
        (
            2,
            ("--threshold", "--kmeans"),
            (grey, *data, *test, *KMEANS, "--threshold", 1),
        ),
        (2, ("--repeats", "--kmeans"), (headed, *test, "--repeats", 2)),
        (2, ("--seed", "--kmeans"), (headed, *test, "--seed", 2)),
    ):
        refused(tmp_path, code, words, "evaluate", "cluster", *line, *output)
