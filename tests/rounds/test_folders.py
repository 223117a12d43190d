"""A folder of images of different sizes and modes, in every stage that takes --data."""

import shutil

import numpy as np
import pytest
from PIL import Image

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.dataset import read_dataset
from tests.helpers import furlkit

MODES = ("RGB", "L", "P", "RGBA", "1")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("pictures")
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        for number in range(10):
            height, width = rng.integers(6, 14, 2)
            image = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
            image.convert(MODES[number % 5]).save(folder / name / f"{number}.png")
    (folder / "cat" / "notes.txt").write_text("no image")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(scope="module", params=[1, 3])
def started(request, pictures, tmp_path_factory):
    """A partition, a global model for grey or colour, and a trained client."""
    out = tmp_path_factory.mktemp("started")
    net = ("--image-size", 8, "--channels", request.param, "--width", 0.02)
    heads = ("--head", "classifier", "--projector", "8,4")
    data = ("--data", pictures)
    commands = (
        ("partition", *data, "--clients", 2, "-o", out / "p"),
        ("init", *data, *net, *heads, "-o", out / "g"),
        ("local-train", out / "p", out / "g", *data, "--client", "0-1", "--epochs", 1,
         "--batch-size", 5, "-o", out / "c{client}"),
    )  # fmt: skip
    assert [furlkit(*command) for command in commands] == [0, 0, 0]
    return out


TRAIN = ("--epochs", 1, "--batch-size", 5)
STAGES = {
    "pretrain-align": ("{g}", "--targets-out", "{out}/t", *TRAIN),
    "pretrain-style": ("{p}", "{g}", "--client", 0, "--projector", "8,4", *TRAIN),
    "embed": ("{c0}", "--layer", "z"),
    "neighbours": ("{c0}", "--nearest", 2),
    "distill": ("{g}", "--teacher", "labels", *TRAIN),
    "evaluate knn": ("{c0}", "--test-data", "{data}", "--k", 2),
    "evaluate knn --untrained": ("{c0}", "--test-data", "{data}", "--k", 2),
    "evaluate linear --untrained": (
        "--image-size", 8, "--width", 0.02, "--test-data", "{data}", "--epochs", 1,
    ),
    "evaluate linear": ("{c0}", "--test-data", "{data}", "--epochs", 1),
    "evaluate classifier": ("{c0}", "--test-data", "{data}"),
    "evaluate cluster": ("{c0}", "--test-data", "{data}", "--kmeans", 2),
    "evaluate transfer": (
        "{c0}", "--test-data", "{data}", "--image-size", 12, *TRAIN,
    ),
    "evaluate drift": ("{c0}", "{c1}", "--partition", "{p}"),
    "evaluate angles": ("{c0}", "{c1}"),
    "plot sobel": ("--images", 2),
}  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_brings_images_to_the_models_size(
    run, started, pictures, tmp_path, stage
):
    places = {name: started / name for name in ("p", "g", "c0", "c1")}
    words = [
        str(w).format(**places, data=pictures, out=tmp_path) for w in STAGES[stage]
    ]
    output = "o.png" if stage.startswith("plot") else "o"
    found = run(*stage.split(), *words, "--data", pictures, "-o", tmp_path / output)
    assert found.code == 0, found.err
    warned = [line for line in found.err.splitlines() if "converted to" in line]
    side = {"evaluate transfer": 12, "plot sobel": 128}.get(stage, 8)
    assert len(warned) == 1 and f"{side} x {side} pixels" in warned[0]
    assert (tmp_path / output).exists()


def test_an_untrained_network_needs_a_size_or_a_model(pictures, refused, tmp_path):
    command = ("evaluate", "knn", "--untrained", "--data", pictures)
    command = (*command, "--test-data", pictures, "-o", tmp_path / "o")
    refused(tmp_path, 65, [pictures, "give --image-size"], *command)


def test_a_file_made_from_a_folder_is_replayed(run, started, pictures):
    found = run("replay", started / "c0", "--data", pictures)
    assert found.code == 0 and f"--data {pictures}" in found.out, found.err


def test_packing_needs_a_size(run, pictures, tmp_path):
    found = run("pack", pictures, "-o", tmp_path / "d")
    assert found.code == 65 and "--image-size" in found.err
    found = run("pack", pictures, "--image-size", 8, "-o", tmp_path / "d")
    assert found.code == 0, found.err
    assert "skipped 1 file that is no image and 1 folder without" in found.err
    assert read_dataset(tmp_path / "d").images.shape == (20, 8, 8, 3)


def test_a_client_gives_the_same_of_the_folder_and_the_packed_file(
    run, started, pictures, tmp_path
):
    """The packed images are those that a model of that size gets from the folder."""
    channels = read_checkpoint(started / "g").facts.architecture["channels"]
    size = ("--image-size", 8, "--channels", channels)
    assert run("pack", pictures, *size, "-o", tmp_path / "d").code == 0
    train = ("local-train", started / "p", started / "g", "--client", 0, *TRAIN)
    found = run(*train, "--data", tmp_path / "d", "-o", tmp_path / "c")
    assert found.code == 0, found.err
    assert (tmp_path / "c").read_bytes() == (started / "c0").read_bytes()


@pytest.fixture
def mixed(pictures, tmp_path):
    """Images in class folders, deeper, and in none."""
    folder = tmp_path / "mixed"
    shutil.copytree(pictures, folder)
    (folder / "2024" / "may").mkdir(parents=True)
    for place in ("img_001.png", "2024/may/img_002.png"):
        shutil.copy(pictures / "cat" / "0.png", folder / place)
    return folder


def test_a_folder_of_mixed_depth_is_trained_on_without_labels(mixed, tmp_path, run):
    net = ("--image-size", 8, "--channels", 3, "--width", 0.02, "--projector", "8,4")
    assert furlkit("init", *net, "-o", tmp_path / "g") == 0
    data = ("--data", mixed)
    site = (tmp_path / "g", *data, "--client", "north", *TRAIN)
    trained = run("local-train", *site, "-o", tmp_path / "north")
    assert trained.code == 0 and "22 images" in trained.err
    known = Source(mixed).labels()
    assert (known.examples, known.labels) == (22, None)


def test_labels_of_a_folder_of_mixed_depth_are_refused(mixed, tmp_path, refused):
    folder, made = tmp_path, tmp_path / "made"
    stray = "img_001.png is not inside a class folder, but 21 other images are"
    split = ("--scheme", "classes", "--clients", 2)
    refused(folder, 2, [mixed, stray], "partition", "--data", mixed, *split, "-o", made)
    size = ("--image-size", 8)
    words = [mixed, stray, "--no-labels"]
    refused(folder, 65, words, "pack", mixed, *size, "-o", made)
    assert furlkit("pack", mixed, *size, "--no-labels", "-o", made) == 0
    packed = read_dataset(made)
    assert len(packed.images) == 22 and packed.labels is None
