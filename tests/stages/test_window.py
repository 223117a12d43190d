"""A window goes from pack and init through all stages; another one is refused."""

import json

import numpy as np
import pytest
import tifffile

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.dataset import read_dataset
from tests.helpers import digest, furlkit

NET = ("--width", 0.02, "--projector", "8,4")
TRAIN = ("--epochs", 1, "--batch-size", 4)


@pytest.fixture(scope="module")
def windowed_sets(tmp_path_factory):
    """Two classes of 12-bit TIFF files, packed with two windows, and two models."""
    folder = tmp_path_factory.mktemp("window")
    rng = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 2000)):
        (folder / "scans" / name).mkdir(parents=True)
        for number in range(8):
            values = rng.integers(low, low + 2000, (8, 8), np.uint16)
            tifffile.imwrite(folder / f"scans/{name}/{number}.tif", values)
    for name, window in (("a", "0,4095"), ("b", "0,2000")):
        pack = ("pack", folder / "scans", "--channels", 1, "--window", window)
        assert furlkit(*pack, "-o", folder / f"{name}.data") == 0
        init = ("init", "--data", folder / f"{name}.data", *NET)
        assert furlkit(*init, "-o", folder / f"{name}.model") == 0
    return folder


def client(folder, model, data, out):
    where = ("--data", data, "--client", "x", "-o", out, "--force")
    return ("local-train", folder / model, *where, *TRAIN)


def test_pixels_and_window_are_packed(windowed_sets):
    packed = read_dataset(windowed_sets / "a.data")
    values = tifffile.imread(windowed_sets / "scans/dark/0.tif")
    assert np.array_equal(packed.images[0, ..., 0], np.rint(values * (255 / 4095)))
    assert packed.facts.fingerprint["window"] == "0,4095"


def test_the_model_keeps_the_window_through_a_round(windowed_sets, tmp_path, run):
    out, model = tmp_path / "c", tmp_path / "g"
    assert (
        furlkit(*client(windowed_sets, "a.model", windowed_sets / "a.data", out)) == 0
    )
    assert furlkit("aggregate", out, "-o", model) == 0
    for path in (windowed_sets / "a.model", out, model):
        assert read_checkpoint(path).facts.reading == {"window": "0,4095"}
    assert furlkit("export", model, "-o", tmp_path / "e") == 0
    config = json.loads((tmp_path / "e/config.json").read_text())
    assert config["reading"] == {"window": "0,4095"}
    card = (tmp_path / "e/README.md").read_text()
    assert "- Window of images with more than 8 bits: `0,4095`\n" in card
    for source in (model, tmp_path / "e"):
        init = ("init", "--image-size", 8, "--channels", 1, *NET, "--from", source)
        assert furlkit(*init, "-o", tmp_path / "again") == 0
        again = read_checkpoint(tmp_path / "again").facts
        assert again.reading == {"window": "0,4095"}
    assert "0,4095" in run("inspect", model).out
    assert "0,4095" in run("inspect", windowed_sets / "a.data").out


def test_a_folder_is_read_with_the_models_window(windowed_sets, tmp_path):
    for name, data in (
        ("folder", windowed_sets / "scans"),
        ("packed", windowed_sets / "a.data"),
    ):
        embed = ("embed", windowed_sets / "a.model", "--data", data)
        assert furlkit(*embed, "-o", tmp_path / name) == 0
    from safetensors.numpy import load_file

    one, other = (load_file(tmp_path / name)["rows"] for name in ("folder", "packed"))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("stage", ["local-train", "embed", "evaluate knn"])
def test_another_window_is_refused(windowed_sets, tmp_path, refused, stage):
    model, data = windowed_sets / "a.model", windowed_sets / "b.data"
    command = {
        "local-train": client(windowed_sets, "a.model", data, tmp_path / "o"),
        "embed": ("embed", model, "--data", data, "-o", tmp_path / "o"),
        "evaluate knn": (
            "evaluate", "knn", model, "--data", data, "--test-data", windowed_sets / "a.data",
            "-o", tmp_path / "o",
        ),
    }[stage]  # fmt: skip
    words = [model, data, "--window 0,4095", "--window 0,2000"]
    refused(tmp_path, 65, words, *command)


def test_uploads_of_different_windows_are_refused(windowed_sets, tmp_path, refused):
    for name in "ab":
        out = tmp_path / f"{name}.up"
        train = client(
            windowed_sets, f"{name}.model", windowed_sets / f"{name}.data", out
        )
        assert furlkit(*(f"{name}x" if a == "x" else a for a in train)) == 0
    uploads = [tmp_path / "a.up", tmp_path / "b.up"]
    refused(tmp_path, 65, ["run"], "aggregate", *uploads, "-o", tmp_path / "g")


def test_a_model_for_8_bits_refuses_windowed_images(windowed_sets, tmp_path, refused):
    model = tmp_path / "m"
    assert furlkit("init", "--image-size", 8, "--channels", 1, *NET, "-o", model) == 0
    embed = ("embed", model, "--data", windowed_sets / "a.data", "-o", tmp_path / "o")
    refused(tmp_path, 65, [model, windowed_sets / "a.data", "8 bits", "0,4095"], *embed)


def test_8_bits_are_used_with_a_warning(windowed_sets, tmp_path, run):
    out = run(
        "embed", windowed_sets / "a.model", "--data", "digits", "-o", tmp_path / "o"
    )
    assert out.code == 0 and "digits" in out.err and "--window 0,4095" in out.err


@pytest.mark.parametrize("stage", ["pack", "init", "embed"])
def test_without_a_window_every_stage_proposes_one(
    windowed_sets, tmp_path, refused, stage
):
    model, scans = tmp_path / "m", windowed_sets / "scans"
    assert furlkit("init", "--image-size", 8, "--channels", 1, *NET, "-o", model) == 0
    command = {
        "pack": ("pack", scans),
        "init": ("init", "--data", scans, "--image-size", 8),
        "embed": ("embed", model, "--data", scans),
    }[stage]
    words = [scans, "measured 16 of 16 files", "--window 0,4095"]
    refused(tmp_path, 65, words, *command, "-o", tmp_path / "o")


def test_a_window_given_to_init_must_be_the_datas(windowed_sets, tmp_path, refused):
    init = ("init", "--data", windowed_sets / "a.data", "--window", "0,9", *NET)
    refused(tmp_path, 65, ["0,9", "0,4095"], *init, "-o", tmp_path / "m")


def test_sources_of_different_windows_are_not_joined(windowed_sets, tmp_path, refused):
    sources = [windowed_sets / "a.data", windowed_sets / "b.data"]
    words = ["0,4095", "0,2000"]
    refused(tmp_path, 65, words, "pack", *sources, "-o", tmp_path / "o")


def test_bytes_of_8_bit_datasets_are_unchanged(tmp_path):
    assert furlkit("pack", "digits", "-o", tmp_path / "d") == 0
    assert digest(tmp_path / "d").startswith("b635b82c76a2")


@pytest.mark.parametrize(
    "window, warned",
    [
        ("full", "16 grey"),
        ("-9,40000", "26 grey"),
        ("5000,6000", "1 grey"),
        ("1,2", ""),
    ],
)
def test_a_window_that_leaves_few_grey_levels_is_named(
    windowed_sets, run, tmp_path, window, warned
):
    words = ("--window", window, "--channels", 1, "-o", tmp_path / "p")
    found = run("pack", windowed_sets / "scans", *words)
    assert found.code == 0 and ("grey levels" in found.err) == bool(warned)
    assert warned in found.err and (not warned or "--window 0,4095" in found.err)


def test_no_proposal_loses_the_values(windowed_sets, run, tmp_path):
    found = run("pack", windowed_sets / "scans", "-o", tmp_path / "p")
    assert found.code == 65 and "--window 0,4095" in found.err
    assert "full" not in found.err


def test_a_folder_beside_the_models_window_is_named(windowed_sets, tmp_path, run):
    """Scans of another machine: all of them would be white."""
    (tmp_path / "site/x").mkdir(parents=True)
    for number in range(8):
        values = np.full((8, 8), 9000 + number, np.uint16)
        tifffile.imwrite(tmp_path / f"site/x/{number}.tif", values)
    done = run(*client(windowed_sets, "a.model", tmp_path / "site", tmp_path / "c"))
    assert done.code == 0 and "leaves 1 grey levels" in done.err
    assert f"{tmp_path / 'site'}: the window 0,4095" in done.err
