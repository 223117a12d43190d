"""Known values in every format: the same pixels, and so the same results of all stages."""

import json

import nibabel
import numpy as np
import pytest
import tifffile
from PIL import Image
from safetensors.numpy import load_file

from furlkit.files.dataset import read_dataset
from tests.data.sets.dicom_files import save_dicom
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
