"""Inputs that are legal but hardly meant: a warning that names both sides, or 65.

Each mix-up is a command and the words of its warning. Beside it is the same command
without the mix-up, which must not warn.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.helpers import furlkit

NET = ("--image-size", 8, "--width", 0.02, "--classes", 3)
HEADS = ("--head", "classifier", "--head", "projector", "--projector", "8,4")
TRAIN = ("--epochs", 1, "--batch-size", 8)
NAMES = ("cat", "dog", "eel")


@dataclass(frozen=True)
class Files:
    """A folder with models and images."""

    folder: Path

    def __call__(self, name: str) -> Path:
        return self.folder / name

    def images(
        self, name: str, seed: int, count=12, size=8, channels=1, **more
    ) -> Path:
        """Noise with labels 0, 1, 2, 0, ..."""
        rng, path = np.random.default_rng(seed), self(f"{name}.npz")
        shape = (count, size, size, channels)
        known = {"labels": np.arange(count) % 3, "class_names": np.array(NAMES)}
        np.savez(
            path, images=rng.integers(0, 256, shape, np.uint8), **{**known, **more}
        )
        return path


def train(files: Files, model: str, client: Any, output: str, *more: Any) -> Path:
    words = (files(model), "--data", files("train.npz"), "--client", client, *TRAIN)
    assert furlkit("local-train", *words, *more, "-o", files(output)) == 0
    return files(output)


@pytest.fixture(scope="module")
def _made(tmp_path_factory) -> Path:
    """Training and test images, a model of round 0, uploads of two clients."""
    files = Files(tmp_path_factory.mktemp("mixups"))
    files.images("train", 0)
    files.images("test", 1)
    init = ("init", *NET, *HEADS, "--channels", 1, "--clusters", 3, "--seed", 7)
    assert furlkit(*init, "--head", "clusters", "-o", files("g")) == 0
    for client in ("mary", "north"):
        train(files, "g", client, client)
    assert furlkit("aggregate", files("mary"), files("north"), "-o", files("g1")) == 0
    train(files, "g", "south", "supervised", "--objective", "supervised")
    return files.folder


@pytest.fixture
def files(_made, tmp_path) -> Files:
    return Files(Path(shutil.copytree(_made, tmp_path / "files")))


Case = tuple[tuple, tuple, list]


def scored(files: Files, protocol: str, test: Path, *more: Any) -> tuple:
    model = (files("g1"), "--data", files("train.npz"), "--test-data", test)
    return "evaluate", *protocol.split(), *model, *more, "-o", files("o")


def different_partitions(files: Files, forge) -> Case:
    other = Path(shutil.copy(files("north"), files("elsewhere")))
    forge(other, facts={"partition": "0" * 64})
    command = ("aggregate", files("mary"), "-o", files("o"))
    words = [files("mary"), other, "partition"]
    return (*command, other), (*command, files("north")), words


def one_upload_twice(files: Files, forge) -> Case:
    copy = Path(shutil.copy(files("north"), files("copy")))
    command = ("aggregate", files("mary"), files("north"), "-o", files("o"))
    return (*command, copy), command, [files("north"), copy, "same file"]


def one_path_twice(files: Files, forge) -> Case:
    command = ("aggregate", files("mary"), files("north"), "-o", files("o"))
    return (*command, files("north")), command, [files("north"), "given twice"]


def scored_on_training_images(protocol: str) -> Callable[[Files, Any], Case]:
    def case(files: Files, forge) -> Case:
        # The fingerprint knows a copy, whatever its name and format.
        copy = files("copy.st")
        assert furlkit("pack", files("train.npz"), "-o", copy) == 0
        more = ("--k", 2) if "knn" in protocol else ("--epochs", 1)
        words = [files("train.npz"), copy, "same 12 images"]
        good = scored(files, protocol, files("test.npz"), *more)
        return scored(files, protocol, copy, *more), good, words

    return case


def a_class_less(files: Files, forge) -> Case:
    names = {"class_names": np.array(NAMES[:2]), "labels": np.arange(12) % 2}
    test = files.images("fewer", 2, **names)
    words = [test, files("train.npz"), "'missing'", "'eel'"]
    good = scored(files, "knn", files("test.npz"), "--k", 2)
    return scored(files, "knn", test, "--k", 2), good, words


def other_class_names(files: Files, forge) -> Case:
    test = files.images("german", 2, class_names=np.array(["Katze", "Hund", "Aal"]))
    words = [test, files("train.npz"), "'cat'", "'Katze'"]
    good = scored(files, "linear", files("test.npz"), "--epochs", 1)
    return scored(files, "linear", test, "--epochs", 1), good, words


def embedded(files: Files, data: Path) -> tuple:
    return "embed", files("colour"), "--data", data, "-o", files("o")


def grey_images_of_another_size(files: Files, forge) -> Case:
    made = ("init", *NET, "--projector", "8,4", "--channels", 3, "-o", files("colour"))
    assert furlkit(*made) == 0
    data = files.images("grey", 2, size=6)
    words = [data, files("colour"), "6 x 6 pixels in grey", "8 x 8 pixels in colour"]
    return (
        embedded(files, data),
        embedded(files, files.images("rgb", 2, channels=3)),
        words,
    )


def a_folder_of_different_sizes(files: Files, forge) -> Case:
    made = ("init", *NET, "--projector", "8,4", "--channels", 3, "-o", files("colour"))
    assert furlkit(*made) == 0
    for name, sides in (("mixed", (8, 9)), ("alike", (8, 8))):
        files(name).mkdir()
        for number, side in enumerate(sides):
            pixels = np.full((side, side, 3), 9 * number, np.uint8)
            Image.fromarray(pixels).save(files(name) / f"{number}.png")
    words = [files("mixed"), "2 images", "8 x 8 pixels"]
    return embedded(files, files("mixed")), embedded(files, files("alike")), words


def a_large_k(files: Files, forge) -> Case:
    test = files("test.npz")
    good = scored(files, "knn", test, "--k", 12)
    return scored(files, "knn", test, "--k", 13), good, ["--k 13", files("train.npz")]


def a_large_k_for_a_domain(files: Files, forge) -> Case:
    """Four images are of the first domain, eight of the second."""
    for number, name in enumerate(("train", "test")):
        files.images(name, number, domains=np.array([0] * 4 + [1] * 8))
    more = (files("test.npz"), "--by-domain", "--k")
    words = ["--k 5", "4 images of a domain", files("train.npz")]
    return scored(files, "knn", *more, 5), scored(files, "knn", *more, 4), words


def many_neighbours(files: Files, forge) -> Case:
    command = (
        "neighbours",
        files("g1"),
        "--data",
        files("train.npz"),
        "-o",
        files("o"),
    )
    words = ["--nearest 12", "11 others", files("train.npz")]
    return (*command, "--nearest", 12), (*command, "--nearest", 11), words


def a_large_batch(stage: str, *more: Any) -> Callable[[Files, Any], Case]:
    def case(files: Files, forge) -> Case:
        data = ("--data", files("train.npz"), "--client", "east", "-o", files("o"))
        command = (stage, files("g1"), *data, "--epochs", 1, *more, "--batch-size")
        words = ["--batch-size 13", "12 images", "client east", files("train.npz")]
        return (*command, 13), (*command, 12), words

    return case


def a_large_batch_without_clients(
    stage: str, *more: Any
) -> Callable[[Files, Any], Case]:
    def case(files: Files, forge) -> Case:
        data = ("--data", files("train.npz"), "-o", files("o"), "--epochs", 1)
        given = [files(word) if word in ("t", "test.npz") else word for word in more]
        command = (*stage.split(), files("g1"), *data, *given, "--batch-size")
        words = ["--batch-size 13", "12 images", files("train.npz")]
        return (*command, 13), (*command, 12), words

    return case


def an_untrained_classifier(model: str) -> Callable[[Files, Any], Case]:
    def case(files: Files, forge) -> Case:
        data = ("--data", files("train.npz"), "--test-data", files("test.npz"))
        command = ("evaluate", "classifier", *data, "-o", files("o"))
        words = [files(model), "classifier", "never trained"]
        return (*command, files(model)), (*command, files("supervised")), words

    return case


def untrained_clusters(files: Files, forge) -> Case:
    from furlkit.files.container.read import Container

    trained = Path(shutil.copy(files("g"), files("trained")))
    bias = Container(trained).tensors()["clusters.bias"]
    forge(trained, {"clusters.bias": bias + 1})
    command = (
        "evaluate",
        "cluster",
        "--test-data",
        files("test.npz"),
        "-o",
        files("o"),
    )
    words = [files("g"), "clusters", "never trained"]
    return (*command, files("g")), (*command, trained), words


CASES = {
    "partitions": different_partitions,
    "one upload twice": one_upload_twice,
    "one path twice": one_path_twice,
    "knn": scored_on_training_images("knn"),
    "knn of an untrained net": scored_on_training_images("knn --untrained"),
    "linear": scored_on_training_images("linear"),
    "transfer": scored_on_training_images("transfer --batch-size 2"),
    "personal": scored_on_training_images("personal"),
    "a class less": a_class_less,
    "other class names": other_class_names,
    "grey images of another size": grey_images_of_another_size,
    "a folder of different sizes": a_folder_of_different_sizes,
    "a large k": a_large_k,
    "a large k for a domain": a_large_k_for_a_domain,
    "many neighbours": many_neighbours,
    "a batch of local-train": a_large_batch("local-train"),
    "a batch of pretrain-style": a_large_batch("pretrain-style", "--projector", "8,4"),
    "a batch of pretrain-align": a_large_batch_without_clients(
        "pretrain-align", "--targets-out", "t"
    ),
    "a batch of distill": a_large_batch_without_clients(
        "distill", "--teacher", "labels"
    ),
    "a batch of transfer": a_large_batch_without_clients(
        "evaluate transfer", "--test-data", "test.npz", "--hidden", 4
    ),
    "a classifier of init": an_untrained_classifier("g"),
    "a classifier of a client": an_untrained_classifier("mary"),
    "a classifier of aggregate": an_untrained_classifier("g1"),
    "clusters": untrained_clusters,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_mixup_is_named_and_strict_refuses_it(files, forge, run, refused, case):
    mixed, good, words = case(files, forge)
    (files.folder / "o").write_bytes(b"what an earlier command wrote")
    refused(files.folder, 65, [*words, "--strict"], *mixed, "--strict", "--force")
    files("o").unlink()
    done = run(*mixed)
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "warning: " in line]
    assert all(str(word) in line for word in words), line
    files("o").unlink()
    done = run(*good, "--strict")
    assert done.code == 0 and "warning: " not in done.err, done.err


def test_an_upload_that_is_given_twice_counts_once(files, run):
    command = ("aggregate", files("mary"), files("north"), "-o")
    assert run(*command, files("once")).code == 0
    assert run(*command, files("twice"), files("north")).code == 0
    assert files("once").read_bytes() == files("twice").read_bytes()


def test_images_that_are_given_twice_are_warned_of_once(files, run):
    data = files.images("large", 2, size=10)
    both = ("--data", data, "--test-data", data)
    command = ("evaluate", "knn", files("g1"), *both, "--k", 2, "-o", files("o"))
    for _ in range(2):  # Another command warns again.
        done = run(*command, "--force")
        assert done.code == 0 and done.err.count("10 x 10 pixels") == 1, done.err


@pytest.mark.parametrize("protocol", ["knn", "linear", "transfer", "personal"])
@pytest.mark.parametrize("names", [("dog", "cat", "eel"), ("dog", "eel")])
def test_a_class_of_another_number_is_refused(files, refused, protocol, names):
    """A folder that lacks a class numbers those that follow otherwise."""
    more = {"labels": np.arange(12) % len(names), "class_names": np.array(names)}
    test = files.images("other", 2, **more)
    words = [test, files("train.npz"), "'dog'", "class 1"]
    refused(files.folder, 65, words, *scored(files, protocol, test))


def test_numbers_in_place_of_names_say_nothing(files, run):
    test = files.images("numbered", 2, class_names=np.array(["0", "1", "2"]))
    done = run(*scored(files, "knn", test, "--k", 2), "--strict")
    assert done.code == 0, done.err
