import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files import gram, similarity
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts
from furlkit.files.similarity import read_similarity, write_similarity

N, K = 30, 4
FACTS = FeatureFacts("z", {"examples": 90}, "public", client=1, round=2, examples=N)
PROVENANCE = Provenance("embed", {}, None, {"model": "a" * 64})
INDEX = np.arange(N) * 3


def cosines(seed=0):
    R = np.random.default_rng(seed).standard_normal((N, 6))
    R /= np.linalg.norm(R, axis=1, keepdims=True)
    return (R @ R.T).astype(np.float32)


def whole(path, encoding="float32", blocks=7):
    parts = np.array_split(cosines(), blocks)
    write_similarity(path, iter(parts), INDEX, FACTS, PROVENANCE, encoding)
    return path


def largest(k=K):
    M = cosines()
    columns = np.argsort(-M, axis=1)[:, :k]
    return columns, np.take_along_axis(M, columns, 1)


def top(path, encoding="float32", k=K):
    columns, values = largest(k)
    write_similarity(path, [values], INDEX, FACTS, PROVENANCE, encoding, columns)
    return path


@pytest.mark.parametrize(
    "encoding, error", [("float32", 0), ("float16", 2**-11), ("int8", 0.5 / 127)]
)
@pytest.mark.parametrize("write", [whole, top])
def test_it_comes_back_to_the_rounding_of_its_type(tmp_path, write, encoding, error):
    found = read_similarity(write(tmp_path / "s", encoding))
    expected = cosines() if write is whole else largest()[1]
    assert found.matrix.dtype == (encoding if write is whole else np.float32)
    numbers = similarity.cosines(found.matrix)
    assert numbers.dtype == np.float32 and numbers.shape == expected.shape
    assert np.abs(numbers - expected).max() <= error + 1e-6
    assert found.facts == FACTS and found.index.tolist() == INDEX.tolist()
    if write is whole:
        assert found.columns is None
    else:
        assert found.columns.tolist() == largest()[0].tolist()


def test_int8_by_hand(tmp_path):
    M = np.array([[1, -1, 0.5], [-1, 1.0000001, -0.5], [0.5, -0.5, 1]], np.float32)
    facts = FeatureFacts("z", {"examples": 3}, "all", 0, 1, 3)
    write_similarity(tmp_path / "s", [M], np.arange(3), facts, PROVENANCE, "int8")
    expected = [[127, -127, 64], [-127, 127, -64], [64, -64, 127]]
    assert read_similarity(tmp_path / "s").matrix.tolist() == expected


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
        (whole, {"matrix": cosines()[:, :9]}, "its matrix is (30, 9)"),
        (whole, {"matrix": cosines()[:9, :9]}, "index is int64 (30,)"),
        (whole, {"matrix": cosines() * np.nan}, "row 0 has nan for row 0"),
        (whole, {"matrix": cosines().astype("i4")}, "matrix is int32 (30, 30)"),
        (whole, {"index": None}, "has no tensor index"),
        (whole, {"matrix": None}, "has no tensor matrix"),
        (top, {"columns": None}, "its matrix is (30, 4)"),
        (top, {"columns": np.zeros((30, 3), "i4")}, "columns is int32 (30, 3)"),
        (top, {"columns": np.zeros((30, 4), "i8")}, "columns is int64 (30, 4)"),
        (top, {"columns": np.full((30, 4), 30, "i4")}, "columns go from 30 to 30"),
        (top, {"columns": np.full((30, 4), -1, "i4")}, "columns go from -1 to -1"),
        (top, {"matrix": np.full((30, 4), np.inf, "f2")}, "row 0 has inf for row 0"),
    ],
)
def test_what_does_not_fit(tmp_path, forge, write, tensors, message):
    path = forge(write(tmp_path / "s"), tensors)
    with pytest.raises(InputError) as caught:
        read_similarity(path)
    assert message in str(caught.value) and str(caught.value).startswith(f"{path}: ")


STORED = {"float32": np.float32, "float16": np.float16, "int8": np.int8}
RECREATE = "re-create it with embed --similarity"


def changed(forge, path, encoding, *cells):
    """A file of that encoding with other values in some cells."""
    matrix = Container(path).tensors()["matrix"]
    for i, j, value in cells:
        matrix[i, j] = np.rint(value * 127) if encoding == "int8" else value
    return forge(path, {"matrix": matrix.astype(STORED[encoding])})


@pytest.mark.parametrize(
    "encoding, value",
    [(e, v) for e in ("float32", "float16") for v in (1.02, -1.01, np.nan, -np.inf)]
    + [("int8", -128 / 127)],
)
@pytest.mark.parametrize("write", [whole, top])
def test_values_that_are_no_cosines(tmp_path, forge, write, encoding, value):
    path = changed(forge, write(tmp_path / "s", encoding), encoding, (7, 2, value))
    other = 2 if write is whole else int(largest()[0][7, 2])
    with pytest.raises(InputError) as caught:
        read_similarity(path)
    assert str(caught.value) == (
        f"{path}: row 7 has {read_value(path, 7, 2):.6g} for row {other}; expected "
        f"a cosine, from -1 to 1; {RECREATE}"
    )


@pytest.mark.parametrize("encoding", STORED)
@pytest.mark.parametrize("value", [0, 0.5, 0.99])
def test_an_image_that_is_not_like_itself(tmp_path, forge, encoding, value):
    """The largest of a row comes first, and is the image itself."""
    for write, place in ((whole, 7), (top, 0)):
        path = changed(
            forge, write(tmp_path / "s", encoding), encoding, (7, place, value)
        )
        with pytest.raises(InputError) as caught:
            read_similarity(path)
        rounded = read_value(path, 7, place)
        assert str(caught.value) == (
            f"{path}: row 7 has {rounded:.6g} for the image itself; expected 1; {RECREATE}, "
            "from a model that has not collapsed"
        )


def read_value(path, i, j):
    matrix = Container(path).tensors()["matrix"]
    return np.float32(matrix[i, j]) / (127 if matrix.dtype == np.int8 else 1)


def test_images_of_zeros_are_counted(tmp_path, forge):
    path = whole(tmp_path / "s")
    matrix = cosines()
    matrix[[3, 9]] = matrix[:, [3, 9]] = 0
    with pytest.raises(InputError, match=r"row 3 has 0 .* \(2 such"):
        read_similarity(forge(path, {"matrix": matrix}))


def test_a_list_without_the_image_itself(tmp_path, forge):
    columns, path = largest()[0].astype(np.int32), top(tmp_path / "s")
    columns[7] = (columns[7] + 1) % N
    columns[7][columns[7] == 7] = 8
    with pytest.raises(InputError, match="row 7 has nothing for"):
        read_similarity(forge(path, {"columns": columns}))


@pytest.mark.parametrize("encoding", STORED)
@pytest.mark.parametrize("block", [1024, 4])
def test_a_matrix_that_is_not_symmetric(tmp_path, forge, monkeypatch, encoding, block):
    monkeypatch.setattr(similarity, "BLOCK", block)
    value = read_value(whole(tmp_path / "s", encoding), 21, 6)
    cells = (21, 6, value + 0.02 if value < 0 else value - 0.02)
    path = changed(forge, tmp_path / "s", encoding, cells)
    a, b = read_value(path, 6, 21), read_value(path, 21, 6)
    with pytest.raises(InputError) as caught:
        read_similarity(path)
    assert str(caught.value) == (
        f"{path}: row 6 has {a:.6g} for row 21, but row 21 has {b:.6g} for row 6; {RECREATE}"
    )


WRONG = {
    "nothing": (),
    "two that are no cosines": ((5, 29, 1.5), (6, 1, -2.0)),
    "NaN": ((12, 28, np.nan), (13, 0, np.nan)),
    "one in the last row": ((29, 29, 3.0),),
    "no cosine and no 1": ((0, 0, 0.5), (28, 3, 1.5)),
    "two that are not 1": ((11, 11, 0.5), (29, 29, 0.0)),
    "no 1, and not symmetric": ((0, 9, 0.9), (17, 17, 0.5)),
    "not symmetric, far and near": ((7, 10, 0.95), (5, 29, 0.9)),
    "not symmetric, below": ((29, 5, 0.9), (10, 7, 0.95)),
    "not symmetric, last two": ((28, 29, 0.97),),
}


@pytest.mark.parametrize("encoding", ["float32", "float16"])
@pytest.mark.parametrize("name", WRONG)
def test_blocks_give_the_verdict_of_the_whole(
    tmp_path, forge, monkeypatch, name, encoding
):
    """Of several wrong cells the first counts, row by row, however small the blocks."""
    path = changed(forge, whole(tmp_path / "s", encoding), encoding, *WRONG[name])

    def verdict(block):
        monkeypatch.setattr(similarity, "BLOCK", block)
        try:
            return read_similarity(path).matrix.tobytes()
        except InputError as error:
            return str(error)

    together = verdict(1024)
    assert isinstance(together, str) == bool(WRONG[name])
    assert [verdict(block) for block in (1, 4, 7, 30)] == [together] * 4


def test_a_whole_matrix_is_never_whole_in_memory(tmp_path, monkeypatch):
    """Every part that the checks ask for is one block, and what is given is a map."""
    monkeypatch.setattr(similarity, "BLOCK", 4)
    monkeypatch.setattr(gram, "SIZES", (4,))
    shapes, numbers = [], similarity.cosines
    path = whole(tmp_path / "s", "int8")

    def noting(block):
        shapes.append(block.shape)
        return numbers(block)

    monkeypatch.setattr(similarity, "cosines", noting)
    found = read_similarity(path)
    assert isinstance(found.matrix, np.memmap)
    assert shapes and max(rows * columns for rows, columns in shapes) == 16


def test_a_flipped_bit_of_a_whole_matrix_is_found(tmp_path):
    path = whole(tmp_path / "s")
    content = path.read_bytes()
    path.write_bytes(content[:-900] + bytes([content[-900] ^ 1]) + content[-899:])
    with pytest.raises(InputError, match="bytes do not match"):
        read_similarity(path)


def test_rounding_is_no_reason_to_refuse(tmp_path, forge):
    """Two roundings of nearly the same number may be a step of int8 apart."""
    matrix = Container(whole(tmp_path / "s", "int8")).tensors()["matrix"]
    matrix[21, 6] += 1 if matrix[21, 6] < 0 else -1
    path = forge(tmp_path / "s", {"matrix": matrix})
    assert read_similarity(path).matrix.shape == (N, N)
    near = cosines() * np.float32(1.0005)
    assert read_similarity(forge(whole(path), {"matrix": near})).matrix.max() > 1


def test_values_that_are_not_finite_are_not_written(tmp_path):
    columns, values = largest()
    wrong = ((cosines() * np.nan, None, 900), (values * np.nan, columns, 120))
    for matrix, places, count in wrong:
        more = (INDEX, FACTS, PROVENANCE, "float32", places)
        with pytest.raises(InputError, match=f"matrix has {count} values"):
            write_similarity(tmp_path / "s", [matrix], *more)
        assert not list(tmp_path.iterdir())
