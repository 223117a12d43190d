"""A folder of any images becomes one array, every file being read once."""

import os
import shutil
import threading
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from furlkit import console
from furlkit.data.sets import decode, decoded
from furlkit.data.sets.decoded import Fit
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import DiskError, InputError
from furlkit.files import cache as caching
from furlkit.files.container.read import Container
from tests.helpers import furlkit, killed

MIXED = ((8, 8), (8, 8), (6, 10), (12, 9), (8, 8))  # height, width


def save(folder, sizes=MIXED, seed=0, mode="RGB"):
    """Images of noise in one class; gives their pixels."""
    rng, pixels = np.random.default_rng(seed), []
    (folder / "c").mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        image = Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8))
        image.convert(mode).save(folder / f"c/{number}.png")
        pixels.append(np.asarray(image))
    return pixels


@pytest.fixture
def pictures(tmp_path):
    save(tmp_path / "pictures")
    return tmp_path / "pictures"


@pytest.fixture
def source(pictures, tmp_path):
    return Source(pictures, cache=tmp_path / "cache")


@pytest.fixture
def reads(monkeypatch):
    """How often each file was read."""
    counts, original = Counter(), decode.read_file

    def counted(path):
        counts[path.name] += 1
        return original(path)

    monkeypatch.setattr(decode, "read_file", counted)
    return counts


def expected(folder, size, channels=3):
    files = sorted(folder.rglob("*.png"))
    found = [decode.fitted(decode.decode_file(f, channels).pixels, size) for f in files]
    return np.stack(found)


def test_images_of_different_sizes_are_brought_to_one(source, pictures):
    found = source.images(Fit(7))
    assert found.images.shape == (5, 7, 7, 3)
    assert np.array_equal(found.images, expected(pictures, 7))
    assert same_dataset(source.labels().fingerprint, found.fingerprint) is None


@pytest.mark.parametrize("block", [1, 2, 256])
@pytest.mark.parametrize("different", range(1, 5))
def test_wherever_the_first_different_size_is(tmp_path, monkeypatch, different, block):
    sizes = [(8, 8)] * 5
    sizes[different] = (9, 12)
    save(tmp_path / "p", sizes)
    monkeypatch.setattr(decoded, "BLOCK", block)
    found = Source(tmp_path / "p").images(Fit(5)).images
    assert np.array_equal(found, expected(tmp_path / "p", 5))


def test_images_of_one_size_keep_it(tmp_path, capsys):
    pixels = save(tmp_path / "p", [(8, 6)] * 3)
    found = Source(tmp_path / "p").images(Fit(4))
    assert np.array_equal(found.images, pixels)
    assert "warning" not in capsys.readouterr().err


def test_images_of_one_size_that_take_too_much_are_made_smaller(
    tmp_path, monkeypatch, capsys
):
    save(tmp_path / "p", [(8, 6)] * 3)
    monkeypatch.setattr(decoded, "MOST_BYTES", 3 * 8 * 6 * 3 - 1)
    for _ in range(2):
        console.settings.reset()  # As a command does.
        found = Source(tmp_path / "p").images(Fit(4)).images
        assert np.array_equal(found, expected(tmp_path / "p", 4))
        assert "3 images of 6 x 8 pixels" in capsys.readouterr().err


def test_one_warning_says_what_was_changed_and_says_it_again(source, pictures, capsys):
    save(pictures / "more", [(8, 8)] * 2, mode="L")
    for _ in range(2):
        console.settings.reset()  # As a command does.
        source.images(Fit(7))
        said = [
            line
            for line in capsys.readouterr().err.splitlines()
            if line.startswith("warn")
        ]
        assert said == [
            f"warning: {pictures}: 7 images have 3 sizes, 10 x 6 to 9 x 12 pixels "
            "and 2 of 7 images are grey; all are converted to 7 x 7 pixels in colour"
        ]


def test_a_model_of_grey_images_gets_grey_ones(source, pictures, capsys):
    found = source.images(Fit(7, 1))
    assert np.array_equal(found.images, expected(pictures, 7, 1))
    assert found.images.shape[3] == len(found.mean) == 1
    assert "5 of 5 images are in colour" in capsys.readouterr().err


def test_every_file_is_read_once_for_all_commands(source, reads):
    first = source.images(Fit(7)).images
    assert isinstance(first, np.memmap)
    again = source.images(Fit(7)).images
    assert np.array_equal(first, again)
    assert len(reads) == 5 and set(reads.values()) == {1}


def test_partition_reads_no_image_init_a_sample_and_local_train_each_once(
    pictures, tmp_path, reads
):
    save(pictures, [(8, 8), (9, 8)] * 8)
    p, g, data = tmp_path / "p", tmp_path / "g", ("--data", pictures)
    assert furlkit("partition", *data, "--clients", 2, "-o", p) == 0
    assert not reads
    net = ("--image-size", 8, "--width", 0.02, "--projector", "8,4")
    assert furlkit("init", *data, *net, "-o", g) == 0  # Does one need a window?
    reads.clear()
    train = ("local-train", p, g, *data, "--epochs", 1, "--batch-size", 4)
    for client in (0, 1, 0):
        out = ("--client", client, "--force", "-o", tmp_path / "c")
        assert furlkit(*train, *out) == 0
    assert len(reads) == 16 and set(reads.values()) == {1}


def test_nothing_is_written_beside_the_images(source, pictures, tmp_path, snapshot):
    before = snapshot(pictures)
    source.images(Fit(7))
    assert snapshot(pictures) == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"pictures", "cache"}
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_a_copy_of_the_folder_is_read_but_not_decoded(
    source, pictures, tmp_path, monkeypatch
):
    before = source.images(Fit(7)).images
    shutil.copytree(pictures, tmp_path / "copy")
    monkeypatch.setattr(decode, "decode_file", killed)
    copy = Source(tmp_path / "copy", cache=source.cache).images(Fit(7))
    assert np.array_equal(copy.images, before)


def test_a_changed_file_is_found_even_with_its_old_size_and_time(tmp_path, reads):
    folder = tmp_path / "p"
    folder.mkdir()
    path, old = folder / "a.bmp", None
    for value in (1, 2):
        Image.new("RGB", (8, 8), (value,) * 3).save(path)
        if old:
            assert path.stat().st_size == old.st_size
            os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
        old = path.stat()
        found = Source(folder, cache=tmp_path / "cache").images().images
        assert np.all(found == value)
    # Once for the first; then to see whether it is known, and to decode it.
    assert reads["a.bmp"] == 3


@pytest.mark.parametrize("kind", ["images", "notes"])
@pytest.mark.parametrize("damage", [b"", b"{}", b'{"size": 3}', b"garbage" * 9])
def test_a_damaged_cache_is_made_again(source, tmp_path, kind, damage):
    before = source.images(Fit(7)).images.copy()
    (path,) = (tmp_path / "cache" / kind).iterdir()
    path.write_bytes(damage)
    assert np.array_equal(source.images(Fit(7)).images, before)


def flip_bit(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("position", [-1, -7 * 7 * 3, -5 * 7 * 7 * 3])
def test_a_flipped_bit_in_the_cache_is_found_and_decoded_again(
    source, tmp_path, capsys, position
):
    before = source.images(Fit(7)).images.copy()
    (path,) = (tmp_path / "cache/images").iterdir()
    whole = path.read_bytes()
    flip_bit(path, position)
    capsys.readouterr()
    assert np.array_equal(source.images(Fit(7)).images, before)
    assert capsys.readouterr().err.count(f"{path}: the cache has a damaged copy") == 1
    assert path.read_bytes() == whole


def test_images_of_the_cache_are_checked_once_in_a_process(source, monkeypatch):
    checked, check = [], Container.check_body

    def counted(opened, reach):
        checked.append(opened.path)
        check(opened, reach)

    monkeypatch.setattr(Container, "check_body", counted)
    for _ in range(3):
        source.images(Fit(7))
    assert len(checked) == 1


def test_images_that_are_removed_after_they_were_written_are_used(
    source, pictures, tmp_path, monkeypatch
):
    write = decoded.write_dataset

    def lose(path, *arguments):
        write(path, *arguments)
        path.unlink()

    monkeypatch.setattr(decoded, "write_dataset", lose)
    assert np.array_equal(source.images(Fit(7)).images, expected(pictures, 7))
    assert not list((tmp_path / "cache/images").iterdir())


@pytest.mark.parametrize("name", ["_write", "_note", "_refitted"])
def test_killed_while_decoding_and_started_again(
    source, monkeypatch, dies_at, pictures, name
):
    monkeypatch.setattr(decoded, "BLOCK", 1)
    with dies_at(decoded, name):
        source.images(Fit(7))
    assert np.array_equal(source.images(Fit(7)).images, expected(pictures, 7))


def test_two_at_once_decode_once(source, reads):
    both = [threading.Thread(target=source.images, args=(Fit(7),)) for _ in "ab"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(reads) == 5 and set(reads.values()) == {1}


def test_without_a_usable_cache_images_are_in_memory(pictures, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = Source(pictures).images(Fit(7)).images
    assert np.array_equal(found, expected(pictures, 7))
    with pytest.raises(DiskError, match="file: .*--cache"):
        Source(pictures, cache=tmp_path / "file").images(Fit(7))


def test_a_full_disk_leaves_the_images_in_memory(source, pictures, monkeypatch, capsys):
    def full(*_):
        raise DiskError("no space left")

    monkeypatch.setattr(decoded, "write_dataset", full)
    found = source.images(Fit(7)).images
    assert np.array_equal(found, expected(pictures, 7))
    assert "no space left" in capsys.readouterr().err


def test_what_the_cache_cannot_hold_is_not_kept(
    source, pictures, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(caching, "MOST_BYTES", 5 * 7 * 7 * 3 - 1)
    found = source.images(Fit(7)).images
    assert np.array_equal(found, expected(pictures, 7))
    assert not list((tmp_path / "cache/images").iterdir())
    assert "pack" in capsys.readouterr().err


def test_the_cache_drops_what_was_used_longest_ago(tmp_path, monkeypatch):
    cache, sizes = tmp_path / "cache", ((8, 8),)
    names, kept = "abc", []
    for name in names:
        save(tmp_path / name, sizes, seed=ord(name))
        Source(tmp_path / name, cache=cache).images()
        kept = sorted((cache / "images").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    Source(tmp_path / "a", cache=cache).images()  # now b is the oldest
    monkeypatch.setattr(caching, "MOST_BYTES", 3 * kept[0].stat().st_size)
    save(tmp_path / "d", sizes, seed=9)
    Source(tmp_path / "d", cache=cache).images()
    left = set((cache / "images").iterdir())
    assert kept[0] in left and kept[1] not in left and kept[2] in left
    assert len(left) == 3


def test_the_cache_is_where_the_platform_has_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert caching.default_cache() == tmp_path / "furlkit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert caching.default_cache() == tmp_path / ".cache/furlkit"
    monkeypatch.setattr("sys.platform", "darwin")
    assert caching.default_cache() == tmp_path / "Library/Caches/furlkit"


POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
)


def test_a_postscript_file_starts_no_interpreter(pictures, tmp_path, monkeypatch):
    (pictures / "c/0.png").write_bytes(POSTSCRIPT)
    tool, started = tmp_path / "gs", tmp_path / "started"
    tool.write_text(f"#!/bin/sh\ntouch {started}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(InputError, match="0.png: .*none of JPEG"):
        Source(pictures).images(Fit(7))
    assert not started.exists()


def test_only_so_many_pixels_are_decoded(pictures, monkeypatch):
    monkeypatch.setattr(decode, "MOST_PIXELS", 8 * 8)
    with pytest.raises(InputError, match="3.png: .*more than 64 pixels"):
        decode.decode_file(pictures / "c/3.png", 3)
    assert decode.decode_file(pictures / "c/0.png", 3).size == (8, 8)


def test_pillows_own_warning_is_a_refusal(tmp_path):
    # A header of 20,000 x 20,000 pixels, and hardly any bytes.
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    with pytest.raises(InputError, match="bomb.png: .*pixels"):
        decode.decode_file(tmp_path / "bomb.png", 3)


def test_only_so_many_bytes_are_read(pictures, monkeypatch):
    monkeypatch.setattr(decode, "MOST_BYTES", 20)
    with pytest.raises(InputError, match="0.png: .*more than 20 bytes"):
        decode.decode_file(pictures / "c/0.png", 3)
