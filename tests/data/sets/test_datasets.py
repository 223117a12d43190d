import json
import subprocess
import sys

import numpy as np
import pytest

from furlkit.data.partitions.from_file import from_file
from furlkit.data.sets import digits
from furlkit.data.sets.datasets import names
from furlkit.data.sets.fingerprint import fingerprint_of, same_dataset
from furlkit.data.sets.resize import resize_images
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.dataset import DatasetFacts, write_dataset
from furlkit.files.facts import Provenance
from furlkit.files.partition import PartitionFacts, write_partition

GREY = np.random.default_rng(0).integers(0, 256, (12, 6, 6), np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (12, 6, 8, 3), np.uint8)
LABELS = np.arange(12) % 4


def test_digits_are_scikit_learns_and_every_fifth_is_test():
    from sklearn.datasets import load_digits

    raw = load_digits()
    train, test = Source("digits").images(), Source("digits", split="test").images()
    assert train.images.shape == (1438, 8, 8, 1) and test.images.shape == (359, 8, 8, 1)
    fifth = np.arange(1797) % 5 == 4
    assert np.array_equal(test.labels, raw.target[fifth])
    assert np.array_equal(train.labels, raw.target[~fifth])
    restored = np.rint(train.images[..., 0] / 255 * 16)
    assert np.array_equal(restored, raw.images[~fifth])
    assert train.images.max() == 255 and train.classes == 10


def test_digits_constants_are_those_of_the_images():
    images = np.concatenate([digits.read_digits(s)[0] for s in ("train", "test")]) / 255
    assert images.mean() == pytest.approx(digits.MEAN[0], abs=1e-4)
    assert images.std() == pytest.approx(digits.STD[0], abs=1e-4)


def test_labels_of_digits_match_its_images_and_not_the_other_split():
    labels = Source("digits").labels()
    assert (
        same_dataset(labels.fingerprint, Source("digits").images().fingerprint) is None
    )
    assert same_dataset(
        labels.fingerprint, Source("digits", split="test").labels().fingerprint
    )


def test_labels_of_digits_import_neither_torch_nor_scikit_learn():
    code = (
        "import sys; from furlkit.data.sets.source import Source; "
        "import furlkit.data.partitions.schemes; Source('digits').labels(); "
        "print(sorted({'torch', 'torchvision', 'sklearn', 'PIL'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_npz_grey_and_colour(tmp_path):
    np.savez(tmp_path / "grey.npz", images=GREY, labels=LABELS.astype(np.int16))
    np.savez(tmp_path / "colour.npz", images=COLOUR, domains=LABELS % 2)
    grey = Source(tmp_path / "grey.npz").images()
    assert np.array_equal(grey.images, GREY[..., None])
    assert grey.labels.dtype == np.int64 and grey.classes == 4
    assert grey.class_names == ("0", "1", "2", "3") and grey.mean == (0.5,)
    colour = Source(str(tmp_path / "colour.npz")).images()
    assert colour.labels is None and colour.classes == 0
    assert list(colour.domains) == list(LABELS % 2)
    assert colour.mean == (0.485, 0.456, 0.406)


def test_npz_labels_match_the_images_with_and_without_labels(tmp_path):
    np.savez(tmp_path / "a.npz", images=GREY, labels=LABELS)
    np.savez(tmp_path / "b.npz", images=GREY)
    for name in ("a.npz", "b.npz"):
        labels, images = (
            Source(tmp_path / name).labels(),
            Source(tmp_path / name).images(),
        )
        assert labels.examples == 12
        assert same_dataset(labels.fingerprint, images.fingerprint) is None


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"labels": LABELS}, "no array .*images"),
        ({"images": GREY.astype(np.complex64)}, r"complex64 \(12, 6, 6\)"),
        ({"images": GREY[0]}, r"uint8 \(6, 6\)"),
        ({"images": COLOUR.transpose(0, 3, 1, 2)}, "transpose"),
        ({"images": GREY, "labels": LABELS[1:]}, r"int64 \(11,\)"),
        ({"images": GREY, "labels": LABELS / 2}, "float64"),
        ({"images": GREY, "labels": LABELS - 1}, "label -1"),
        ({"images": GREY, "labels": LABELS * 10**9}, "number the classes"),
        ({"images": GREY, "labels": LABELS.astype(object)}, "cannot be read"),
    ],
)
def test_wrong_npz_is_named(tmp_path, arrays, message):
    path = tmp_path / "wrong.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=message) as caught:
        Source(path).images()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_truncated_npz_is_named(tmp_path, cut):
    path = tmp_path / "cut.npz"
    np.savez_compressed(path, images=GREY, labels=LABELS)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match="cut.npz: cannot be read"):
        Source(path).images()


def test_npy_or_pickle_called_npz_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    with path.open("wb") as file:
        np.save(file, GREY)
    with pytest.raises(InputError, match="x.npz: cannot be read"):
        Source(path).images()
    path.write_bytes(b"\x80\x04]\x94.")
    with pytest.raises(InputError, match="x.npz: cannot be read"):
        Source(path).images()


def packed(path):
    fingerprint = fingerprint_of(12, images=COLOUR, labels=LABELS)
    mean, std = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    facts = DatasetFacts(list("abcd"), ["x", "y"], fingerprint, mean, std)
    columns, blocks = {"labels": LABELS, "domains": LABELS // 2}, np.split(COLOUR, [5])
    write_dataset(path, COLOUR.shape, blocks, columns, facts, Provenance("pack"))


def test_packed_file_is_mapped_and_keeps_its_facts(tmp_path):
    packed(tmp_path / "d.safetensors")
    opened = Source(tmp_path / "d.safetensors").images()
    assert isinstance(opened.images, np.memmap)
    assert np.array_equal(opened.images, COLOUR)
    assert opened.class_names == ("a", "b", "c", "d") and opened.classes == 4
    assert opened.mean == (0.1, 0.2, 0.3) and opened.domain_names == ("x", "y")
    labels = Source(tmp_path / "d.safetensors").labels()
    assert np.array_equal(labels.labels, LABELS) and labels.examples == 12


def test_packed_file_and_npz_of_the_same_arrays_are_one_dataset(tmp_path):
    packed(tmp_path / "d.safetensors")
    np.savez(tmp_path / "d.npz", images=COLOUR, labels=LABELS)
    one, other = (Source(tmp_path / n).images() for n in ("d.safetensors", "d.npz"))
    assert same_dataset(one.fingerprint, other.fingerprint) is None


def test_partition_file_is_a_split_file(tmp_path):
    path = tmp_path / "partition.safetensors"
    facts = PartitionFacts("iid", 2, fingerprint_of(12, labels=LABELS), list("abcd"))
    parts = [np.array([5, 1]), np.array([3])]
    made_by = Provenance("partition")
    write_partition(path, parts, np.array([0]), np.zeros((2, 4)), facts, made_by)
    np.save(tmp_path / "labels.npy", LABELS)
    data = Source(tmp_path / "labels.npy").labels()
    parts, public = from_file(data, split_file=path, with_replacement=False, min_size=1)
    assert [list(part) for part in parts] == [[1, 5], [3]]
    assert list(public) == [0]


def test_plain_label_files_agree(tmp_path):
    np.save(tmp_path / "a.npy", LABELS.astype(np.uint8))
    (tmp_path / "a.json").write_text(json.dumps(LABELS.tolist()))
    (tmp_path / "a.txt").write_text("\n".join(map(str, LABELS)) + "\n")
    for name in ("a.npy", "a.json", "a.txt"):
        opened = Source(tmp_path / name).labels()
        assert np.array_equal(opened.labels, LABELS) and opened.classes == 4
        assert opened.fingerprint == fingerprint_of(12, labels=LABELS)


def test_label_names_are_numbered_in_order(tmp_path):
    (tmp_path / "a.txt").write_text("dog\ncat\ndog\n10\n")
    opened = Source(tmp_path / "a.txt").labels()
    assert opened.class_names == ("10", "cat", "dog")
    assert list(opened.labels) == [2, 1, 2, 0]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.txt", ""),
        ("a.json", "[[1, 2], [3]]"),
        ("a.json", "[1.5, 2]"),
        ("a.json", "{"),
        ("a.json", '{"0": 1}'),
        ("a.txt", "1\n-1\n"),
        ("a.npy", "no array"),
    ],
)
def test_wrong_label_files_are_named(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=name):
        Source(tmp_path / name).labels()


def test_unknown_name_lists_the_known_and_the_most_similar():
    with pytest.raises(UsageError) as caught:
        Source("cifar-10").images()
    assert str(caught.value).endswith("; did you mean cifar10?")
    for name in names():
        assert name in str(caught.value)
    with pytest.raises(UsageError, match="neither a known dataset"):
        Source("nowhere/at/all").labels()
    with pytest.raises(UsageError, match="split valid: .*train, test"):
        Source("digits", split="valid").images()


def test_missing_file_is_an_input_error():
    with pytest.raises(InputError, match="gone.npz: no such file"):
        Source("gone.npz").images()


def test_resizing_matches_torchvision_and_keeps_the_fingerprint(tmp_path):
    import torch
    from torchvision.transforms.v2 import functional

    np.savez(tmp_path / "a.npz", images=COLOUR)
    plain, small = (Source(tmp_path / "a.npz", size=s).images() for s in (None, 4))
    assert small.images.shape == (12, 4, 4, 3)
    assert small.fingerprint == plain.fingerprint
    images = torch.from_numpy(COLOUR).permute(0, 3, 1, 2)
    expected = functional.center_crop(functional.resize(images, [4]), [4])
    expected = expected.permute(0, 2, 3, 1).numpy().astype(int)
    assert np.abs(small.images - expected).max() <= 1


def test_resizing_in_blocks_equals_resizing_at_once():
    many = np.repeat(GREY[..., None], 100, axis=0)
    assert np.array_equal(
        resize_images(many, 9),
        np.repeat(resize_images(GREY[..., None], 9), 100, axis=0),
    )
    assert resize_images(many, 6) is many


def test_a_size_below_one_is_refused():
    with pytest.raises(UsageError, match="--image-size 0"):
        Source("digits", size=0)


@pytest.mark.parametrize("column", ["labels", "class_names"])
def test_a_single_value_is_not_a_column(tmp_path, column):
    columns = {"labels": np.array([0] * 12), column: np.array(0)}
    np.savez(tmp_path / "a.npz", images=COLOUR, **columns)
    if column == "class_names":
        assert Source(tmp_path / "a.npz").labels().class_names == ("0",)
        return
    for read in (Source.images, Source.labels):
        with pytest.raises(InputError, match="a.npz: .*int64"):
            read(Source(tmp_path / "a.npz"))


@pytest.mark.parametrize("side", [28, 64])
def test_volumes_of_medmnist_are_not_read_as_channels(tmp_path, side):
    path, volumes = tmp_path / "organ.npz", np.zeros((2, side, side, side), np.uint8)
    np.savez(path, train_images=volumes, train_labels=np.zeros((2, 1), np.uint8))
    words = rf"organ.npz: .*volumes.*reshape\(-1, {side}, {side}\)"
    with pytest.raises(InputError, match=words):
        Source(path, split="train").images()


def test_arrays_of_medmnist_have_splits(tmp_path):
    path, counts = tmp_path / "bloodmnist.npz", {"train": 6, "val": 2, "test": 4}
    arrays = {}
    for split, count in counts.items():
        arrays[f"{split}_images"] = np.full((count, 8, 8, 3), count, np.uint8)
        arrays[f"{split}_labels"] = np.arange(count)[:, None] % 3
    np.savez(path, **arrays)
    for split in ("train", "test"):
        source = Source(path, split=split)
        found = source.images()
        assert source.has_splits and (found.images == counts[split]).all()
        assert found.labels.tolist() == [k % 3 for k in range(counts[split])]
        assert source.labels().fingerprint["labels"] == found.fingerprint["labels"]
    several = {"train_images": GREY, "train_labels": np.zeros((12, 14), np.uint8)}
    np.savez(tmp_path / "chestmnist.npz", **several)
    assert Source(tmp_path / "chestmnist.npz").images().labels is None
    with pytest.raises(InputError, match="test_images"):
        Source(tmp_path / "chestmnist.npz", split="test").images()
