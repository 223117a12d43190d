"""Images of 16 bits, from files to the first operation of augmentation."""

import numpy as np
import pytest
import tifffile
import torch

from furlkit.data.augment import Augmentation, augment, plain
from furlkit.data.sets.resize import resize_images
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Reading
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.dataset import read_dataset
from tests.helpers import digest, furlkit

NET = ("--width", 0.02, "--projector", "8,4")


@pytest.fixture(scope="module")
def deep_images(tmp_path_factory):
    """12-bit files, packed with 16 bits, and a model for them."""
    folder, rng = tmp_path_factory.mktemp("depth"), np.random.default_rng(0)
    (folder / "d").mkdir()
    for number in range(8):
        values = rng.integers(0, 4096, (8, 8)).astype(np.uint16)
        tifffile.imwrite(folder / f"d/{number}.tif", values)
    pack = ("pack", folder / "d", "--window", "0,4095", "--depth", 16)
    assert furlkit(*pack, "-o", folder / "p") == 0
    assert furlkit("init", "--data", folder / "p", *NET, "-o", folder / "m") == 0
    return folder


def test_16_bits_are_packed_and_cached(deep_images, tmp_path):
    packed = read_dataset(deep_images / "p").images
    values = tifffile.imread(deep_images / "d/3.tif").astype(float)
    assert packed.dtype == np.uint16
    assert np.array_equal(packed[3, ..., 0], np.rint(values * 65535 / 4095))
    reading = Reading("0,4095", depth=16)
    for _ in range(2):
        cached = Source(deep_images / "d", cache=tmp_path, reading=reading).images()
        assert np.array_equal(cached.images[..., :1], packed)
    facts = read_checkpoint(deep_images / "m").facts
    assert facts.reading == {"window": "0,4095", "depth": 16}


def test_the_net_sees_more_than_256_levels(deep_images):
    packed = read_dataset(deep_images / "p").images
    seen = plain(torch.from_numpy(packed.copy()), 8)
    assert torch.equal(seen[:, 0], torch.from_numpy(packed[..., 0] / np.float32(65535)))
    assert len(seen.unique()) > 400
    crop = Augmentation(crop_scale=(0.5, 1), jitter_probability=0, grey=0)
    one, other = (
        augment(images, crop, 8, torch.Generator().manual_seed(0), 2)
        for images in (
            torch.from_numpy(packed.copy()),
            torch.from_numpy(np.rint(packed / 257).astype(np.uint8)),
        )
    )
    assert 0 < (one - other).abs().max() <= 1 / 255


@pytest.mark.parametrize("stage", ["local-train", "embed", "evaluate"])
def test_stages_take_16_bits(deep_images, tmp_path, stage):
    data, out = ("--data", deep_images / "p"), ("-o", tmp_path / "o")
    command = {
        "local-train": (
            "local-train",
            deep_images / "m",
            *data,
            "--client",
            "x",
            "--epochs",
            1,
        ),
        "embed": ("embed", deep_images / "m", "--data", deep_images / "d"),
        "evaluate": ("evaluate", "drift", deep_images / "m", *data),
    }[stage]
    assert furlkit(*command, *out) == 0


def test_8_bits_may_be_deepened_but_16_are_not_cut(deep_images, tmp_path, refused):
    deep = tmp_path / "digits"
    assert furlkit("pack", "digits", "--depth", 16, "-o", deep) == 0
    digits = Source("digits").images().images
    assert np.array_equal(read_dataset(deep).images, digits.astype(np.uint16) * 257)
    again = ("pack", deep_images / "p", "-o", tmp_path / "q")
    refused(tmp_path, 65, [deep_images / "p", "--depth 16"], *again)


def test_resizing_keeps_16_bits():
    images = np.full((2, 8, 8, 1), 40000, np.uint16)
    images[:, :4] = 1000
    found = resize_images(images, 4)
    assert found.dtype == np.uint16 and found.max() == 40000 and found.min() == 1000


def test_the_default_is_8_bits(deep_images, tmp_path):
    names = []
    for name, more in (("a", ()), ("b", ("--depth", 8))):
        pack = ("pack", deep_images / "d", "--window", "0,4095", *more)
        assert furlkit(*pack, "-o", tmp_path / name) == 0
        names.append(digest(tmp_path / name))
    assert (
        names[0] == names[1] and read_dataset(tmp_path / "a").images.dtype == np.uint8
    )
