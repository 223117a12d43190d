"""plot confusion and plot clusters: what is drawn of a few counts and images."""

import json

import numpy as np
import pytest

from furlkit.data.sets.source import Source

CONFUSION = [[2, 0, 1, 1], [0, 3, 0, 1], [0, 0, 0, 4]]
NAMES = ["cat", "dog", "a very long name of a class"]


@pytest.fixture
def images(tmp_path):
    """Six images of one grey each, of three classes."""
    path = tmp_path / "t.npz"
    values = np.arange(0, 240, 40, dtype=np.uint8)
    pictures = np.zeros((6, 8, 8, 1), np.uint8) + values[:, None, None, None]
    np.savez(path, images=pictures, labels=np.array([0, 0, 1, 1, 2, 2]))
    return path


@pytest.fixture
def scored(tmp_path, metrics, images):
    """Clusters 2, 0 and none for the classes; cluster 1 matches none, 3 is empty."""
    known = {
        "protocol": "cluster",
        "matching": [2, 0, None],
        "class_names": NAMES,
        "confusion": CONFUSION,
        "occupancy": [9, 5, 12, 0],
        "surest": [[3, 2, 1], [5], [0, 4], []],
        "data": {"test": Source(str(images)).images().fingerprint},
    }

    def write(**changes):
        return metrics(tmp_path, "m", **{**known, **changes})

    return write


def test_shares_of_each_class_with_clusters_below_the_classes_they_match(
    scored, run, tmp_path, drawn
):
    done = run("plot", "confusion", scored(), "-o", tmp_path / "x.png", "--json")
    assert done.code == 0 and done.err == ""
    found = json.loads(done.out)
    assert found["confusion"] == CONFUSION and found["rows"] == NAMES
    assert found["columns"] == ["cat", "dog", "none", "+1"]
    axes = drawn[-1].axes[0]
    shares = [[50, 0, 25, 25], [0, 75, 0, 25], [0, 0, 0, 100]]
    assert axes.images[0].get_array().tolist() == shares
    written = [text.get_text() for text in axes.texts]
    assert written == ["50", "", "25", "25", "", "75", "", "25", "", "", "", "100"]
    assert "none: no cluster" in axes.get_xlabel() and "+" in axes.get_xlabel()
    assert drawn[-1].get_suptitle() == "cluster accuracy 50.00 %, global model, round 1"


def test_a_class_without_a_cluster_in_one_repeat_may_have_one_in_others(
    scored, run, tmp_path
):
    path = scored(repeats=[0.4, 0.6])
    done = run("plot", "confusion", path, "-o", tmp_path / "x.png", "--json")
    assert json.loads(done.out)["columns"] == [*NAMES, "+1"]


def test_the_confusion_of_classifiers_is_drawn_too(metrics, tmp_path, run, drawn):
    path = metrics(tmp_path, "knn", protocol="knn", confusion=[[3, 1], [0, 0]])
    assert run("plot", "confusion", path, "-o", tmp_path / "x.png").code == 0
    axes = drawn[-1].axes[0]
    assert axes.get_xlabel() == "predicted class"
    assert axes.images[0].get_array().tolist() == [[75, 25], [0, 0]]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"confusion": None},
        {"confusion": [[1, 2], [3]]},
        {"confusion": [[1, "x"], [3, 4]]},
        {"confusion": [[1, -1], [3, 4]], "matching": None},
        {"confusion": [[1, 2, 3], [3, 4, 5]], "matching": None},
        {"confusion": [[1, 2], [3, 4]]},
        {"confusion": [], "matching": []},
        {"confusion": [[1]], "matching": 7},
        {"confusion": [[10**400]], "matching": None},
    ],
)
def test_what_is_no_confusion_matrix_is_refused(scored, tmp_path, refused, changes):
    path = scored(**changes)
    line = ("plot", "confusion", path, "-o", tmp_path / "x.png")
    refused(tmp_path, 65, (path, "confusion matrix"), *line)


def test_rows_of_the_surest_images(scored, images, run, tmp_path, drawn):
    words = ("--data", images, "--images", 2, "-o", tmp_path / "x.png", "--json")
    done = run("plot", "clusters", scored(), *words)
    assert done.code == 0 and done.err == ""
    assert json.loads(done.out)["clusters"] == [
        {"cluster": 2, "name": "cat", "images": [0, 4], "wrong": [False, True]},
        {"cluster": 0, "name": "dog", "images": [3, 2], "wrong": [False, False]},
        {"cluster": 1, "name": "no class", "images": [5], "wrong": [False]},
    ]
    axes = drawn[-1].axes[0]
    greys = [int(image.get_array()[0, 0]) for image in axes.images]
    assert greys == [0, 160, 120, 80, 200]
    corners = [image.get_extent()[0::3] for image in axes.images]  # column, row
    assert corners == [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2]]
    (frame,) = axes.patches
    assert frame.get_xy() == (1, 0)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["cat", "dog", "no class"]
    notes = [text.get_text() for text in axes.texts]
    assert notes == [
        "cluster 2: 12 images",
        "cluster 0: 9 images",
        "cluster 1: 5 images",
    ]


def test_some_clusters_and_colour(scored, tmp_path, run, drawn):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "c.npz", images=pictures)
    data = {"test": Source(str(tmp_path / "c.npz")).images().fingerprint}
    words = (
        "--data",
        tmp_path / "c.npz",
        "--clusters",
        "1-3",
        "-o",
        tmp_path / "x.png",
    )
    done = run("plot", "clusters", scored(data=data), *words)
    assert done.code == 0 and "2 clusters of 4" in done.out
    axes = drawn[-1].axes[0]
    assert np.array_equal(axes.images[0].get_array(), pictures[0])
    assert not axes.patches  # Nothing is known to be wrong without labels.


def test_files_and_images_that_do_not_fit(scored, metrics, images, tmp_path, refused):
    other = tmp_path / "other.npz"
    np.savez(other, images=np.ones((6, 8, 8, 1), np.uint8))
    linear = metrics(tmp_path, "linear")
    for code, file, more, *words in (
        (65, linear, (images,), linear, "evaluate cluster"),
        (65, scored(), (other,), tmp_path / "m.json", "other images"),
        (2, scored(), (images, "--clusters", "4"), "--clusters 4", "0 to 3"),
        (2, scored(), (images, "--clusters", "3"), "--clusters", "no images"),
    ):
        line = ("plot", "clusters", file, "--data", *more, "-o", tmp_path / "x.png")
        refused(tmp_path, code, words, *line)
    for changes, word in (
        ({"surest": [[], [], [], []]}, "--surest"),
        ({"surest": [[-1]]}, "evaluate cluster"),
        ({"surest": [[99], [], [], []]}, "other images"),
        ({"matching": None}, "evaluate cluster"),
        ({"matching": [0, 9, "x"]}, "evaluate cluster"),
        ({"data": {}}, "other images"),
    ):
        file = scored(**changes)
        line = ("plot", "clusters", file, "--data", images, "-o", tmp_path / "x.png")
        refused(tmp_path, 65, (file, word), *line)
