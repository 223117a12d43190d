"""DICOM and NIfTI: known values in, known pixels out, and no tag with them."""

import gzip

import nibabel
import numpy as np
import pytest
from pydicom.uid import JPEG2000Lossless, RLELossless

from furlkit.data.sets.decode import decode_file, decoded_or_reason
from furlkit.data.sets.folder import list_folder
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Reading
from furlkit.errors import InputError
from furlkit.files.dataset import read_dataset
from tests.data.sets.dicom_files import SECRET, save_dicom
from tests.helpers import furlkit

RAMP = np.arange(4096, dtype=np.uint16).reshape(64, 64)
GREY = np.rint(RAMP * (255 / 4095)).astype(np.uint8)
CT = {"RescaleSlope": 1, "RescaleIntercept": -1024, "BitsStored": 12}


def pixels(path, window, channels=1, **how):
    return decode_file(path, channels, Reading(window, **how)).pixels[..., 0]


@pytest.mark.parametrize("syntax", [None, RLELossless, JPEG2000Lossless])
def test_values_are_those_of_the_modality(tmp_path, syntax):
    path = save_dicom(tmp_path / "a.dcm", RAMP, syntax, **CT)
    assert np.array_equal(pixels(path, "-1024,3071"), GREY)
    # The range of 12 stored bits is the range of the values.
    assert np.array_equal(pixels(path, "full"), GREY)
    assert "give --window" in decoded_or_reason(path, 1)


def test_the_window_of_the_file(tmp_path):
    tags = {"WindowCenter": [40, 500], "WindowWidth": [401, 1000]}
    path = save_dicom(tmp_path / "a.dcm", RAMP, **CT, **tags)
    # PS3.3 C.11.2.1.2.1: from c - 0.5 - (w - 1) / 2 to c - 0.5 + (w - 1) / 2
    assert np.array_equal(pixels(path, "dicom"), pixels(path, "-160.5,239.5"))
    exact = {**tags, "VOILUTFunction": "LINEAR_EXACT"}
    path = save_dicom(tmp_path / "b.dcm", RAMP, **CT, **exact)
    assert np.array_equal(pixels(path, "dicom"), pixels(path, "-160.5,240.5"))
    without = save_dicom(tmp_path / "c.dcm", RAMP, **CT)
    negative = {"WindowCenter": 40, "WindowWidth": -400}
    odd = save_dicom(tmp_path / "d.dcm", RAMP, **CT, **negative)
    for path in (without, odd):
        assert "no window" in decoded_or_reason(path, 1, Reading("dicom"))


def test_low_values_of_monochrome1_are_white(tmp_path):
    kind = {"PhotometricInterpretation": "MONOCHROME1"}
    path = save_dicom(tmp_path / "a.dcm", RAMP, **kind)
    assert np.array_equal(pixels(path, "0,4095"), 255 - GREY)
    shallow = save_dicom(tmp_path / "b.dcm", GREY, **kind)
    assert np.array_equal(pixels(shallow, None), 255 - GREY)


def test_signed_and_scaled_values(tmp_path):
    path = save_dicom(tmp_path / "a.dcm", RAMP.astype(np.int16) - 2048)
    assert np.array_equal(pixels(path, "-2048,2047"), GREY)
    path = save_dicom(tmp_path / "b.dcm", RAMP, RescaleSlope=0.5, RescaleIntercept=1)
    assert np.array_equal(pixels(path, "1,2048.5"), GREY)


def test_8_bits_pass_unchanged(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (8, 6, 3)).astype(np.uint8)
    path = save_dicom(tmp_path / "a.dcm", colours)
    assert np.array_equal(decode_file(path, 3).pixels, colours)
    path = save_dicom(tmp_path / "b.dcm", GREY)
    assert np.array_equal(pixels(path, None), GREY)


def test_frames_are_pages(tmp_path):
    frames = np.stack([RAMP, RAMP // 2, RAMP // 4])
    path = save_dicom(tmp_path / "d/a.dcm", frames)
    assert "3 pages" in decoded_or_reason(path, 1, Reading("0,4095"))
    assert np.array_equal(pixels(path, "0,4095", pages="first"), GREY)
    found = decode_file(path, 3, Reading("0,4095", "channels")).pixels
    assert np.array_equal(found[..., 2], np.rint(frames[2] * (255 / 4095)))
    pack = ("pack", path.parent, "--window", "0,4095", "--pages", "each")
    assert furlkit(*pack, "-o", tmp_path / "p") == 0
    packed = read_dataset(tmp_path / "p").images
    assert np.array_equal(packed[..., 0], np.rint(frames * (255 / 4095)))


def test_files_without_a_suffix_are_known_by_their_content(tmp_path):
    for name in ("IM0001", "1.2.840.113.7", "a.dcm"):
        save_dicom(tmp_path / name, RAMP)
    (tmp_path / "notes").write_text("no image")
    (tmp_path / "DICOMDIR").write_bytes(b" " * 128 + b"DICM")
    found = list_folder(tmp_path)
    assert set(found.images) == {"IM0001", "1.2.840.113.7", "a.dcm"}
    assert found.others == 2
    with pytest.raises(InputError, match=r"measured 3 of 3.*--window 0,4095"):
        Source(tmp_path, cache=tmp_path / "c").images()


def test_hostile_dicom_is_refused_without_a_word_of_it(tmp_path):
    small = np.zeros((4, 4), np.uint16)
    absurd = save_dicom(tmp_path / "absurd.dcm", small, Rows=65535, Columns=65535)
    short = save_dicom(tmp_path / "short.dcm", small, Rows=4000, Columns=4000)
    frames = save_dicom(tmp_path / "frames.dcm", small, NumberOfFrames=10**6)
    none = save_dicom(tmp_path / "none.dcm", small)
    cut = save_dicom(tmp_path / "cut.dcm", small)
    cut.write_bytes(cut.read_bytes()[:-20])
    named = save_dicom(tmp_path / "named.dcm", small, PhotometricInterpretation=SECRET)
    content = none.read_bytes()
    none.write_bytes(content[: content.rindex(b"\xe0\x7f\x10\0")])
    expected = {
        absurd: "pixels", short: "truncated", frames: "pages", none: "DICOM",
        cut: "truncated", named: "palette",
    }  # fmt: skip
    for path, words in expected.items():
        found = decoded_or_reason(path, 1, Reading("0,1"))
        assert isinstance(found, str) and words in found, (path, found)
        assert SECRET not in found and "PLANTED" not in found


def volume(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(values, np.eye(4))
    image.header["descrip"] = SECRET.encode()
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("axis", ["sagittal", "coronal", "axial"])
def test_slices_of_volumes(tmp_path, name, axis):
    values = np.random.default_rng(0).integers(0, 1000, (8, 8, 8)).astype(np.int16)
    volume(tmp_path / "d" / name, values)
    pack = ("pack", tmp_path / "d", "--window", "0,999", "--slices", f"{axis},3")
    assert furlkit(*pack, "-o", tmp_path / "p") == 0
    packed = read_dataset(tmp_path / "p")
    number = ["sagittal", "coronal", "axial"].index(axis)
    expected = [np.rot90(np.take(values, k, number)) for k in (0, 3, 6)]
    assert np.array_equal(
        packed.images[..., 0], np.rint(np.stack(expected) * (255 / 999))
    )
    assert packed.facts.fingerprint["slices"] == f"{axis},3"


def test_volumes_are_refused_without_slices(tmp_path, refused):
    volume(tmp_path / "d/a.nii", np.zeros((8, 8, 8), np.int16))
    words = [tmp_path / "d/a.nii", "--slices"]
    refused(tmp_path, 65, words, "pack", tmp_path / "d", "-o", tmp_path / "p")
    words = ["--slices up,1", "axial"]
    pack = ("pack", tmp_path / "d", "--slices", "up,1", "-o", tmp_path / "p")
    refused(tmp_path, 2, words, *pack)


def test_hostile_volumes_are_refused(tmp_path):
    path = volume(tmp_path / "a.nii", np.zeros((8, 8, 8), np.int16))
    content = bytearray(path.read_bytes())
    how = Reading("0,1", slices="axial")
    (tmp_path / "cut.nii").write_bytes(content[:-9])
    assert "truncated" in decoded_or_reason(tmp_path / "cut.nii", 1, how)
    content[42:48] = np.array([9999, 9999, 9999], "<i2").tobytes()
    (tmp_path / "absurd.nii").write_bytes(content)
    (tmp_path / "absurd.nii.gz").write_bytes(gzip.compress(content))
    for name in ("absurd.nii", "absurd.nii.gz"):
        assert "pixels" in decoded_or_reason(tmp_path / name, 1, how)


def test_no_tag_enters_a_file_a_log_or_a_message(tmp_path, run):
    rng = np.random.default_rng(0)
    for number in range(8):
        values = rng.integers(0, 4096, (8, 8)).astype(np.uint16)
        save_dicom(tmp_path / f"d/{'ab'[number % 2]}/{number}", values, **CT)
    out, said = tmp_path / "out", []
    out.mkdir()
    data, where = ("--data", tmp_path / "d"), ("--cache", out / "cache", "-v")
    net = ("--image-size", 8, "--width", 0.02, "--projector", "8,4")
    fit = ("--client", "x", "--epochs", 1, "--batch-size", 4)
    test = ("--test-data", out / "p", "--k", 3)
    for command in (
        ("check", tmp_path / "d", *where),
        ("pack", tmp_path / "d", *where, "-o", out / "none"),
        ("pack", tmp_path / "d", "--window", "full", *where, "-o", out / "p"),
        ("partition", *data, *where, "--clients", 2, "-o", out / "partition"),
        ("init", *data, "--window", "full", *net, *where, "-o", out / "g"),
        ("local-train", out / "g", *data, *where, *fit, "-o", out / "c"),
        ("embed", out / "c", *data, *where, "-o", out / "f"),
        ("evaluate", "knn", out / "c", *data, *test, *where, "-o", out / "k.json"),
        ("export", out / "c", "-o", out / "e"),
        ("inspect", out / "p"),
    ):
        found = run(*command)
        assert found.code == (65 if out / "none" in command else 0), found
        said += [found.out, found.err]
    (tmp_path / "d/a/0").write_bytes((tmp_path / "d/a/0").read_bytes()[:-30])
    for command in (
        ("check", tmp_path / "d"),
        ("embed", out / "c", *data, "-o", out / "h"),
    ):
        found = run(*command)
        assert found.code == 65
        said += [found.out, found.err]
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert len(written) > 8
    for text in (*(s.encode() for s in said), *written):
        assert b"PLANTED" not in text
