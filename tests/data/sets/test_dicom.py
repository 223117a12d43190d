"""DICOM and NIfTI: known values in, known pixels out, and no tag with them."""

import gzip
import io
from base64 import b64decode

import nibabel
import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.pixels import apply_voi, apply_voi_lut
from pydicom.sequence import Sequence
from pydicom.uid import (
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    JPEGLSNearLossless,
    RLELossless,
)

from furlkit.data.sets.decode import decode_file
from furlkit.data.sets.dicom import read_dicom
from furlkit.data.sets.folder import list_folder
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Reading
from furlkit.errors import InputError
from furlkit.files.dataset import read_dataset
from tests.data.sets.dicom_files import SECRET, encapsulated, save_dicom
from tests.helpers import decoded_or_reason, furlkit

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


# 16 x 16 values of 12 bits, 7, 23, 39, ..., as the library imagecodecs encodes them.
# ljpeg_encode(values, bitspersample=12)
LOSSLESS = """
/9j/xAAXAAEBAQEAAAAAAAAAAAAAAAAICQUL/8MACwwAEAAQAQARAP/aAAgBAAAGAADgDaGhoaGhoaGhoaGhoa
GhoUAQCAQCAQCAQCAQCAQCAQCAQFAEAgEAgEAgEAgEAgEAgEAgEBQBAIBAIBAIBAIBAIBAIBAIBAUAQCAQCAQC
AQCAQCAQCAQCAQFAEAgEAgEAgEAgEAgEAgEAgEBQBAIBAIBAIBAIBAIBAIBAIBAUAQCAQCAQCAQCAQCAQCAQCA
QFAEAgEAgEAgEAgEAgEAgEAgEBQBAIBAIBAIBAIBAIBAIBAIBAUAQCAQCAQCAQCAQCAQCAQCAQFAEAgEAgEAgE
AgEAgEAgEAgEBQBAIBAIBAIBAIBAIBAIBAIBAUAQCAQCAQCAQCAQCAQCAQCAQFAEAgEAgEAgEAgEAgEAgEAgEB
QBAIBAIBAIBAIBAIBAIBAIBAD/2Q==
"""
# jpegls_encode(values)
JPEG_LS = """
/9j/6AAgU1BJRkYAAgAAAQAAABAAAAAQChAGAQAAASwAAAEs/+gACAAAAAH/2P/3AAsQABAAEAEBEQD/+AANAf
//ABIAQwEUAED/2gAIAQEAAAAAQNg/B+DsNwfg7DcMxeKxOIx8bF4AhBB6HIajEWikSkI6MjIqKhBgCIiIiIjR
o0aNGiRIkSD1/okSJEiRIkSFCiiiihz/EUUUUUUUUUUUUUUNf1FFFFFFFFFFFFFBGP4ghCEIQhCEIQhFv2hCEI
QhCEIQhCKfpCEIQiIiIiIiX5REREREREREh+EREREREkkjvukkkkkkkjPskkkkkkqM+qqqqqor6Kqqqqivmr/+
IP/Z
"""
# jpegls_encode(values, level=2)
NEAR_LOSSLESS = """
/9j/6AAgU1BJRkYAAgAAAQAAABAAAAAQChAGAQAAASwAAAEs/+gACAAAAAH/2P/3AAsQABAAEAEBEQD/+AANAf
//ABgATQEiAED/2gAIAQEAAgAAQGDwWFhYcFhYWLDhxxxw2iDQ0NEjRJJIpIooooNZpQlKUJQlKEJQhuaFRFRU
RURFQnNERFRERURERuSKiImkk0kTmkk0kkkkickkkkklVJyVVVVVJyVVVVVFxf9+Tk//cXF//wmL/3xMX/9iYP
9/IP/Z
"""
# jpeg8_encode(values, level=100, bitspersample=12)
TWELVE_BITS = """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ
EBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQH/wQALDAAQABABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAACw7/xAAc
EAAABgMAAAAAAAAAAAAAAAAACQ0pNUhUZnL/2gAIAQEAAD8AnfcttNxoBhfGrbxrQQALbTcaAYXxq28a0LwALb
TcaAYXxq28a0EAC203GgGF8atvGtD/2Q==
"""
STREAMS = {  # Each with the largest error.
    JPEGLossless: (LOSSLESS, 0), JPEGLosslessSV1: (LOSSLESS, 0),
    JPEGLSLossless: (JPEG_LS, 0), JPEGLSNearLossless: (NEAR_LOSSLESS, 2),
    JPEGExtended12Bit: (TWELVE_BITS, 1),
}  # fmt: skip


@pytest.mark.parametrize("syntax", STREAMS, ids=lambda syntax: syntax.keyword)
def test_jpeg_streams_give_their_values(tmp_path, syntax):
    text, most = STREAMS[syntax]
    values = (np.arange(256, dtype=np.uint16) * 16 + 7).reshape(16, 16)
    path = save_dicom(tmp_path / "a.dcm", values, **CT)
    encapsulated(path, syntax, b64decode(text))
    found = read_dicom(path.read_bytes(), 0).values[..., 0]
    assert np.abs(found - (values.astype(int) - 1024)).max() <= most
    shown = pixels(path, "-1024,3071").astype(int)
    assert np.abs(shown - np.rint(values * (255 / 4095))).max() <= most


def test_baseline_jpeg_is_grey_or_colour(tmp_path):
    x, y = np.mgrid[:16, :16].astype(np.uint8) * 16
    colours = np.stack([x, y, 255 - x // 2 - y // 2], axis=2)
    for values, kind in ((x, "MONOCHROME2"), (colours, "YBR_FULL_422")):
        path = save_dicom(tmp_path / f"{kind}.dcm", values)
        stream = io.BytesIO()
        Image.fromarray(values).save(stream, "JPEG", quality=100, subsampling=1)
        encapsulated(path, JPEGBaseline8Bit, stream.getvalue(), kind)
        found = decode_file(path, values.ndim if values.ndim == 3 else 1).pixels
        difference = found.astype(int) - values.reshape(found.shape)
        assert np.abs(difference).max() <= (1 if kind == "MONOCHROME2" else 12)


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


def test_a_sigmoid_window_is_that_of_pydicom(tmp_path):
    tags = {"WindowCenter": 2000, "WindowWidth": 900, "VOILUTFunction": "SIGMOID"}
    path = save_dicom(tmp_path / "a.dcm", RAMP, BitsStored=12, **tags)
    expected = apply_voi_lut(RAMP, pydicom.dcmread(path)) * (255 / 4095)
    found = pixels(path, "dicom")
    assert np.array_equal(found, np.rint(expected)) and found[31, 16] == 128
    deep = decode_file(path, 1, Reading("dicom", depth=16)).pixels[..., 0]
    assert np.array_equal(deep, np.rint(expected * 257))


def lookup(entries, first, bits, packed=False):
    """A VOI LUT, with a name beside it; two entries of 8 bits may share a word."""
    item = Dataset()
    item.add_new("LUTDescriptor", "SS", [len(entries), first, bits])
    kind = "u1" if packed else "<u2"
    item.add_new("LUTData", "OW", np.asarray(entries).astype(kind).tobytes())
    item.LUTExplanation = SECRET
    return Sequence([item])


def test_a_voi_lut_is_that_of_pydicom(tmp_path):
    squares = np.arange(1024) ** 2 // 1024  # 10 bits
    for number, first in enumerate((0, 1500, -200)):
        tags = {**CT, "VOILUTSequence": lookup(squares, first, 10)}
        path = save_dicom(tmp_path / f"{number}.dcm", RAMP, **tags)
        values = RAMP.astype(np.int32) - 1024
        expected = squares[(values - first).clip(0, 1023)]
        by_pydicom = apply_voi(values.astype(np.int16), pydicom.dcmread(path))
        assert np.array_equal(by_pydicom, expected)
        found = pixels(path, "dicom")
        assert np.array_equal(found, np.rint(expected * (255 / 1023)))


def test_tables_of_8_bits_windows_first_and_short_tables(tmp_path):
    halves = np.repeat(np.arange(256), 16)[::-1]
    table = {"VOILUTSequence": lookup(halves, 0, 8, packed=True)}
    path = save_dicom(tmp_path / "a.dcm", RAMP, **table)
    assert np.array_equal(pixels(path, "dicom"), 255 - RAMP // 16)
    window = {"WindowCenter": 2048, "WindowWidth": 4096}
    path = save_dicom(tmp_path / "b.dcm", RAMP, **table, **window)
    assert np.array_equal(pixels(path, "dicom"), pixels(path, "0,4095"))
    table["VOILUTSequence"][0].LUTDescriptor = [9000, 0, 8]
    path = save_dicom(tmp_path / "c.dcm", RAMP, **table)
    reason = decoded_or_reason(path, 1, Reading("dicom"))
    assert "VOI LUT" in reason and SECRET not in reason


def test_a_modality_lut_makes_the_values(tmp_path):
    item = lookup(np.arange(4096)[::-1], 0, 16)
    item[0].ModalityLUTType = "US"
    path = save_dicom(tmp_path / "a.dcm", RAMP, ModalityLUTSequence=item)
    assert np.array_equal(pixels(path, "0,4095"), np.rint((4095 - RAMP) * (255 / 4095)))


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
