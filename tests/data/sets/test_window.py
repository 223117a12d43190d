"""Images of more than 8 bits: a window makes pixels of their values, or they are refused."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from furlkit.data.sets.decode import decode_file
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Raw, Reading, develop, parse_window
from furlkit.errors import InputError, UsageError
from tests.helpers import decoded_or_reason

RAMP = np.arange(4096, dtype=np.uint16).reshape(64, 64)  # 12 bits
GREY = np.rint(RAMP * (255 / 4095)).astype(np.uint8)


def save(path, values, **how):
    """Write an array as PNG, PGM or TIFF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        Image.fromarray(values).save(path)
    elif path.suffix == ".pgm":
        header = f"P5 {values.shape[1]} {values.shape[0]} {how['white']}\n"
        path.write_bytes(header.encode() + values.astype(">u2").tobytes())
    else:
        tifffile.imwrite(path, values, **how)
    return path


@pytest.mark.parametrize(
    "name, values, how, window",
    [
        ("a.png", RAMP, {}, "0,4095"),
        ("a.tif", RAMP, {}, "0,4095"),
        ("a.tif", RAMP, {"byteorder": ">"}, "0,4095"),
        ("a.tif", RAMP, {"bigtiff": True}, "0,4095"),
        ("a.tif", RAMP, {"compression": "zlib", "predictor": True}, "0,4095"),
        ("a.tif", RAMP, {"tile": (16, 16)}, "0,4095"),
        ("a.tif", RAMP.astype(np.int16) - 1024, {}, "-1024,3071"),
        ("a.tif", RAMP.astype(np.int32) - 1024, {}, "-1024,3071"),
        ("a.tif", RAMP.astype(np.uint32) * 10**6, {}, "0,4095e6"),
        ("a.tif", (RAMP / 4095).astype(np.float32), {}, "0,1"),
        ("a.tif", RAMP / 4095, {}, "0,1"),
        ("a.pgm", RAMP, {"white": 4095}, "full"),
        ("a.pgm", RAMP, {"white": 65535}, "0,4095"),
        ("a.tif", RAMP, {}, "percentile 0,100"),
    ],
)
def test_a_window_keeps_all_values(tmp_path, name, values, how, window):
    path = save(tmp_path / name, values, **how)
    found = decode_file(path, 1, Reading(window))
    assert np.array_equal(found.pixels[..., 0], GREY) and found.grey
    in_colour = decode_file(path, 3, Reading(window)).pixels
    assert np.array_equal(in_colour, np.repeat(GREY[..., None], 3, axis=2))
    assert "give --window" in decoded_or_reason(path, 1)


def test_values_outside_the_window_are_black_and_white():
    values = np.array([[[-1000], [-160], [40], [240], [3000]]], np.int16)
    found = develop(Raw(values), Reading("-160,240"))
    assert found.ravel().tolist() == [0, 0, 128, 255, 255]
    assert found.dtype == np.uint8


def test_percentiles_are_those_of_each_image():
    dark, bright = (np.linspace(low, low + 100, 101)[None, :, None] for low in (0, 500))
    for values in (dark, bright):
        found = develop(Raw(values), Reading("percentile 10,90")).ravel()
        assert found[10] == 0 and found[50] == 128 and found[90] == 255
    flat = develop(Raw(np.full((2, 2, 1), 7.0)), Reading("percentile 1,99"))
    assert not flat.any()


def test_colours_of_16_bits_keep_their_values(tmp_path):
    colours = np.stack([RAMP, RAMP[::-1], RAMP.T], axis=2)
    expected = np.stack([GREY, GREY[::-1], GREY.T], axis=2)
    tif = save(tmp_path / "a.tif", colours, photometric="rgb")
    planes = np.moveaxis(colours, 2, 0)
    apart = save(tmp_path / "b.tif", planes, photometric="rgb", planarconfig="separate")
    # scikit-image, Pillow and torchvision write no PNG of 16 bits in colour.
    png = tmp_path / "c.png"
    png.write_bytes(png_of_16_bits(colours))
    for path in (tif, apart, png):
        found = decode_file(path, 3, Reading("0,4095"))
        assert np.array_equal(found.pixels, expected), path.name
        grey = decode_file(path, 1, Reading("0,4095")).pixels[..., 0]
        assert np.array_equal(grey, np.asarray(Image.fromarray(expected).convert("L")))


def png_of_16_bits(colours):
    import struct
    import zlib

    def chunk(name, data):
        checked = name + data
        return (
            struct.pack(">I", len(data))
            + checked
            + struct.pack(">I", zlib.crc32(checked))
        )

    height, width, _ = colours.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in colours)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    chunks = [
        chunk(b"IHDR", head),
        chunk(b"IDAT", zlib.compress(rows)),
        chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_low_values_may_be_white(tmp_path):
    path = save(tmp_path / "a.tif", RAMP, photometric="miniswhite")
    found = decode_file(path, 1, Reading("0,4095")).pixels[..., 0]
    assert np.array_equal(found, 255 - GREY)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_images_are_turned_as_others(tmp_path, orientation):
    values = np.arange(48, dtype=np.uint8).reshape(6, 8)
    tag = [(274, "H", 1, orientation, True)]
    shallow = save(tmp_path / "a.tif", values, extratags=tag)
    deep = save(tmp_path / "b.tif", values.astype(np.uint16), extratags=tag)
    expected = decode_file(shallow, 1).pixels
    assert np.array_equal(decode_file(deep, 1, Reading("0,255")).pixels, expected)


def test_compressions_of_pillow_are_read_without_imagecodecs(tmp_path):
    Image.fromarray(RAMP).save(tmp_path / "a.tif", compression="tiff_lzw")
    found = decode_file(tmp_path / "a.tif", 1, Reading("0,4095")).pixels[..., 0]
    assert np.array_equal(found, GREY)


def test_8_bits_pass_unchanged_whatever_the_window(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    for name in ("a.png", "a.tif"):
        path = save(tmp_path / name, pixels)
        for reading in (Reading(), Reading("10,20"), Reading("percentile 5,95")):
            assert np.array_equal(decode_file(path, 3, reading).pixels, pixels)


@pytest.mark.parametrize(
    "values, proposal, measured",
    [
        (RAMP, "--window 0,4095 ", "uint16 values from 0 to 4095"),
        (RAMP.astype(np.int32) - 1024, "--window -1024,3071 ", "from -1024 to 3071"),
        ((RAMP / 4096).astype(np.float32), "--window 0,1 ", "float32 values"),
    ],
)
def test_without_a_window_the_range_is_measured(tmp_path, values, proposal, measured):
    for number in range(3):
        save(tmp_path / f"d/{number}.tif", values)
    with pytest.raises(InputError) as error:
        Source(tmp_path / "d", cache=tmp_path / "c").images()
    for words in (str(tmp_path / "d"), "measured 3 of 3 files", proposal, measured):
        assert words in str(error.value)
    window = proposal.split()[1]
    given = Source(tmp_path / "d", cache=tmp_path / "c", reading=Reading(window))
    found = given.images()
    assert found.fingerprint["window"] == window and len(np.unique(found.images)) == 256


def test_values_of_the_whole_range_need_no_window(tmp_path, capsys):
    values = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    save(tmp_path / "d/a.png", values)
    found = Source(tmp_path / "d", cache=tmp_path / "c").images()
    assert np.array_equal(found.images[0, ..., 0], np.arange(256).reshape(16, 16))
    assert found.reading.window == "full" and found.fingerprint["window"] == "full"
    assert "from 0 to 65535" in capsys.readouterr().err


def test_the_cache_knows_windows_apart(tmp_path):
    save(tmp_path / "d/a.tif", RAMP)
    for window, white in (("0,4095", 255), ("0,8190", 128), ("0,4095", 255)):
        where = {"cache": tmp_path / "c", "reading": Reading(window)}
        assert Source(tmp_path / "d", **where).images().images.max() == white


@pytest.mark.parametrize(
    "values, window",
    [(RAMP, "0,4095"), (RAMP.astype(np.float64), "0,4095"), (RAMP, "percentile 0,100")],
)
def test_arrays_of_other_types(tmp_path, values, window):
    np.savez(tmp_path / "a.npz", images=np.stack([values, values // 2]))
    source = Source(tmp_path / "a.npz")
    with pytest.raises(InputError, match="0 to 4095.*--window 0,4095"):
        source.images()
    found = Source(source.data, reading=Reading(window)).images()
    assert np.array_equal(found.images[0, ..., 0], GREY)
    half = GREY if "percentile" in window else np.rint(RAMP // 2 * (255 / 4095))
    assert np.abs(found.images[1, ..., 0] - half.astype(int)).max() <= 1
    assert found.fingerprint["window"] == window


def test_an_array_with_nan_is_refused(tmp_path):
    images = np.full((2, 4, 4), np.nan, np.float32)
    np.savez(tmp_path / "a.npz", images=images)
    for reading in (Reading(), Reading("0,1")):
        with pytest.raises(InputError, match=r"a.npz.*32 of its values are NaN"):
            Source(tmp_path / "a.npz", reading=reading).images()


@pytest.mark.parametrize("values", [RAMP, np.zeros((4, 4), np.float32)])
def test_pages_and_channels_that_do_not_fit_are_refused(tmp_path, values):
    pages = save(tmp_path / "p.tif", np.stack([values] * 7), photometric="minisblack")
    assert "7 pages" in decoded_or_reason(pages, 3, Reading("0,1"))
    how = {"photometric": "minisblack", "planarconfig": "contig"}
    five = save(tmp_path / "c.tif", np.stack([values] * 5, axis=2), **how)
    assert "5 channels" in decoded_or_reason(five, 3, Reading("0,1"))


def test_windows_have_one_form():
    for text, form in (
        ("0,4095", "0,4095"),
        (" -160.0,240 ", "-160,240"),
        ("percentile 1,99.50", "percentile 1,99.5"),
        ("full", "full"),
        ("dicom", "dicom"),
    ):
        assert str(parse_window(text)) == form


@pytest.mark.parametrize(
    "text", ["", "1", "5,5", "9,1", "nan,1", "0,inf", "percentile 1,101", "auto", "a,b"]
)
def test_a_window_without_extent_is_refused(text):
    with pytest.raises(UsageError, match="--window"):
        parse_window(text)
