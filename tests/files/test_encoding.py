import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.features import (
    FeatureFacts,
    decoded,
    encoded,
    read_features,
    write_features,
)

PROVENANCE = Provenance("embed", {}, None, {"model": "a" * 64})


def rows(n=40, d=16, seed=0):
    """Rows of very different lengths."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-3, 4, (n, 1))
    return (rng.standard_normal((n, d)) * sizes).astype(np.float32)


def back(given, encoding):
    return decoded("f", encoded("rows", given, encoding), "rows")


def test_int8_by_hand():
    stored = encoded("rows", np.array([[127, -64, 0.4], [0, 0, 0]], "f4"), "int8")
    assert stored["rows"].tolist() == [[127, -64, 0], [0, 0, 0]]
    assert stored["rows_scale"][0] == 1
    assert stored["rows"].dtype == np.int8 and stored["rows_scale"].dtype == np.float32
    assert decoded("f", stored, "rows").tolist() == [[127, -64, 0], [0, 0, 0]]


def test_int8_errs_by_half_a_scale_at_most_in_every_row():
    given = rows()
    scale = np.abs(given).max(axis=1, keepdims=True) / 127
    error = np.abs(back(given, "int8") - given)
    assert (error <= scale * (0.5 + 1e-4)).all()
    assert error.max(axis=1).min() > 0  # So it is a bound of something.


def test_the_largest_of_a_row_keeps_its_sign_and_size():
    given = rows()
    place = np.abs(given).argmax(axis=1)[:, None]
    there, expected = (
        np.take_along_axis(a, place, 1) for a in (back(given, "int8"), given)
    )
    np.testing.assert_allclose(there, expected, rtol=1e-6)


def test_float16_errs_by_half_a_unit_in_the_last_place():
    given = rows()
    np.testing.assert_allclose(back(given, "float16"), given, rtol=2**-11, atol=2**-25)


def test_float32_is_kept_to_the_bit():
    assert back(rows(), "float32").tobytes() == rows().tobytes()


@pytest.mark.parametrize("encoding", ["float32", "float16", "int8"])
def test_rows_of_zeros_and_no_rows_at_all(encoding):
    assert back(np.zeros((2, 3), "f4"), encoding).tolist() == [[0] * 3] * 2
    assert back(np.zeros((0, 3), "f4"), encoding).shape == (0, 3)


@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-36, 1e38])
def test_numbers_at_the_ends_of_float32(size):
    given = np.array([[size, -size, 0]], "f4")
    with np.errstate(divide="raise", invalid="raise"):
        found = back(given, "int8")
    assert np.abs(found - given).max() <= max(size / 127, 1.5e-36)


@pytest.mark.parametrize(
    "encoding, of_4", [("float32", 4), ("float16", 2), ("int8", 1)]
)
def test_bytes_are_fewer_by_the_factor_of_the_type(tmp_path, encoding, of_4):
    n, d = 500, 128
    facts = FeatureFacts("z", {"examples": 500}, "all", 0, 1, n)
    path = tmp_path / "f"
    write_features(path, rows(n, d), np.arange(n), facts, PROVENANCE, encoding)
    scales = 4 * n if encoding == "int8" else 0
    body = n * d * of_4 + 8 * n + scales
    assert 0 < path.stat().st_size - body < 1200  # The header.
    assert read_features(path).rows.dtype == np.float32


def test_what_float16_cannot_hold_is_not_written(tmp_path):
    facts = FeatureFacts("h", {"examples": 1}, "all", 0, 1, 1)
    with pytest.raises(InputError, match="rows as float16 has 2 values"):
        write_features(
            tmp_path / "f", np.array([[7e4, 1, -1e5]], "f4"), np.arange(1), facts, PROVENANCE,
            "float16",
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"rows": np.ones((2, 3), np.int8)}, "rows is int8 (2, 3)"),
        (
            {"rows": np.ones((2, 3), np.int8), "rows_scale": np.ones(3, "f4")},
            "rows is int8",
        ),
        ({"rows": np.ones((2, 3), np.int64)}, "rows is int64"),
        (
            {
                "rows": np.ones((2, 3), np.int8),
                "rows_scale": np.array([1, np.nan], "f4"),
            },
            "rows_scale has 1 values that are NaN",
        ),
        ({"rows": np.full((2, 3), np.inf, "f2")}, "rows has 6 values that are NaN"),
    ],
)
def test_what_cannot_be_decoded(tensors, message):
    with pytest.raises(InputError) as caught:
        decoded("f", tensors, "rows")
    assert message in str(caught.value) and str(caught.value).startswith("f: ")
