import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts
from furlkit.files.similarity import read_similarity, write_similarity, write_top

N, K = 30, 4
FACTS = FeatureFacts("z", {"examples": 90}, "public", client=1, round=2, examples=N)
MADE = Provenance("embed", {}, None, {"model": "a" * 64})
INDEX = np.arange(N) * 3


def cosines(seed=0):
    R = np.random.default_rng(seed).standard_normal((N, 6))
    R /= np.linalg.norm(R, axis=1, keepdims=True)
    return (R @ R.T).astype(np.float32)


def whole(path, encoding="float32", blocks=7):
    parts = np.array_split(cosines(), blocks)
    write_similarity(path, lambda: iter(parts), INDEX, FACTS, MADE, encoding)
    return path


def largest(k=K):
    M = cosines()
    columns = np.argsort(-M, axis=1)[:, :k]
    return columns, np.take_along_axis(M, columns, 1)


def top(path, encoding="float32", k=K):
    write_top(path, *largest(k), INDEX, FACTS, MADE, encoding)
    return path


@pytest.mark.parametrize(
    "encoding, error", [("float32", 0), ("float16", 2**-11), ("int8", 0.5 / 127)]
)
@pytest.mark.parametrize("write", [whole, top])
def test_it_comes_back_to_the_rounding_of_its_type(tmp_path, write, encoding, error):
    found = read_similarity(write(tmp_path / "s", encoding))
    wanted = cosines() if write is whole else largest()[1]
    assert found.matrix.dtype == np.float32 and found.matrix.shape == wanted.shape
    assert np.abs(found.matrix - wanted).max() <= error + 1e-6
    assert found.facts == FACTS and found.index.tolist() == INDEX.tolist()
    if write is whole:
        assert found.columns is None
    else:
        assert found.columns.tolist() == largest()[0].tolist()


def test_int8_by_hand(tmp_path):
    M = np.array([[1, -1], [0.5, 1.0000001]], np.float32)
    facts = FeatureFacts("z", {"examples": 2}, "all", 0, 1, 2)
    write_similarity(tmp_path / "s", lambda: [M], np.arange(2), facts, MADE, "int8")
    assert (read_similarity(tmp_path / "s").matrix * 127).tolist() == [
        [127, -127],
        [64, 127],
    ]


def test_bytes_are_fewer_by_the_factor_of_the_type(tmp_path):
    header = 1200
    for encoding, each in (("float32", 4), ("float16", 2), ("int8", 1)):
        size = whole(tmp_path / "s", encoding).stat().st_size
        assert 0 < size - (N * N * each + 8 * N) < header
        size = top(tmp_path / "s", encoding).stat().st_size
        assert 0 < size - (N * K * (each + 4) + 8 * N) < header


def test_all_columns_hold_the_whole_matrix(tmp_path):
    found = read_similarity(top(tmp_path / "s", k=N))
    M = np.full((N, N), np.nan, np.float32)
    np.put_along_axis(M, found.columns.astype(int), found.matrix, axis=1)
    assert M.tobytes() == cosines().tobytes()


@pytest.mark.parametrize(
    "write, tensors, message",
    [
        (whole, {"matrix": cosines()[:, :9]}, "its matrix is (30, 9), a square was"),
        (whole, {"matrix": cosines()[:9, :9]}, "matrix is (9, 9) and index is (30,)"),
        (whole, {"matrix": cosines() * np.nan}, "matrix has 900 values that are NaN"),
        (whole, {"matrix": cosines().astype("i4")}, "matrix is int32 and index is"),
        (whole, {"index": None}, "has no tensor index"),
        (whole, {"matrix": None}, "has no tensor matrix"),
        (top, {"columns": None}, "its matrix is (30, 4), a square was wanted"),
        (top, {"columns": np.zeros((30, 3), "i4")}, "columns is int32 (30, 3), int32"),
        (top, {"columns": np.zeros((30, 4), "i8")}, "columns is int64 (30, 4), int32"),
        (top, {"columns": np.full((30, 4), 30, "i4")}, "columns go from 30 to 30"),
        (top, {"columns": np.full((30, 4), -1, "i4")}, "columns go from -1 to -1"),
        (top, {"matrix": np.full((30, 4), np.inf, "f2")}, "matrix has 120 values"),
    ],
)
def test_what_does_not_fit(tmp_path, forge, write, tensors, message):
    path = forge(write(tmp_path / "s"), tensors)
    with pytest.raises(InputError) as caught:
        read_similarity(path)
    assert message in str(caught.value) and str(caught.value).startswith(f"{path}: ")


def test_values_that_are_not_finite_are_not_written(tmp_path):
    columns, values = largest()
    with pytest.raises(InputError, match="matrix has 120 values"):
        write_top(tmp_path / "s", columns, values * np.nan, INDEX, FACTS, MADE)
    assert not list(tmp_path.iterdir())
