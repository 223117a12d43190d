"""Images of any number of channels and pages, from files through all stages."""

import json

import numpy as np
import pytest
import tifffile
from PIL import Image
from safetensors.numpy import load_file

from furlkit.data.sets.decode import decode_file
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Reading
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.dataset import read_dataset
from tests.helpers import decoded_or_reason, furlkit

NET = ("--width", 0.02, "--projector", "8,4")
PLAIN = ("--jitter-probability", 0, "--grey", 0)
RNG = np.random.default_rng(0)


def save(path, values, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    how = {"photometric": "minisblack", **how}
    tifffile.imwrite(path, values, **how)
    return path


def stack(dtype=np.uint8, channels=5):
    top = 256 if dtype == np.uint8 else 4096
    return RNG.integers(0, top, (8, 8, channels)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_channels_and_pages_keep_their_order(tmp_path, dtype):
    values = stack(dtype)
    reading = Reading("0,4095", "channels")
    expected = values if dtype == np.uint8 else np.rint(values * (255 / 4095))
    planes = np.moveaxis(values, 2, 0)
    files = [
        save(tmp_path / "contig.tif", values, planarconfig="contig"),
        save(tmp_path / "separate.tif", planes, planarconfig="separate"),
        save(tmp_path / "pages.tif", planes),
    ]
    for path in files:
        assert np.array_equal(decode_file(path, 5, reading).pixels, expected), path
        assert "5 channels, expected 3" in decoded_or_reason(path, 3, reading)
    first = decode_file(files[2], 1, Reading("0,4095", "first")).pixels
    assert np.array_equal(first[..., 0], expected[..., 0])


def test_each_page_is_an_image_with_the_label_of_its_file(tmp_path, refused):
    folder, pages = tmp_path / "d", {"cat/a": 3, "cat/b": 1, "dog/c": 2}
    expected = []
    for name, count in pages.items():
        values = RNG.integers(0, 4096, (count, 8, 8)).astype(np.uint16)
        save(folder / f"{name}.tif", values)
        expected += list(np.rint(values * (255 / 4095)))
    pack = ("pack", folder, "--pages", "each", "--window", "0,4095")
    assert furlkit(*pack, "-o", tmp_path / "p") == 0
    packed = read_dataset(tmp_path / "p")
    assert np.array_equal(packed.images[..., 0], np.stack(expected))
    assert packed.labels.tolist() == [0, 0, 0, 0, 1, 1]
    found = packed.facts.fingerprint
    assert found["pages"] == "each" and "files" not in found
    model = tmp_path / "m"
    assert furlkit("init", "--data", tmp_path / "p", *NET, "-o", model) == 0
    assert read_checkpoint(model).facts.reading == {"window": "0,4095", "pages": "each"}
    embed = ("embed", model, "--data", folder, "-o", tmp_path / "o")
    refused(tmp_path, 65, [folder / "cat/a.tif", "3 pages"], *embed)


def test_pages_of_8_bits_may_be_images_too(tmp_path):
    values = RNG.integers(0, 256, (3, 6, 6)).astype(np.uint8)
    save(tmp_path / "d/a.tif", values)
    pack = ("pack", tmp_path / "d", "--pages", "each", "-o", tmp_path / "p")
    assert furlkit(*pack) == 0
    packed = read_dataset(tmp_path / "p")
    assert np.array_equal(packed.images[..., 0], values)
    assert packed.facts.fingerprint["pages"] == "each"


@pytest.mark.parametrize("command", ["pack", "init"])
def test_pages_are_not_chosen_in_silence(tmp_path, refused, command):
    folder = tmp_path / "d"
    save(folder / "a.tif", np.zeros((7, 6, 6), np.uint8))
    given = ("pack", folder) if command == "pack" else ("embed", tmp_path / "m")
    if command == "init":
        init = ("init", "--data", folder, "--image-size", 8, *NET, "-o", tmp_path / "m")
        assert furlkit(*init) == 0
        given += ("--data", folder)
    words = [folder / "a.tif", "7 pages", "--pages"]
    refused(tmp_path, 65, words, *given, "-o", tmp_path / "o")


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """A folder of TIFF files of five channels of 16 bits, packed; and a model."""
    folder = tmp_path_factory.mktemp("five")
    for number in range(12):
        name = folder / f"d/{'ab'[number % 2]}/{number}.tif"
        save(name, stack(np.uint16), planarconfig="contig")
    pack = ("pack", folder / "d", "--window", "0,4095", "-o", folder / "p")
    assert furlkit(*pack) == 0
    assert furlkit("init", "--data", folder / "p", *NET, "-o", folder / "m") == 0
    return folder


def test_a_model_of_five_channels_goes_through_all_stages(five, tmp_path):
    assert read_dataset(five / "p").images.shape == (12, 8, 8, 5)
    assert read_checkpoint(five / "m").facts.architecture["channels"] == 5
    model, data = tmp_path / "c", ("--data", five / "p")
    train = ("local-train", five / "m", *data, "--client", "x", "--preset", "medical")
    assert furlkit(*train, "--epochs", 1, "--batch-size", 6, "-o", model) == 0
    assert furlkit("aggregate", model, "-o", tmp_path / "g") == 0
    for name, images in (("f", five / "d"), ("p", five / "p")):
        embed = ("embed", tmp_path / "g", "--data", images, "-o", tmp_path / name)
        assert furlkit(*embed) == 0
    one, other = (load_file(tmp_path / name)["rows"] for name in "fp")
    assert np.array_equal(one, other) and np.ptp(one) > 0
    knn = (
        "evaluate",
        "knn",
        tmp_path / "g",
        *data,
        "--test-data",
        five / "d",
        "--k",
        3,
    )
    assert furlkit(*knn, "-o", tmp_path / "k") == 0
    assert furlkit("export", tmp_path / "g", "-o", tmp_path / "e") == 0
    config = json.loads((tmp_path / "e/config.json").read_text())
    assert config["input_size"] == [5, 8, 8]


@pytest.mark.parametrize(
    "off, flag",
    [
        ((), "--jitter-probability 0 --grey 0"),
        (("--grey", 0), "--jitter-probability 0"),
        (("--jitter", "0,0,0,0"), "--grey 0"),
        ((*PLAIN, "--randaugment", "2,9"), "--randaugment 0,9"),
    ],
)
def test_operations_on_colours_are_refused(five, tmp_path, refused, off, flag):
    train = ("local-train", five / "m", "--data", five / "p", "--client", "x", *off)
    refused(tmp_path, 2, [flag, "5 channels"], *train, "-o", tmp_path / "c")


def test_images_of_other_channels_are_refused(five, tmp_path, refused):
    embed = ("embed", five / "m", "--data", "digits", "-o", tmp_path / "o")
    refused(tmp_path, 65, [five / "m", "5 channels", "digits"], *embed)


@pytest.mark.parametrize("encoder", ["cnn5", "resnet18", "timm:vit_tiny_patch16_224"])
def test_encoders_take_channels_and_weights_are_adapted(tmp_path, run, encoder):
    width = ("--width", 0.02) if encoder == "cnn5" else ()
    size = ("--encoder", encoder, "--image-size", 32, *width)
    three, seven = tmp_path / "3", tmp_path / "7"
    assert furlkit("init", *size, "--channels", 3, "-o", three) == 0
    found = run("init", *size, "--channels", 7, "--from", three, "-o", seven)
    assert found.code == 0 and "from 3 to 7 channels" in found.err
    before, after = load_file(three), load_file(seven)
    (name,) = [k for k in after if after[k].shape != before[k].shape]
    assert after[name].shape[1] == 7
    sums = [tensors[name].sum(axis=1) for tensors in (before, after)]
    assert np.allclose(*sums, atol=1e-6)


def test_arrays_of_many_channels(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8, 9), np.uint8))
    assert Source(tmp_path / "a.npz").images().images.shape == (4, 8, 8, 9)


@pytest.mark.parametrize("name", ["png", "jpg"])
def test_grey_images_are_packed_as_they_are(tmp_path, name):
    (tmp_path / "d").mkdir()
    for number in range(3):
        pixels = RNG.integers(0, 256, (6, 6)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"d/{number}.{name}")
    for channels, given in ((1, ()), (3, ("--channels", 3))):
        assert furlkit("pack", tmp_path / "d", *given, "-o", tmp_path / "p") == 0
        assert read_dataset(tmp_path / "p").images.shape == (3, 6, 6, channels)


def test_a_colour_image_among_grey_ones_is_not_changed(tmp_path, refused):
    (tmp_path / "d").mkdir()
    for number in range(100):
        mode = "RGB" if number == 2 else "L"  # Not in the sample.
        Image.new(mode, (4, 4)).save(tmp_path / f"d/{number:03}.png")
    words = [tmp_path / "d/002.png", "--channels"]
    refused(tmp_path, 65, words, "pack", tmp_path / "d", "-o", tmp_path / "p")
