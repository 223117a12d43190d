import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.container.write import write
from furlkit.files.ensemble import EnsembleFacts, read_ensemble, write_parts
from furlkit.files.facts import Provenance

N = 6
PROVENANCE = Provenance("aggregate", {}, None, {"client 1": "a" * 64})
INDEX = np.array([8, 0, 4, 5, 7, 6])


def facts(form):
    return EnsembleFacts(form, [1, 10], 2, 0.1, {"examples": 9}, "public", N)


def rows(d, seed=0):
    return np.random.default_rng(seed).standard_normal((N, d)).astype(np.float32)


@pytest.fixture
def written(tmp_path):
    """A file of each form."""
    parts = {1: rows(3), 10: rows(5)}
    columns = {k: np.zeros(part.shape, int) for k, part in parts.items()}
    write_parts(tmp_path / "rows", parts, {}, INDEX, facts("rows"), PROVENANCE)
    write_parts(tmp_path / "top", parts, columns, INDEX, facts("top"), PROVENANCE)
    tensors = {"matrix": np.ones((N, N), np.float32), "index": INDEX}
    write(tmp_path / "matrix", tensors, PROVENANCE.header("ensemble", facts("matrix")))
    return tmp_path


@pytest.mark.parametrize("form", ["rows", "top", "matrix"])
def test_it_is_read_as_it_was_written(written, form):
    found = read_ensemble(written / form)
    assert found.facts == facts(form) and found.index.tolist() == INDEX.tolist()
    if form == "matrix":
        assert isinstance(found.matrix, np.memmap) and not found.parts
        assert found.matrix.tolist() == np.ones((N, N)).tolist()
        return
    assert list(found.parts) == [1, 10] and found.matrix is None
    assert found.parts[10].tobytes() == rows(5).tobytes()
    assert list(found.columns) == ([1, 10] if form == "top" else [])


@pytest.mark.parametrize(
    "form, tensors, words, message",
    [
        ("rows", {}, {"form": "cake"}, "is an ensemble of form cake"),
        ("rows", {}, {"clients": []}, "of 0 clients and 6 images"),
        ("rows", {}, {"examples": 7}, "of 2 clients and 6 images"),
        ("rows", {}, {"temperature": 0.0}, "the temperature is 0.0"),
        ("rows", {}, {"temperature": -1}, "the temperature is -1"),
        ("rows", {}, {"temperature": "x"}, "'temperature' is 'x'"),
        ("rows", {}, {"clients": [1, 2]}, "has no tensor part_2"),
        ("rows", {"part_10": None}, {}, "has no tensor part_10"),
        ("rows", {"part_1": rows(3)[:5]}, {}, "part_1 is float32 (5, 3)"),
        ("rows", {"part_1": rows(3).ravel()}, {}, "part_1 is float32 (18,)"),
        ("rows", {"part_1": rows(3).astype("f8")}, {}, "part_1 is float64 (6, 3)"),
        ("rows", {"part_1": rows(3) * np.inf}, {}, "part_1 has 18 values that are NaN"),
        ("rows", {"index": INDEX.astype("f8")}, {}, "index is float64 (6,)"),
        ("rows", {"index": np.array(6)}, {}, "index is int64 ()"),
        ("rows", {"index": INDEX[:, None]}, {}, "index is int64 (6, 1)"),
        ("rows", {"index": None}, {}, "has no tensor index"),
        ("rows", {"index": INDEX[:5]}, {}, "5 images"),
        ("top", {"columns_1": None}, {}, "has no tensor columns_1"),
        ("top", {"columns_1": np.full((6, 3), 6, "i4")}, {}, "columns_1 go from 6"),
        ("top", {"columns_1": np.full((6, 3), -1, "i4")}, {}, "columns_1 go from -1"),
        ("top", {"columns_1": np.zeros((6, 2), "i4")}, {}, "columns_1 is int32"),
        ("top", {"columns_1": np.zeros((6, 3), "i8")}, {}, "columns_1 is int64"),
        ("matrix", {"matrix": np.ones((6, 5), "f4")}, {}, "matrix is float32 (6, 5)"),
        ("matrix", {"matrix": np.ones((6, 6), "i8")}, {}, "matrix is int64 (6, 6)"),
        ("matrix", {"matrix": None}, {}, "has no tensor matrix"),
    ],
)
def test_what_cannot_be(written, forge, form, tensors, words, message):
    path = forge(written / form, tensors, words)
    with pytest.raises(InputError) as caught:
        read_ensemble(path)
    assert message in str(caught.value) and str(caught.value).startswith(f"{path}: ")


def test_values_that_are_not_finite_are_not_written(tmp_path):
    parts = {1: rows(3), 10: rows(5) * np.nan}
    with pytest.raises(InputError, match="part_10 has 30 values"):
        write_parts(tmp_path / "e", parts, {}, INDEX, facts("rows"), PROVENANCE)
    assert not list(tmp_path.iterdir())
