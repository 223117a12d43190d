import os

import numpy as np
import pytest

from furlkit.errors import DiskError, InputError
from furlkit.files.container import lockstep
from furlkit.files.container.header import Header
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import Container
from furlkit.files.container.write import write

FILES = 5


def tensors(k: int) -> dict[str, np.ndarray]:
    """More than two pieces of one tensor, and some small and empty ones."""
    rng = np.random.default_rng(k)
    return {
        "large": rng.normal(size=150_000).astype(np.float32),
        "wide": rng.normal(size=(7, 3)),
        "count": np.array(k),
        "empty": np.empty((0, 4), np.float16),
        "bytes": rng.integers(0, 256, 300_001, dtype=np.uint8),
    }


@pytest.fixture
def opened(tmp_path) -> list[Container]:
    for k in range(FILES):
        write(tmp_path / f"{k}", tensors(k), Header("private", "x"))
    return [Container(tmp_path / f"{k}") for k in range(FILES)]


def concatenated(columns) -> np.ndarray:
    return np.stack([column.copy() for column in columns])


def test_pieces_of_every_file_come_in_order(opened):
    written = [tensors(k) for k in range(FILES)]
    with Lockstep(opened) as files:
        for entry in opened[0].entries:
            pieces = list(files.combine(entry, concatenated))
            found = np.concatenate(pieces, axis=1) if pieces else None
            for k in range(FILES) if pieces else ():
                expected = written[k][entry.name].reshape(-1)
                assert found[k].dtype == expected.dtype
                assert found[k].tobytes() == expected.tobytes()
        files.finish()


@pytest.mark.parametrize("name", ["large", "wide", "count", "bytes"])
def test_a_flipped_bit_is_found_in_tensors_taken_and_skipped(opened, name):
    entry, path = opened[0].entry(name), opened[3].path
    raw = bytearray(path.read_bytes())
    raw[opened[3].body_start + entry.end - 1] ^= 4
    path.write_bytes(raw)
    for take in (lambda f, e: list(f.combine(e, concatenated)), Lockstep.skip):
        with Lockstep(opened) as files:
            for each in opened[0].entries:
                take(files, each)
            with pytest.raises(InputError, match="3: its bytes do not match"):
                files.finish()


def test_a_tensor_left_out_of_the_checksum_is_noticed(opened):
    with Lockstep(opened) as files:
        files.skip(opened[0].entry("large"))
        with pytest.raises(InputError, match="do not match"):
            files.finish()


def test_file_that_shrinks(opened):
    os.truncate(opened[2].path, opened[2].body_start + 100)
    with (
        Lockstep(opened) as files,
        pytest.raises(InputError, match="2: became shorter while it was read"),
    ):
        files.skip(opened[0].entry("large"))


def test_file_that_is_gone(opened):
    opened[4].path.unlink()
    with pytest.raises((InputError, DiskError), match=f"{opened[4].path}: "):
        Lockstep(opened).__enter__()


def test_error_while_reading_names_the_input(opened, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    with Lockstep(opened) as files:
        monkeypatch.setattr(os, "preadv", fail)
        with pytest.raises(DiskError, match="0: cannot read: Input/output error"):
            files.skip(opened[0].entry("wide"))


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_more_files_than_the_system_allows_to_be_open(opened, monkeypatch, allowed):
    monkeypatch.setattr(lockstep, "_allow_files", lambda _: lockstep.SPARE + allowed)
    with Lockstep(opened) as files:
        assert len(files._handles) == allowed
        for entry in opened[0].entries:
            files.skip(entry)
        files.finish()


def test_the_hard_limit_of_open_files_is_the_limit(python):
    found = python(
        "import resource; from furlkit.files.container.lockstep import _allow_files\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 90))\n"
        "print(_allow_files(30), _allow_files(80), _allow_files(2000))"
    )
    assert found.split() == ["30", "80", "90"]


def test_handles_are_closed(opened):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        with Lockstep(opened):
            pass
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
