import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.container.read import Container
from furlkit.files.dataset import DatasetFacts, read_dataset, write_dataset
from furlkit.files.facts import Provenance

FACTS = DatasetFacts(["a", "b"], [], {"examples": 3}, [0.5], [0.5])
PROVENANCE = Provenance("pack", {}, None)
IMAGES = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2, 1)


@pytest.fixture
def path(tmp_path):
    write_dataset(
        tmp_path / "d", (3, 2, 2, 1), [IMAGES[:1], IMAGES[1:]],
        {"labels": np.array([0, 1, 1])}, FACTS, PROVENANCE,
    )  # fmt: skip
    return tmp_path / "d"


def test_dataset_is_read_as_it_was_written(path):
    packed = read_dataset(path)
    assert packed.facts == FACTS
    assert packed.labels.tolist() == [0, 1, 1]
    assert packed.domains is None
    assert packed.images.tobytes() == IMAGES.tobytes()
    Container(path).verify()


def test_images_are_a_read_only_map(path):
    images = read_dataset(path).images
    assert isinstance(images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"images": IMAGES.astype(np.float32)}, "images is float32"),
        ({"images": IMAGES[..., 0]}, r"images is uint8 \(3, 2, 2\)"),
        ({"images": None}, "has no tensor images"),
        ({"labels": np.array([0, 1])}, r"labels is int64 \(2,\)"),
        ({"labels": np.zeros(3, np.uint8)}, r"labels is uint8 \(3,\)"),
        ({"domains": np.zeros((3, 1), int)}, r"domains is int64 \(3, 1\)"),
    ],
)
def test_dataset_that_does_not_fit(path, forge, tensors, message):
    forge(path, tensors)
    with pytest.raises(InputError, match=f"d: {message}"):
        read_dataset(path)


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"class_names": ["a"]}, "labels go up to 1 and have 1 names"),
        ({"mean": []}, "mean is"),
        ({"std": []}, "std is"),
        ({"std": [0.0]}, "std is"),
        ({"mean": [0.5] * 3}, "expected 1 of each"),
        ({"fingerprint": {}}, "does not say how many images"),
        ({"fingerprint": {"examples": 4}}, "the fingerprint is not of 3 images"),
    ],
)
def test_facts_that_do_not_fit(path, forge, facts, message):
    forge(path, facts=facts)
    with pytest.raises(InputError, match=f"d: .*{message}"):
        read_dataset(path)


def test_dataset_without_examples(path, forge):
    tensors = {"images": IMAGES[:0], "labels": np.empty(0, int)}
    forge(path, tensors, {"fingerprint": {"examples": 0}})
    with pytest.raises(InputError, match=r"d: images is \(0, 2, 2, 1\)"):
        read_dataset(path)


def test_blocks_must_add_up(tmp_path):
    with pytest.raises(ValueError, match="images"):
        write_dataset(tmp_path / "d", (4, 2, 2, 1), [IMAGES], {}, FACTS, PROVENANCE)
    assert list(tmp_path.iterdir()) == []
