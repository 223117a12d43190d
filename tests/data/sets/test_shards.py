"""Tar, Parquet and Arrow shards are packed as the same images in a folder are."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

from furlkit.data.sets.sharded import index_shards
from furlkit.data.sets.source import Source
from furlkit.files.dataset import read_dataset
from tests.data.sets.shard_files import (
    colour_images,
    encoded,
    samples,
    table,
    write_arrow,
    write_folder,
    write_parquet,
    write_tar,
)
from tests.helpers import furlkit, tensor_bytes

LABELS, NAMES = [0] * 9 + [1] * 13, ["cat", "dog"]


def write_shard(kind, path, images, labels=LABELS, names=NAMES):
    """One shard of a kind, which is the ending of the file but for `stream`."""
    if kind == "tar":
        return write_tar(path.with_suffix(".tar"), samples(images, labels))
    rows = table(images, labels, names)
    if kind == "parquet":
        return write_parquet(path.with_suffix(".parquet"), rows)
    return write_arrow(path.with_suffix(".arrow"), rows, stream=kind == "stream")


KINDS = ("tar", "parquet", "arrow", "stream")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [(), ("--image-size", 8, "--channels", 1), ("--depth", 16)]
)
def test_a_shard_gives_the_bytes_of_the_same_images_in_a_folder(
    tmp_path, kind, options
):
    images = colour_images(22)
    folder = write_folder(tmp_path / "folder", images, LABELS, NAMES)
    shard = write_shard(kind, tmp_path / "shard", images)
    one, other = tmp_path / "folder.st", tmp_path / "shard.st"
    assert furlkit("pack", folder, *options, "-o", one) == 0
    assert furlkit("pack", shard, *options, "-o", other) == 0
    assert tensor_bytes(one) == tensor_bytes(other)
    expected, found = read_dataset(one).facts, read_dataset(other).facts
    expected.fingerprint.pop("files")
    assert found.fingerprint == expected.fingerprint
    assert (found.mean, found.std) == (expected.mean, expected.std)
    assert found.class_names == (["0", "1"] if kind == "tar" else NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_window_and_pages_apply_as_to_a_folder(tmp_path, kind):
    rng = np.random.default_rng(0)
    for number in range(3):
        pages = rng.integers(0, 4096, (2, 6, 6), np.uint16)
        tifffile.imwrite(tmp_path / f"{number}.tif", pages, photometric="minisblack")
    images = [(tmp_path / f"{number}.tif").read_bytes() for number in range(3)]
    folder = write_folder(tmp_path / "folder", images, [0, 0, 1], NAMES, "tif")
    shard = write_shard(kind, tmp_path / "shard", images, [0, 0, 1])
    options = ("--window", "0,4095", "--pages", "each")
    for source in (folder, shard):
        output = tmp_path / f"{source.name}.st"
        assert furlkit("pack", source, *options, "-o", output) == 0
    packed = read_dataset(tmp_path / f"{shard.name}.st")
    assert packed.labels.tolist() == [0, 0, 0, 0, 1, 1]
    assert tensor_bytes(tmp_path / f"{shard.name}.st") == tensor_bytes(
        tmp_path / "folder.st"
    )


def test_values_without_a_window_are_refused_with_a_proposal(tmp_path, capsys):
    deep = encoded(np.arange(64, dtype=np.uint16).reshape(8, 8) * 60)
    shard = write_tar(tmp_path / "s.tar", samples([deep] * 2))
    assert furlkit("pack", shard, "-o", tmp_path / "x.st") == 65
    error = capsys.readouterr().err
    assert "s.tar" in error and "--window 0,4095" in error


@pytest.mark.parametrize("kind", ["tar", "parquet"])
@pytest.mark.parametrize("given", ["pattern", "folder"])
def test_several_shards_are_one_dataset_in_order_of_names(tmp_path, kind, given):
    images, parts = colour_images(22), tmp_path / "parts"
    whole = write_shard(kind, tmp_path / "whole", images)
    parts.mkdir()
    (parts / "README.md").write_text("about")
    for number, part in enumerate((slice(0, 8), slice(8, 22))):
        write_shard(kind, parts / f"train-{number}", images[part], LABELS[part])
    source = parts if given == "folder" else parts / f"train-*.{kind}"
    assert furlkit("pack", whole, "-o", tmp_path / "whole.st") == 0
    assert furlkit("pack", source, "-o", tmp_path / "parts.st") == 0
    assert tensor_bytes(tmp_path / "whole.st") == tensor_bytes(tmp_path / "parts.st")
    assert read_dataset(tmp_path / "parts.st").domains is None


def test_shards_as_several_sources_are_domains_with_a_warning(tmp_path, capsys):
    for number in range(2):
        write_tar(tmp_path / f"s-{number}.tar", samples(colour_images(2)))
    shards, output = sorted(tmp_path.iterdir()), tmp_path / "x.st"
    assert furlkit("pack", *shards, "-o", output) == 0
    assert read_dataset(output).facts.domain_names == ["s-0", "s-1"]
    assert "quote a pattern" in capsys.readouterr().err


def test_shards_of_two_splits_are_refused(tmp_path, capsys):
    for split in ("train", "test"):
        write_tar(tmp_path / f"{split}-0.tar", samples(colour_images(2)))
    assert furlkit("pack", tmp_path, "-o", tmp_path / "x.st") == 65
    assert "test, train" in capsys.readouterr().err
    assert furlkit("pack", tmp_path / "train*.tar", "-o", tmp_path / "x.st") == 0


def test_a_tar_beside_images_stays_a_file_that_is_no_image(tmp_path):
    write_folder(tmp_path / "f", colour_images(3), [0, 0, 1], NAMES)
    write_tar(tmp_path / "f" / "backup.tar", samples(colour_images(5)))
    assert furlkit("pack", tmp_path / "f", "-o", tmp_path / "x.st") == 0
    assert len(read_dataset(tmp_path / "x.st").images) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_train_fraction_and_drawn_images_are_those_of_the_folder(tmp_path, kind):
    images = colour_images(22)
    folder = write_folder(tmp_path / "folder", images, LABELS, NAMES)
    shard = write_shard(kind, tmp_path / "shard", images)
    for options in (("--train-fraction", 0.5, "--split", "test"), ("--images", 6)):
        for source in (folder, shard):
            output = tmp_path / f"{source.name}.st"
            assert furlkit("pack", source, *options, "-o", output) == 0
        assert tensor_bytes(tmp_path / "folder.st") == tensor_bytes(output)


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_a_broken_image_is_named_and_can_be_left_out(tmp_path, kind, capsys):
    images = colour_images(22)
    images[5] = images[5][:60]
    shard = write_shard(kind, tmp_path / "shard", images)
    output = tmp_path / "x.st"
    assert furlkit("pack", shard, "-o", output) == 65
    name = "0005.png" if kind == "tar" else "row 5"
    assert f"{shard}/{name}" in capsys.readouterr().err
    assert furlkit("pack", shard, "--skip-broken", "-o", output) == 0
    assert "left out 1 images" in capsys.readouterr().err
    assert read_dataset(output).labels.tolist() == [0] * 8 + [1] * 13


def test_a_pattern_without_files_is_refused(tmp_path, capsys):
    for name in ("missing.tar", "missing-*.parquet"):
        assert furlkit("pack", tmp_path / name, "-o", tmp_path / "x.st") == 65
        assert f"{name}: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("check",), ("partition", "-o", "p", "--data")])
def test_other_commands_propose_to_pack(tmp_path, command, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "s.tar", samples(colour_images(2)))
    assert furlkit(*command, "s.tar") == 2
    assert "furlkit pack 's.tar' -o packed.safetensors" in capsys.readouterr().err


def test_a_table_has_no_folders_for_groups(tmp_path, capsys):
    shard = write_parquet(tmp_path / "s.parquet", table(colour_images(4)))
    output = tmp_path / "x.st"
    assert furlkit("pack", shard, "--groups", "folder", "-o", output) == 2
    assert "s.parquet is not a folder" in capsys.readouterr().err
    assert furlkit("pack", shard, "--domain-folders", "-o", output) == 2
    assert "--domain-folders" in capsys.readouterr().err


def test_a_tar_has_the_folders_of_its_members_as_groups(tmp_path):
    images, names = colour_images(4), ("a/0.png", "b/0.png", "a/1.png", "c/x/2.png")
    shard = write_tar(tmp_path / "s.tar", list(zip(names, images, strict=True)))
    output = tmp_path / "x.st"
    assert furlkit("pack", shard, "--groups", "folder", "-o", output) == 0
    assert Source(output).images().groups.tolist() == [0, 1, 0, 2]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_few_of_many_shards_are_open(tmp_path):
    images = colour_images(3)
    for number in range(6):
        write_parquet(tmp_path / f"{number}.parquet", table(images))
    index = index_shards("x", sorted(tmp_path.iterdir()), labelled=True)
    contents = [index.read(index.root / name) for name in index.paths]
    assert contents == images * 6
    handles = Path("/proc/self/fd").iterdir()
    links = [os.readlink(each) for each in handles if each.is_symlink()]
    assert sum(link.startswith(str(tmp_path)) for link in links) == 2


PEAK = """
import sys, tracemalloc
import pyarrow
from tests.helpers import furlkit

# Python, numpy and Arrow count the bytes that they allocate.
peaks, pool = [], pyarrow.default_memory_pool()
for source in sys.argv[2:]:
    tracemalloc.start()
    assert furlkit("pack", source, "--image-size", 16, "-o", sys.argv[1]) == 0
    peaks.append(tracemalloc.get_traced_memory()[1] + pool.max_memory())
    tracemalloc.stop()
print(peaks[1] - peaks[0])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_the_number_of_images(tmp_path, kind, environment):
    # Bytes after the end of a PNG are not read, so that large files are quick to decode.
    rng, start = np.random.default_rng(0), colour_images(1)[0]
    images = [start + rng.bytes(2**16) for _ in range(900)]
    shards = [
        write_shard(kind, tmp_path / f"{count}", images[:count], [0] * count)
        for count in (300, 900)
    ]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "x.st"), *map(str, shards)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert shards[1].stat().st_size - shards[0].stat().st_size > 600 * 2**16
    # Of 39,300,000 bytes in the other images.
    assert int(done.stdout.splitlines()[-1]) < 19_000_000
