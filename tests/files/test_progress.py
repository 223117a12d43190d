from dataclasses import replace

import numpy as np
import pytest

from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile

PROVENANCE = Provenance("local-train", {"lr": 0.1}, 3, {"global": "a" * 64})
TENSORS, VALUES = {"w": np.array([1.5, np.inf])}, {"seconds": 0.5, "last": None}


def test_progress_is_resumed(tmp_path):
    ProgressFile(tmp_path / "c", PROVENANCE).save(7, TENSORS, VALUES)
    found, reason = ProgressFile(tmp_path / "c", PROVENANCE).load()
    assert reason is None
    assert found.step == 7 and found.values == VALUES
    assert found.tensors["w"].tolist() == [1.5, np.inf]
    assert [p.name for p in tmp_path.iterdir()] == ["c.progress"]


def test_no_progress_yet(tmp_path):
    assert ProgressFile(tmp_path / "c", PROVENANCE).load() == (None, None)


@pytest.mark.parametrize(
    "other",
    [
        replace(PROVENANCE, options={"lr": 0.2}),
        replace(PROVENANCE, seed=4),
        replace(PROVENANCE, inputs={"global": "b" * 64}),
        replace(PROVENANCE, stage="distill"),
    ],
)
def test_progress_of_other_work_is_not_resumed(tmp_path, other):
    ProgressFile(tmp_path / "c", PROVENANCE).save(7, TENSORS, VALUES)
    found, reason = ProgressFile(tmp_path / "c", other).load()
    assert found is None
    assert (
        "c.progress: belongs to different options, inputs or versions; starting over"
        in reason
    )


@pytest.mark.parametrize(
    "versions", [{}, {"torch": "2"}, {"torch": "1", "furlkit": "3"}]
)
def test_progress_of_other_versions_is_not_resumed(tmp_path, versions):
    ProgressFile(tmp_path / "c", PROVENANCE, {"torch": "1"}).save(7, TENSORS, VALUES)
    found, reason = ProgressFile(tmp_path / "c", PROVENANCE, versions).load()
    assert found is None and "versions; starting over" in reason
    assert ProgressFile(tmp_path / "c", PROVENANCE, {"torch": "1"}).load()[0].step == 7


def test_progress_of_another_output_is_not_resumed(tmp_path):
    ProgressFile(tmp_path / "a", PROVENANCE).save(7, TENSORS, VALUES)
    (tmp_path / "a.progress").rename(tmp_path / "b.progress")
    assert ProgressFile(tmp_path / "b", PROVENANCE).load()[0] is None


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_damaged_progress_is_no_obstacle(tmp_path, damage):
    file = ProgressFile(tmp_path / "c", PROVENANCE)
    file.save(7, TENSORS, VALUES)
    raw = bytearray(file.path.read_bytes())
    raw[-1] ^= 1
    contents = {
        "truncated": raw[:-1],
        "flipped": raw,
        "empty": b"",
        "foreign": b"x" * 99,
    }
    file.path.write_bytes(contents[damage])
    found, reason = file.load()
    assert found is None
    assert reason.startswith(f"{file.path}: ") and reason.endswith("; starting over")


@pytest.mark.parametrize(
    "change",
    [
        {"w": None},
        {"w": np.array([1.5], np.float64)},
        {"w": np.array([1.5, 2.5], np.float32)},
        {"more": np.zeros(1)},
    ],
)
def test_resealed_progress_with_other_tensors_is_not_resumed(tmp_path, forge, change):
    file = ProgressFile(tmp_path / "c", PROVENANCE)
    file.save(7, {**TENSORS, "slot": np.zeros(2)}, VALUES)
    forge(file.path, change)
    found, reason = file.load()
    assert found is None and "c.progress: cannot be resumed: the tensors" in reason


def test_work_that_is_done_leaves_nothing(tmp_path):
    file = ProgressFile(tmp_path / "c", PROVENANCE)
    file.save(1, TENSORS, VALUES)
    file.discard()
    file.discard()
    assert list(tmp_path.iterdir()) == []
