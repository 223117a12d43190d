"""Tiny files in the real formats; torchvision's tables get their checksums."""

import pickle
import struct

import numpy as np
import pytest
import torchvision

from furlkit.data.sets.source import Source
from furlkit.data.sets.torchvision import TORCHVISION_SETS
from furlkit.errors import InputError, UsageError
from tests.data.sets.digit_files import write, write_mnist, write_svhn, write_usps

RNG = np.random.default_rng(0)


def cifar(root, monkeypatch, dataset, key, names):
    images = RNG.integers(0, 256, (2, 4, 3, 32, 32), np.uint8)
    labels = [[0, 1, 2, 1], [2, 0, 0, 1]]
    folder, lists = root / dataset.base_folder, []
    for part, name in enumerate(("train_part", "test_part")):
        batch = {"data": images[part].reshape(4, -1), key: labels[part]}
        lists.append([write(folder / name, pickle.dumps(batch))])
    meta = write(folder / "meta_part", pickle.dumps({dataset.meta["key"]: names}))
    monkeypatch.setattr(dataset, "train_list", lists[0])
    monkeypatch.setattr(dataset, "test_list", lists[1])
    table = {"filename": meta[0], "key": dataset.meta["key"], "md5": meta[1]}
    monkeypatch.setattr(dataset, "meta", table)
    return images.transpose(0, 1, 3, 4, 2), labels


@pytest.mark.parametrize(
    "name, kind, key",
    [("cifar10", "CIFAR10", "labels"), ("cifar100", "CIFAR100", "fine_labels")],
)
def test_cifar(tmp_path, monkeypatch, name, kind, key):
    dataset = getattr(torchvision.datasets, kind)
    images, labels = cifar(tmp_path, monkeypatch, dataset, key, ["a", "b", "c"])
    for part, split in enumerate(("train", "test")):
        opened = Source(name, split=split, data_root=tmp_path).images()
        assert np.array_equal(opened.images, images[part])
        assert opened.images.flags.c_contiguous
        assert list(opened.labels) == labels[part]
        assert opened.class_names == ("a", "b", "c") and opened.classes == 3
        assert opened.mean == TORCHVISION_SETS[name].mean


def test_changed_cifar_pickle_is_refused_before_it_is_read(tmp_path, monkeypatch):
    dataset = torchvision.datasets.CIFAR10
    cifar(tmp_path, monkeypatch, dataset, "labels", ["a", "b", "c"])

    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = tmp_path / dataset.base_folder / "train_part"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="cifar10: .*broken"):
        Source("cifar10", data_root=tmp_path).images()
    assert not (tmp_path / "sprung").exists()


@pytest.fixture
def stl(tmp_path, monkeypatch):
    dataset = torchvision.datasets.STL10
    folder = tmp_path / dataset.base_folder
    images = RNG.integers(0, 256, (2, 3, 96, 96), np.uint8)  # columns first on disk
    files = [
        write(folder / name, content)
        for name, content in (
            ("train_X.bin", images.tobytes()),
            ("train_y.bin", bytes([10, 1])),
            ("unlabeled_X.bin", images[::-1].tobytes()),
            ("test_X.bin", images[:1].tobytes()),
            ("test_y.bin", bytes([3])),
        )
    ]
    write(folder / "class_names.txt", "\n".join("abcdefghij").encode())
    monkeypatch.setattr(dataset, "train_list", files[:3])
    monkeypatch.setattr(dataset, "test_list", files[3:])
    return images.transpose(0, 3, 2, 1)


def test_stl10(tmp_path, stl):
    train = Source("stl10", data_root=tmp_path).images()
    assert np.array_equal(train.images, stl)
    assert list(train.labels) == [9, 0] and train.class_names == tuple("abcdefghij")
    assert list(Source("stl10", split="test", data_root=tmp_path).images().labels) == [
        2
    ]


def test_stl10_unlabelled_has_no_labels_and_no_test_split(tmp_path, stl):
    opened = Source("stl10-unlabelled", data_root=tmp_path).images()
    assert np.array_equal(opened.images, stl[::-1])
    assert opened.labels is None and opened.classes == 0
    with pytest.raises(UsageError, match="stl10-unlabelled .*test"):
        Source("stl10-unlabelled", split="test", data_root=tmp_path).images()


def test_svhn(tmp_path, monkeypatch):
    images = RNG.integers(0, 256, (32, 32, 3, 4), np.uint8)
    write_svhn(tmp_path, images, [10, 1, 9, 5], monkeypatch)
    opened = Source("svhn", data_root=tmp_path).images()
    assert np.array_equal(opened.images, images.transpose(3, 0, 1, 2))
    assert list(opened.labels) == [0, 1, 9, 5] and opened.classes == 10


@pytest.mark.parametrize(
    "name, folder", [("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")]
)
def test_mnist_and_fashion(tmp_path, name, folder):
    images = RNG.integers(0, 256, (3, 28, 28), np.uint8)
    write_mnist(tmp_path, images, [7, 0, 2], folder)
    for split in ("train", "test"):
        opened = Source(name, split=split, data_root=tmp_path).images()
        assert np.array_equal(opened.images, images[..., None])
        assert list(opened.labels) == [7, 0, 2] and opened.classes == 10
    assert len(opened.class_names) == 10


def test_truncated_mnist_is_an_input_error(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    for part in ("train", "t10k"):
        head = struct.pack(">4i", 0x803, 3, 28, 28)
        write(raw / f"{part}-images-idx3-ubyte", head + bytes(100))
        write(raw / f"{part}-labels-idx1-ubyte", struct.pack(">2i", 0x801, 3))
    with pytest.raises(InputError, match="mnist: .*broken"):
        Source("mnist", data_root=tmp_path).images()


def test_usps(tmp_path):
    values = np.array([np.linspace(-1, 1, 256), np.zeros(256)])
    write_usps(tmp_path, values, [10, 1])
    opened = Source("usps", data_root=tmp_path).images()
    assert opened.images.shape == (2, 16, 16, 1)
    assert list(opened.labels) == [9, 0]
    assert opened.images[0, 0, 0, 0] == 0 and opened.images[0, -1, -1, 0] == 255
    assert (opened.images[1] == 127).all()


@pytest.mark.parametrize("name", TORCHVISION_SETS)
def test_missing_files_name_the_folder_and_the_options(tmp_path, name, capsys):
    with pytest.raises(InputError) as caught:
        Source(name, data_root=tmp_path).labels()
    place = TORCHVISION_SETS[name].place
    for word in (f"{name}: ", str(tmp_path), place, "--download", "--data-root"):
        assert word in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", TORCHVISION_SETS)
def test_places_are_torchvision_s(name):
    entry = TORCHVISION_SETS[name]
    dataset = getattr(torchvision.datasets, entry.dataset)
    places = {
        "MNIST": lambda: f"{dataset.__name__}/raw/",
        "SVHN": lambda: dataset.split_list["train"][1],
        "USPS": lambda: dataset.split_list["train"][1],
    }
    base = places["MNIST"] if issubclass(dataset, torchvision.datasets.MNIST) else None
    known = base or places.get(entry.dataset) or (lambda: f"{dataset.base_folder}/")
    assert entry.place == known()


def test_labels_by_name_are_those_of_the_images(tmp_path, stl):
    stl10 = Source("stl10", data_root=tmp_path)
    labels, images = stl10.labels(), stl10.images()
    assert np.array_equal(labels.labels, images.labels)
    assert labels.fingerprint == images.fingerprint and labels.examples == 2


@pytest.mark.parametrize("name", TORCHVISION_SETS)
def test_normalisation_has_one_number_per_channel(name):
    entry, grey = TORCHVISION_SETS[name], name in ("mnist", "usps", "fashion-mnist")
    assert len(entry.mean) == len(entry.std) == (1 if grey else 3)
