"""check: what of a dataset cannot be read."""

import io
import json
import os

import numpy as np
import pytest
import tifffile
from PIL import Image

from furlkit.data.sets.source import Source
from furlkit.files.container.read import Container
from furlkit.files.dataset import read_dataset
from furlkit.reports.sheet import contact_sheet
from tests.helpers import digest, furlkit


def pictures(folder, count=4):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (8, 8 + number % 2, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def broken(folder):
    """A folder with four files that cannot be read, and what is no image."""
    pictures(folder)
    cut = folder / "cat/0.png"
    cut.write_bytes(cut.read_bytes()[:60])
    (folder / "dog/x.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    (folder / "dog/empty.gif").write_bytes(b"")
    os.symlink(folder / "gone", folder / "dog/link.png")
    (folder / "dog/notes.txt").write_text("no image")
    (folder / "hollow").mkdir()
    os.mkfifo(folder / "dog/pipe.png")
    return folder


BROKEN = ["cat/0.png", "dog/empty.gif", "dog/link.png", "dog/x.jpg"]


def test_all_broken_files_are_listed_at_once(run, tmp_path):
    folder = broken(tmp_path / "p")
    found = run("check", folder)
    assert found.code == 65 and "4 files cannot be read" in found.err
    lines = found.out.splitlines()
    assert [line.split(": ")[0] for line in lines[:4]] == [
        str(folder / name) for name in BROKEN
    ]
    assert "none of JPEG" in lines[1] and "No such file" in lines[2]
    assert lines[4] == (
        f"{folder}: 7 images of 2 sizes, 8 x 8 to 9 x 8 pixels, 0 grey; 4 files cannot "
        "be read; skipped 2 files that are no images and 1 folder without images"
    )
    assert lines[5] == f"{folder}: 7 PNG; 7 uint8 from 0 to 255"
    assert lines[6].startswith("decoded images are kept in ") and len(lines) == 7


def test_the_same_for_programs(run, tmp_path):
    found = run("check", "--json", "--cache", tmp_path / "c", broken(tmp_path / "p"))
    assert found.code == 65
    data = json.loads(found.out)
    assert sorted(data["broken"]) == BROKEN
    assert data["images"] == 7 and data["sizes"] == [[8, 8, 3], [9, 8, 4]]
    assert data["cache"] == str(tmp_path / "c") and data["cache_bytes"] == 0


def test_a_folder_that_can_be_read(run, tmp_path):
    found = run("check", pictures(tmp_path / "p"))
    assert found.code == 0 and "8 images of 2 sizes" in found.out
    assert not (tmp_path / "cache").exists()


def test_a_stray_image_is_found_too(run, tmp_path):
    folder = pictures(tmp_path / "p")
    (folder / "cat/0.png").rename(folder / "stray.png")
    found = run("check", folder)
    assert found.code == 0 and "no labels, since stray.png" in found.err


def test_other_datasets_are_opened(run, tmp_path):
    assert "1,438 images" in run("check", "digits").out
    packed = tmp_path / "d.any"
    assert furlkit("pack", "digits", "-o", packed) == 0
    assert "1,438 images of 8 x 8 x 1" in run("check", packed).out


def test_pack_leaves_broken_files_out_and_counts_them(run, tmp_path):
    folder, size = broken(tmp_path / "p"), ("--image-size", 8)
    assert run("pack", folder, *size, "-o", tmp_path / "a").code == 65
    found = run("pack", folder, *size, "--skip-broken", "-o", tmp_path / "a")
    assert found.code == 0 and "7 images" in found.out
    assert "left out 4 files" in found.err and "cat/0.png" in found.err
    for name in BROKEN:
        (folder / name).unlink()
    assert furlkit("pack", folder, *size, "-o", tmp_path / "b") == 0
    one, other = (read_dataset(tmp_path / name) for name in "ab")
    assert np.array_equal(one.images, other.images)
    assert one.facts == other.facts


def test_skipping_nothing_changes_no_pixel(run, tmp_path):
    folder, size = pictures(tmp_path / "p"), ("--image-size", 8)
    for name, more in (("a", ()), ("b", ("--skip-broken",))):
        found = run("pack", folder, *size, *more, "-o", tmp_path / name)
        assert found.code == 0 and "warning" not in found.err
    one, other = (read_dataset(tmp_path / name) for name in "ab")
    assert np.array_equal(one.images, other.images)


def test_a_packed_file_is_known_by_its_content(tmp_path):
    for name in ("d", "d.npz", "d.txt", "d.safetensors"):
        path = tmp_path / name
        assert furlkit("pack", "digits", "-o", path) == 0
        assert len(Source(path).images().images) == 1438
        out = tmp_path / f"{name}.p"
        assert furlkit("partition", "--data", path, "-o", out) == 0
    assert len({digest(path) for path in tmp_path.glob("*.p")}) == 1


def test_arrays_and_labels_are_known_by_their_content(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 8, 8), np.uint8))
    (tmp_path / "a.npz").rename(tmp_path / "a.data")
    assert Source(tmp_path / "a.data").images().images.shape == (3, 8, 8, 1)
    np.save(tmp_path / "l.npy", np.arange(3))
    (tmp_path / "l.npy").rename(tmp_path / "l")
    assert Source(tmp_path / "l").labels().examples == 3


def damaged(path):
    """Change one pixel of a packed file."""
    opened, content = Container(path), bytearray(path.read_bytes())
    content[opened.body_start + opened.entry("images").start + 100] ^= 1
    path.write_bytes(content)


def test_a_damaged_pixel_is_found_when_a_packed_file_is_first_read(run, tmp_path):
    path, model = tmp_path / "d", tmp_path / "g"
    assert furlkit("pack", "digits", "-o", path) == 0
    assert furlkit("init", "--data", path, "--width", 0.02, "-o", model) == 0
    damaged(path)
    out = ("-o", tmp_path / "f")
    found = run("embed", model, "--data", path, *out)
    assert found.code == 65 and str(path) in found.err and "checksum" in found.err
    assert run("check", path).code == 65


def test_a_packed_file_is_verified_once(tmp_path, monkeypatch):
    path, calls = tmp_path / "d", []
    assert furlkit("pack", "digits", "-o", path) == 0
    original = Container.check_body
    monkeypatch.setattr(
        Container, "check_body", lambda *given: calls.append(original(*given))
    )
    source = Source(path, cache=tmp_path / "cache")
    for again, count in ((False, 1), (False, 1), (True, 2)):
        source.images(again=again)
        assert len(calls) == count
    path.touch()
    source.images()
    assert len(calls) == 3


def test_a_file_that_is_nothing_is_refused(tmp_path, refused):
    (tmp_path / "x").write_bytes(b"nothing in particular")
    words = [tmp_path / "x", "neither"]
    refused(
        tmp_path, 2, words, "partition", "--data", tmp_path / "x", "-o", tmp_path / "p"
    )


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\x20\0\0\0\0\0\0\0{", b"\x93NUMPY"])
def test_what_only_begins_like_a_dataset_is_broken(tmp_path, refused, start):
    (tmp_path / "x").write_bytes(start + b" " * 99)
    command = ("partition", "--data", tmp_path / "x", "-o", tmp_path / "p")
    refused(tmp_path, 65, [tmp_path / "x"], *command)


def scans(folder):
    """Files of several formats, types, channels and pages, two of them equal."""
    folder.mkdir()
    ramp = np.arange(64, dtype=np.uint16).reshape(8, 8)
    tifffile.imwrite(folder / "deep.tif", ramp * 60)
    tifffile.imwrite(folder / "float.tif", (ramp / 7).astype(np.float32))
    five = np.zeros((8, 8, 5), np.uint8)
    how = {"photometric": "minisblack", "planarconfig": "contig"}
    tifffile.imwrite(folder / "five.tif", five, **how)
    pages = np.stack([ramp] * 3)
    tifffile.imwrite(folder / "pages.tif", pages, photometric="minisblack")
    Image.fromarray(ramp.astype(np.uint8)).save(folder / "grey.png")
    Image.fromarray(ramp.astype(np.uint8)).save(folder / "same.bmp")
    tifffile.imwrite(folder / "nan.tif", np.full((8, 8), np.nan, np.float32))
    return folder


def test_formats_types_ranges_channels_pages_and_copies_are_listed(run, tmp_path):
    found = run("check", "--json", scans(tmp_path / "s"))
    data = json.loads(found.out)
    assert found.code == 65 and "64 of its values are NaN" in data["broken"]["nan.tif"]
    assert data["formats"] == {"TIFF": 4, "PNG": 1, "BMP": 1}
    assert data["types"]["uint16"] == {"images": 2, "low": 0, "high": 3780}
    assert data["types"]["float32"] == {"images": 1, "low": 0, "high": 9}
    assert data["types"]["uint8"]["images"] == 3
    assert data["channels"] == {"1": 5, "5": 1} and data["pages"] == {"1": 5, "3": 1}
    assert data["duplicates"] == [["grey.png", "same.bmp"]]
    assert data["window"] == "0,3780"


def test_people_are_told_what_to_decide(run, tmp_path):
    folder = scans(tmp_path / "s")
    (folder / "nan.tif").unlink()
    found = run("check", folder)
    assert found.code == 0
    for words in (
        "1, 5 channels",
        "1, 3 pages",
        "--window 0,3780",
        "grey.png and same",
    ):
        assert words in found.out


def test_files_that_need_options_are_not_broken(run, tmp_path):
    folder = scans(tmp_path / "s")
    (folder / "five.tif").unlink()
    how = ("--window", "0,3780", "--pages", "first", "--skip-broken")
    found = run("pack", folder, *how, "-o", tmp_path / "p")
    assert found.code == 0 and "left out 1 files" in found.err
    assert len(read_dataset(tmp_path / "p").images) == 5


def test_images_of_train_and_test_are_compared(run, tmp_path):
    one, other = pictures(tmp_path / "a"), tmp_path / "b"
    other.mkdir()
    pixels = np.asarray(Image.open(one / "cat/0.png"))
    Image.fromarray(pixels).save(other / "x.bmp")
    found = run("check", one, "--test-data", other)
    assert found.code == 0 and "x.bmp" in found.err and "cat/0.png" in found.err
    assert "warning" not in run("check", "digits", "--test-data", "digits").err
    assert run("check", one, "--test-data", other, "--strict").code == 65


def test_a_sheet_has_the_pixels_that_a_model_sees(run, tmp_path):
    folder, model = tmp_path / "s", tmp_path / "m"
    folder.mkdir()
    values = np.arange(256, dtype=np.uint16).reshape(16, 16) * 16
    tifffile.imwrite(folder / "a.tif", values)
    init = ("init", "--image-size", 16, "--channels", 1, "--window", "0,4080")
    assert furlkit(*init, "--width", 0.02, "-o", model) == 0
    sheet, plain = tmp_path / "sheet.png", tmp_path / "plain.png"
    assert run("check", folder, "--sheet", sheet, "--model", model).code == 0
    given = ("--window", "0,4080", "--channels", 1)
    assert run("check", folder, "--sheet", plain, *given).code == 0
    for path in (sheet, plain):
        drawn = np.asarray(Image.open(path))
        assert np.array_equal(drawn[2:-2, 2:-2], np.arange(256).reshape(16, 16))
        assert (drawn[:2] == 128).all()


def test_a_sheet_of_many_channels_has_a_tile_for_each():
    images = np.zeros((3, 4, 5, 7))
    images[2, :, :, 6] = 1
    drawn = np.asarray(Image.open(io.BytesIO(contact_sheet(images))))
    assert drawn.shape == (3 * (4 + 2) + 2, 7 * (5 + 2) + 2)
    assert (drawn[14:18, 44:49] == 255).all() and (drawn == 255).sum() == 20
