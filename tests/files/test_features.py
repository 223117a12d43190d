import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, read_features, write_features
from furlkit.files.similarity import read_similarity, write_similarity

FACTS = FeatureFacts("h", {"examples": 9}, "all", client=1, round=2, examples=3)
PROVENANCE = Provenance("embed", {}, None, {"model": "a" * 64})
ROWS, INDEX = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([8, 0, 4])


@pytest.fixture
def features(tmp_path):
    write_features(tmp_path / "f", ROWS, INDEX, FACTS, PROVENANCE)
    return tmp_path / "f"


@pytest.fixture
def similarity(tmp_path):
    blocks = [np.eye(3, dtype=np.float32)[:2], np.eye(3, dtype=np.float32)[2:]]
    write_similarity(tmp_path / "s", iter(blocks), INDEX, FACTS, PROVENANCE)
    return tmp_path / "s"


def test_features_are_read_as_they_were_written(features):
    read = read_features(features)
    assert read.facts == FACTS
    assert read.rows.tobytes() == ROWS.tobytes()
    assert read.index.tolist() == [8, 0, 4]


def test_similarity_is_read_as_it_was_written(similarity):
    read = read_similarity(similarity)
    assert read.facts == FACTS
    assert read.matrix.tolist() == np.eye(3).tolist()
    assert read.index.tolist() == [8, 0, 4]


def test_one_is_not_the_other(features, similarity):
    with pytest.raises(
        InputError, match="f: is a features file; expected a similarity"
    ):
        read_similarity(features)
    with pytest.raises(
        InputError, match="s: is a similarity file; expected a features"
    ):
        read_features(similarity)


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"rows": ROWS[:2]}, r"index is int64 \(3,\); expected int64 \(2\)"),
        ({"rows": ROWS.ravel()}, r"rows is float32 \(6,\)"),
        ({"index": np.array([1])}, r"index is int64 \(1,\)"),
        ({"index": INDEX.astype(np.int32)}, "index is int32"),
        ({"rows": ROWS.astype(int)}, "rows is int64"),
        ({"rows": ROWS + np.inf}, "rows has 6 values that are NaN or infinite"),
        ({"rows": None}, "has no tensor rows"),
    ],
)
def test_features_that_do_not_fit(features, forge, tensors, message):
    forge(features, tensors)
    with pytest.raises(InputError, match=f"f: {message}"):
        read_features(features)


def test_similarity_must_be_square(similarity, forge):
    forge(similarity, {"matrix": np.ones((3, 2), np.float32)})
    with pytest.raises(InputError, match=r"s: its matrix is \(3, 2\)"):
        read_similarity(similarity)


def test_features_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(InputError, match="f: rows has 6 values"):
        write_features(tmp_path / "f", ROWS * np.nan, INDEX, FACTS, PROVENANCE)
    assert list(tmp_path.iterdir()) == []
