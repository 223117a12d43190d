"""idx files, as MNIST and Fashion-MNIST are published: plain, gzipped, hostile."""

import gzip
import resource
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from tests.data.sets.digit_files import write_mnist
from tests.helpers import NET

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 9, 8), np.uint8)
LABELS = np.array([3, 1, 0, 2, 2, 1], np.uint8)


def idx(array: np.ndarray) -> bytes:
    head = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
    return head + array.tobytes()


def save(folder, split="train", zipped=True, keep=slice(None)):
    """Images and labels of a split; returns the path of the images."""
    folder.mkdir(exist_ok=True)
    pack, end = (gzip.compress, ".gz") if zipped else (bytes, "")
    path = folder / f"{split}-images-idx3-ubyte{end}"
    path.write_bytes(pack(idx(IMAGES[keep])))
    labels = folder / f"{split}-labels-idx1-ubyte{end}"
    labels.write_bytes(pack(idx(LABELS[keep])))
    return path


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_images_brings_the_labels_beside_it(tmp_path, zipped):
    opened = Source(save(tmp_path / "d", zipped=zipped)).images()
    assert np.array_equal(opened.images, IMAGES[..., None])
    assert opened.labels.tolist() == LABELS.tolist()
    assert opened.class_names == ("0", "1", "2", "3")


def test_without_a_file_of_labels_there_are_none(tmp_path):
    path = save(tmp_path / "d")
    (tmp_path / "d" / "train-labels-idx1-ubyte.gz").unlink()
    assert Source(path).images().labels is None
    alone = path.rename(tmp_path / "pictures.gz")
    assert np.array_equal(Source(alone).images().images, IMAGES[..., None])


def test_a_folder_has_a_train_and_a_test_split(tmp_path):
    save(tmp_path, "train", keep=slice(4))
    save(tmp_path, "t10k", zipped=False, keep=slice(4, 6))
    train, test = (Source(tmp_path, split=split) for split in ("train", "test"))
    assert np.array_equal(train.images().images, IMAGES[:4, :, :, None])
    assert np.array_equal(test.images().images, IMAGES[4:, :, :, None])
    assert test.labels().labels.tolist() == LABELS[4:].tolist()
    assert not train.is_folder and train.has_splits


def test_a_folder_without_the_split_says_which_file_it_lacks(tmp_path):
    save(tmp_path)
    with pytest.raises(InputError, match="no test split.*t10k-images-idx3-ubyte"):
        Source(tmp_path, split="test").images()


def test_evaluate_of_one_file_proposes_the_folder(tmp_path, run):
    path = save(tmp_path / "d")
    line = ("evaluate", "knn", "m", "--data", path, "-o", tmp_path / "k.json")
    assert "which has both splits" not in run(*line).err
    save(tmp_path / "d", "t10k")
    done = run(*line)
    assert done.code == 2 and f"or --data {path.parent}, which has" in done.err


def test_it_is_the_same_dataset_as_torchvision_s(tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (3, 28, 28), np.uint8)
    write_mnist(tmp_path, images, [1, 0, 2])
    named = Source("mnist", data_root=tmp_path).images()
    direct = Source(tmp_path / "MNIST" / "raw").images()
    assert direct.fingerprint == named.fingerprint


def test_commands_take_a_folder_of_idx_files(tmp_path, run):
    save(tmp_path / "d")
    save(tmp_path / "d", "t10k")
    data, model = ("--data", tmp_path / "d"), tmp_path / "g.st"
    made = run("partition", *data, "--clients", 2, "-o", tmp_path / "p.st")
    assert made.code == 0 and made.out.endswith("of 6\n")
    assert run("init", *data, *NET, "-o", model).code == 0
    scored = run("evaluate", "knn", model, *data, "--k", 1, "-o", tmp_path / "knn.json")
    assert scored.code == 0, scored.err
    packed = run("pack", tmp_path / "d", "--split", "test", "-o", tmp_path / "t.st")
    assert packed.code == 0 and "6 images of 9 x 8 x 1, 4 classes" in packed.out


def bomb(size: int) -> bytes:
    """`size` zeros after the header of 6 images, gzipped, without holding them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(idx(IMAGES))]
    parts += [packer.compress(bytes(2**20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


def declared(*shape: int) -> bytes:
    return struct.pack(f">I{len(shape)}I", 0x800 + len(shape), *shape)


WHOLE = idx(IMAGES)
HOSTILE = {
    "empty": (b"", "starts with nothing"),
    "wrong magic": (b"\0\0\x0d\x03" + WHOLE[4:], "00 00 0d 03"),
    "labels": (idx(LABELS), "1 dimensions"),
    "header cut": (WHOLE[:9], "header"),
    "cut": (WHOLE[:-1], "has 431"),
    "too long": (WHOLE + b"\0", "has 433"),
    "no images": (declared(0, 9, 8), "no examples"),
    "huge": (declared(2**32 - 1, 2**32 - 1, 2**32 - 1), "and has 0"),
    "gzip cut": (gzip.compress(WHOLE)[:-12], "gzip"),
    "gzip damaged": (gzip.compress(WHOLE)[:-6] + b"\1\2\3\4\5\6", "gzip"),
    "gzip empty": (gzip.compress(b""), "starts with nothing"),
    "gzip of text": (gzip.compress(b"hello world"), "68 65 6c 6c"),
    "gzip cut inside": (gzip.compress(WHOLE[:-1]), "has 431"),
    "gzip huge": (gzip.compress(declared(2**31, 2**31, 2**31)), "may unpack to"),
    "gzip bomb": (bomb(2**24), "has more"),
    "gzip bomb declared": (
        gzip.compress(declared(2**16, 2**8, 2**8) + bytes(2**20)),
        "may unpack to",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_with_little_memory(tmp_path, case):
    content, words = HOSTILE[case]
    end = ".gz" if case.startswith("gzip") else ""
    path = tmp_path / f"train-images-idx3-ubyte{end}"
    path.write_bytes(content)
    tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        for source in (path, tmp_path):
            with pytest.raises(InputError, match=words) as caught:
                Source(source).images()
            assert str(path) in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # kB


@pytest.mark.parametrize("labels", [LABELS[:5], np.zeros((6, 2), np.uint8)], ids=str)
def test_labels_that_do_not_fit_are_refused(tmp_path, labels):
    path = save(tmp_path)
    beside = tmp_path / "train-labels-idx1-ubyte.gz"
    beside.write_bytes(gzip.compress(idx(labels)))
    with pytest.raises(InputError, match=str(beside)):
        Source(path).images()


def test_an_unknown_path_names_idx_files():
    with pytest.raises(UsageError, match="an idx"):
        Source("nowhere").images()
