import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.targets import TargetFacts, read_targets, write_targets

FACTS = TargetFacts(
    "a" * 64, {"encoder": "cnn5"}, [0.5], [0.25], {"examples": 9, "images": "b"}, 3
)
PROVENANCE = Provenance("pretrain-align", {}, 0, {"model": "c" * 64})
H = np.arange(12, dtype=np.float32).reshape(3, 4)
Z = -np.arange(6, dtype=np.float32).reshape(3, 2)
INDEX = np.array([8, 0, 4])


@pytest.fixture
def targets(tmp_path):
    write_targets(tmp_path / "t", {"h": H, "z": Z}, INDEX, FACTS, PROVENANCE)
    return tmp_path / "t"


def test_targets_are_read_as_they_were_written(targets):
    read = read_targets(targets)
    assert read.facts == FACTS and len(read.content) == 64
    assert read.h.tobytes() == H.tobytes() and read.z.tobytes() == Z.tobytes()
    assert read.index.tolist() == [8, 0, 4] and read.index.dtype == np.int64


def test_the_same_targets_are_the_same_bytes(targets):
    other = targets.with_name("u")
    write_targets(other, {"z": Z, "h": H}, INDEX.astype(np.int32), FACTS, PROVENANCE)
    assert other.read_bytes() == targets.read_bytes()


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"h": H[:2]}, r"h is float32 \(2, 4\)"),
        ({"z": Z.ravel()}, r"z is float32 \(6,\)"),
        ({"z": Z.astype(int)}, r"z is int64 \(3, 2\)"),
        ({"index": INDEX[:2]}, r"index is int64 \(2,\)"),
        ({"index": INDEX[:, None]}, r"index is int64 \(3, 1\)"),
        ({"index": INDEX.astype(float)}, r"index is float64 \(3,\)"),
        ({"h": H * np.nan}, "h has 12 values that are NaN or infinite"),
        ({"z": Z + np.inf}, "z has 6 values that are NaN or infinite"),
        ({"h": None}, "has no tensor h"),
        ({"index": None}, "has no tensor index"),
    ],
)
def test_targets_that_do_not_fit(targets, forge, tensors, message):
    forge(targets, tensors)
    with pytest.raises(InputError, match=f"t: {message}"):
        read_targets(targets)


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"examples": 2}, "expected .* .2, d."),
        ({"examples": -1}, "header fact 'examples' is -1"),
        ({"mean": 0.5}, "header fact 'mean' is 0.5"),
        ({"dataset": "digits"}, "header fact 'dataset' is 'digits'"),
        ({"colour": 1}, "facts do not fit a targets file"),
    ],
)
def test_facts_that_do_not_fit(targets, forge, facts, message):
    forge(targets, facts=facts)
    with pytest.raises(InputError, match=f"t: .*{message}"):
        read_targets(targets)


def test_another_kind_is_refused(targets, forge):
    forge(targets, kind="features")
    with pytest.raises(InputError, match="t: is a features file; expected a targets"):
        read_targets(targets)


@pytest.mark.parametrize("name", ["h", "z"])
def test_values_that_are_not_finite_are_not_written(tmp_path, name):
    rows = {"h": H, "z": Z, name: H + np.inf}
    with pytest.raises(InputError, match=f"t: {name} has"):
        write_targets(tmp_path / "t", rows, INDEX, FACTS, PROVENANCE)
    assert list(tmp_path.iterdir()) == []
