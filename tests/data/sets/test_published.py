"""Mini-ImageNet and the COVID-19 x-rays: tiny files in their published folders."""

import numpy as np
import pytest
from PIL import Image

from furlkit.data.sets.published import in_split
from furlkit.data.sets.source import Source
from tests.helpers import furlkit

WNIDS = ("n01532829", "n02110341", "n03207743")


def shade(value, side, channels):
    shape = (side, side, 3) if channels == 3 else (side, side)
    return Image.fromarray(np.full(shape, value, np.uint8))


@pytest.fixture
def mini(tmp_path):
    """A class in each list, of 12 images: all of one grey, ten more for each image."""
    folder = tmp_path / "mini-imagenet"
    (folder / "images").mkdir(parents=True)
    for part, wnid in zip(("train", "val", "test"), WNIDS, strict=True):
        names = [f"{wnid}{number:08}.jpg" for number in range(5, 17)]
        for number, name in enumerate(names):
            shade(10 * number, 84, 3).save(folder / "images" / name, quality=100)
        lines = ["filename,label", *(f"{name},{wnid}" for name in names)]
        (folder / f"{part}.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def covid(tmp_path):
    """Ten x-rays of each class, which differ by ten in grey, with their masks."""
    folder = tmp_path / "COVID-19_Radiography_Dataset"
    for name in ("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia"):
        for below in ("images", "masks"):
            (folder / name / below).mkdir(parents=True)
            for number in range(10):
                path = folder / name / below / f"{name}-{number}.png"
                shade(10 * number if below == "images" else 255, 299, 1).save(path)
        (folder / f"{name}.metadata.xlsx").write_bytes(b"PK")
    return folder


def opened(name, split, root):
    return Source(name, split=split, data_root=root).images()


def test_mini_imagenet_has_every_class_in_both_splits(mini, tmp_path):
    train, test = (opened("mini-imagenet", s, tmp_path) for s in ("train", "test"))
    assert train.images.shape == (30, 84, 84, 3) and test.images.shape == (6, 84, 84, 3)
    assert train.class_names == test.class_names == WNIDS
    assert test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    # Of twelve images of a class the sixth and the twelfth are to test.
    assert test.images[:, 0, 0, 0].tolist() == [50, 110] * 3
    assert train.images[:10, 40, 40, 1].tolist() == [
        10 * number for number in range(12) if number not in (5, 11)
    ]


def test_covid_x_rays_are_grey_and_masks_are_left_out(covid, tmp_path):
    train, test = (opened("covid-xray", s, tmp_path) for s in ("train", "test"))
    assert train.images.shape == (32, 299, 299, 1)
    assert train.class_names == ("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia")
    assert test.images[:, 0, 0, 0].tolist() == [40, 90] * 4
    assert test.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert train.images.max() == 80


def test_a_split_takes_every_nth_of_each_class():
    labels = np.array([0, 1, 0, 1, 1, 0, 0])
    assert in_split(labels, 2, "test").tolist() == [2, 3, 6]
    assert in_split(labels, 2, "train").tolist() == [0, 1, 4, 5]


def test_they_are_packed_and_partitioned_by_name(mini, tmp_path, capsys):
    root, out = ("--data-root", tmp_path), tmp_path / "m.safetensors"
    words = ("pack", "mini-imagenet", *root, "--split", "test", "--image-size", 32)
    assert furlkit(*words, "-o", out) == 0
    assert "6 images of 32 x 32 x 3, 3 classes" in capsys.readouterr().out
    words = ("partition", "--data", "mini-imagenet", *root, "--clients", 3)
    assert furlkit(*words, "-o", tmp_path / "p") == 0
    assert "of 30" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda f: (f / "val.csv").unlink(), ("val.csv", "--data-root")),
        (lambda f: (f / "val.csv").write_text("a,b\n1,2\n"), ("val.csv", "filename")),
        (
            lambda f: (f / "val.csv").write_text("filename,label\n../x.jpg,n1\n"),
            ("val.csv", "file name"),
        ),
        (lambda f: (f / "val.csv").write_bytes(b"\xff\xfe"), ("val.csv", "read")),
        (
            lambda f: (f / "images" / f"{WNIDS[0]}00000006.jpg").unlink(),
            (f"{WNIDS[0]}00000006.jpg", "No such file"),
        ),
        (
            lambda f: shade(0, 64, 3).save(f / "images" / f"{WNIDS[0]}00000005.jpg"),
            (f"{WNIDS[0]}00000005.jpg", "84 x 84"),
        ),
    ],
)
def test_a_mini_imagenet_that_is_not_as_published(
    mini, tmp_path, refused, change, words
):
    change(mini)
    command = ("partition", "--data", "mini-imagenet", "--data-root", tmp_path)
    refused(tmp_path, 65, words, *command, "-o", tmp_path / "p")


def test_x_rays_that_are_not_as_published(covid, tmp_path, refused):
    for path in (covid / "Normal" / "images").iterdir():
        path.unlink()
    command = ("partition", "--data", "covid-xray", "--data-root", tmp_path)
    refused(tmp_path, 65, ("Normal", "no images"), *command, "-o", tmp_path / "p")
    (covid / "Normal" / "images").rmdir()
    refused(tmp_path, 65, ("Normal", "Viral Pneumonia"), *command, "-o", tmp_path / "p")


def test_there_is_no_download(tmp_path, refused):
    for name in ("mini-imagenet", "covid-xray"):
        words = ("partition", "--data", name, "--data-root", tmp_path, "--download")
        refused(tmp_path, 2, (name, "--download"), *words, "-o", tmp_path / "p")


def test_a_class_with_too_few_images_has_none_to_test(mini, tmp_path, refused):
    for part, wnid in zip(("train", "val", "test"), WNIDS, strict=True):
        line = f"filename,label\n{wnid}00000005.jpg,{wnid}\n"
        (mini / f"{part}.csv").write_text(line)
    words = ("pack", "mini-imagenet", "--data-root", tmp_path, "--split", "test")
    refused(tmp_path, 65, ("mini-imagenet", "test"), *words, "-o", tmp_path / "p")
