import os

import numpy as np
import pytest

from furlkit.errors import DiskError, InputError
from furlkit.files.container import lockstep
from furlkit.files.container.header import Header
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import ChangedFile, Container
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


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


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
            with pytest.raises(InputError, match="3: the bytes do not match"):
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
    before = open_files()
    with Lockstep(opened) as files:
        assert open_files() - before == allowed
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
    before = open_files()
    for _ in range(3):
        with Lockstep(opened):
            pass
    assert open_files() == before


def forged_byte(path, place: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 4
    path.write_bytes(raw)


@pytest.mark.parametrize("change", ["forged", "shorter", "gone", "a link to another"])
@pytest.mark.parametrize("way", ["combine", "stacked"])
def test_bytes_other_than_those_remembered_are_never_combined(opened, way, change):
    """A crc32 can be forged, so it is not asked."""
    for file in opened:
        for _ in file.verified_pieces("content", remember=True):
            pass
    entry, path = opened[0].entry("large"), opened[3].path
    assert all(file.is_unchanged() for file in opened)
    if change == "forged":
        forged_byte(path, opened[3].body_start + opened[3].entry("large").end - 1)
    elif change == "shorter":
        os.truncate(path, opened[3].body_start + 100)
    else:
        path.unlink()
        if change == "a link to another":
            path.symlink_to(opened[2].path)
    with pytest.raises(ChangedFile) as error, Lockstep(opened) as files:
        list(getattr(files, way)(entry, concatenated))
    assert error.value.path == path
    assert [file.is_unchanged() for file in opened] == [True] * 3 + [False, True]


def test_files_as_remembered_are_combined_and_need_no_checksum(opened):
    for file in opened[:3]:
        for _ in file.verified_pieces(None, remember=True):
            pass
    with Lockstep(opened) as files:
        for entry in opened[0].entries:
            pieces = list(files.stacked(entry, np.copy))
            expected = np.stack([tensors(k)[entry.name].ravel() for k in range(FILES)])
            found = np.concatenate(pieces, axis=1) if pieces else expected[:, :0]
            np.testing.assert_array_equal(found, expected)
        files.finish()
