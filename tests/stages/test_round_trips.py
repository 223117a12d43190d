"""Known values in every format: the same pixels, and so the same results of all stages."""

import io
import json

import nibabel
import numpy as np
import pytest
import tifffile
from PIL import Image
from pydicom.uid import JPEG2000Lossless, RLELossless
from safetensors.numpy import load_file

from furlkit.files.dataset import read_dataset
from tests.data.sets.dicom_files import encapsulated, save_dicom
from tests.data.sets.shard_files import (
    encoded,
    samples,
    table,
    write_arrow,
    write_parquet,
    write_tar,
)
from tests.helpers import furlkit

NET = ("--image-size", 8, "--channels", 1, "--width", 0.02, "--projector", "8,4")
TRAIN = ("--client", "x", "--preset", "medical", "--epochs", 1, "--batch-size", 4)
PIXELS = np.random.default_rng(0).integers(0, 256, (8, 8, 8)).astype(np.uint8)
LABELS = [0, 0, 0, 0, 1, 1, 1, 1]


def tiff(path, values):
    tifffile.imwrite(path.with_suffix(".tif"), values)


def png(path, values):
    Image.fromarray(values).save(path.with_suffix(".png"))


def hounsfield(path, values):
    how = {"BitsStored": 12, "RescaleSlope": 1, "RescaleIntercept": -1000}
    save_dicom(path, values, **how)


def inverted(path, values):
    how = {"PhotometricInterpretation": "MONOCHROME1"}
    save_dicom(path.with_suffix(".dcm"), 4080 - values, **how)


def rle(path, values):
    save_dicom(path.with_suffix(".dcm"), values, RLELossless)


def jpeg_2000(path, values):
    path, stream = save_dicom(path.with_suffix(".dcm"), values), io.BytesIO()
    how = {"irreversible": False, "num_resolutions": 1, "no_jp2": True}
    Image.fromarray(values).save(stream, "JPEG2000", **how)
    encapsulated(path, JPEG2000Lossless, stream.getvalue())


def with_window(path, values):
    # PS3.3 C.11.2.1.2.1: from c - 0.5 - (w - 1) / 2 = 0 to 4080
    save_dicom(path, values, WindowCenter=2040.5, WindowWidth=4081)


# Values of 12 bits are 16 times the pixels, so that windows give the pixels exactly.
DEEP = PIXELS.astype(np.uint16) * 16
FORMATS = {
    "png of 8 bits": (png, PIXELS, None),
    "tiff of 8 bits": (tiff, PIXELS, None),
    "png of 16 bits": (png, DEEP, "0,4080"),
    "tiff of 16 bits": (tiff, DEEP, "0,4080"),
    "tiff of int32": (tiff, DEEP.astype(np.int32) - 1000, "-1000,3080"),
    "tiff of float32": (tiff, (PIXELS / 256).astype(np.float32), "0,0.99609375"),
    "dicom": (hounsfield, DEEP, "-1000,3080"),
    "dicom, low values white": (inverted, DEEP, "0,4080"),
    "dicom, the window of the file": (with_window, DEEP, "dicom"),
    "dicom, JPEG 2000": (jpeg_2000, DEEP, "0,4080"),
    "dicom, RLE": (rle, DEEP, "0,4080"),
}


def results(folder, data, window):
    """What local-train, embed, evaluate and export make of images."""
    model, window = folder / "m", ("--window", window) if window else ()
    assert furlkit("init", *NET, *window, "-o", model) == 0
    train = ("local-train", model, "--data", data, *TRAIN, "-o", folder / "c")
    assert furlkit(*train) == 0
    assert furlkit("embed", folder / "c", "--data", data, "-o", folder / "f") == 0
    pack = ("pack", data, *window, "-o", folder / "p")
    assert furlkit(*pack) == 0
    knn = ("evaluate", "knn", folder / "c", "--data", data, "--test-data", folder / "p")
    assert furlkit(*knn, "--k", 3, "-o", folder / "k") == 0
    assert furlkit("export", folder / "c", "-o", folder / "e") == 0
    tensors = [load_file(folder / name) for name in ("c", "f", "e/model.safetensors")]
    return tensors, json.loads((folder / "k").read_text())["accuracy"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    np.savez(folder / "d.npz", images=PIXELS, labels=LABELS)
    return results(folder, folder / "d.npz", None)


def same(found, expected):
    tensors, accuracy = found
    for one, other in zip(tensors, expected[0], strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert accuracy == expected[1]


@pytest.mark.parametrize("name", FORMATS)
def test_stages_give_the_same_for_all_formats(tmp_path, expected, name):
    save, values, window = FORMATS[name]
    for number, label in enumerate(LABELS):
        folder = tmp_path / "d" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        save(folder / str(number), values[number])
    found = results(tmp_path, tmp_path / "d", window)
    assert np.array_equal(read_dataset(tmp_path / "p").images[..., 0], PIXELS)
    same(found, expected)


@pytest.mark.parametrize("dtype", [np.uint16, np.int64, np.float32])
def test_arrays_give_the_same(tmp_path, expected, dtype):
    np.savez(tmp_path / "d.npz", images=DEEP.astype(dtype), labels=LABELS)
    same(results(tmp_path, tmp_path / "d.npz", "0,4080"), expected)


def test_medmnist_gives_the_same(tmp_path, expected):
    splits = {"train": slice(None), "test": slice(0, 2)}
    arrays = {f"{name}_images": PIXELS[part] for name, part in splits.items()}
    labels = {f"{n}_labels": np.array(LABELS)[part, None] for n, part in splits.items()}
    np.savez(tmp_path / "d.npz", **arrays, **labels)
    same(results(tmp_path, tmp_path / "d.npz", None), expected)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "tar"])
def test_shards_give_the_same(tmp_path, expected, kind):
    images, path = [encoded(values) for values in DEEP], tmp_path / f"d.{kind}"
    if kind == "tar":
        write_tar(path, samples(images, LABELS))
    else:
        write = write_parquet if kind == "parquet" else write_arrow
        write(path, table(images, LABELS, ["0", "1"]))
    how = ("--window", "0,4080", "--channels", 1)
    assert furlkit("pack", path, *how, "-o", tmp_path / "v") == 0
    same(results(tmp_path, tmp_path / "v", "0,4080"), expected)


def test_slices_give_the_same(tmp_path, expected):
    for label in (0, 1):
        folder = tmp_path / "d" / str(label)
        folder.mkdir(parents=True)
        turned = [np.rot90(plane, -1) for plane in DEEP[4 * label : 4 * label + 4]]
        values = np.stack(turned, axis=2).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), folder / "a.nii.gz")
    how = ("--window", "0,4080", "--slices", "axial")
    assert furlkit("pack", tmp_path / "d", *how, "-o", tmp_path / "v") == 0
    same(results(tmp_path, tmp_path / "v", "0,4080"), expected)
