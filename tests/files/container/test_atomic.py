import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from furlkit.errors import DiskError
from furlkit.files.container import atomic
from furlkit.files.container.atomic import replacing, write_bytes

SLOW_WRITER = """
import sys, time
from pathlib import Path
from furlkit.files.container.atomic import replacing
with replacing(Path(sys.argv[1])) as stream:
    stream.write(b"half of it")
    stream.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def without_unnamed_files(monkeypatch):
    """As on a file system, or a system, that has no O_TMPFILE."""
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.fixture(params=["unnamed", "hidden"])
def path(request, tmp_path, monkeypatch) -> Path:
    """An older file, with and without unnamed files to write the new one into."""
    if request.param == "hidden":
        without_unnamed_files(monkeypatch)
    (tmp_path / "file").write_bytes(b"old")
    return tmp_path / "file"


def names(path: Path) -> list[str]:
    return [entry.name for entry in path.parent.iterdir()]


def test_new_bytes_take_the_place_of_the_old(path):
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(path) == ["file"]


def test_old_file_is_there_until_the_block_ends(path):
    with replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()])
def test_error_inside_leaves_the_old_file_alone(path, error):
    def fail():
        with replacing(path) as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_bytes() == b"old"
    assert names(path) == ["file"]


def test_missing_folders_are_made(tmp_path):
    write_bytes(tmp_path / "a" / "b" / "file", b"new")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"new"


@pytest.mark.parametrize(
    "flush, expected", [(True, ["file", "rename", "folder"]), (False, ["rename"])]
)
def test_the_file_is_flushed_before_the_rename_and_the_folder_after_it(
    path, monkeypatch, flush, expected
):
    """Without the folder, a machine that stops may forget the new name."""
    events, fsync, replace = [], os.fsync, os.replace

    def flush_handle(handle):
        same = os.path.samestat(os.fstat(handle), path.parent.stat())
        events.append("folder" if same else "file")
        fsync(handle)

    def rename(*names):
        events.append("rename")
        replace(*names)

    monkeypatch.setattr(os, "fsync", flush_handle)
    monkeypatch.setattr(os, "replace", rename)
    write_bytes(path, b"new", flush=flush)
    assert events == expected


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_disk_that_fails_leaves_the_old_file_alone(path, monkeypatch, call, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    message = f"{path}: cannot write: {os.strerror(number)}; the previous file is"
    with pytest.raises(DiskError, match=message):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(path) == ["file"]


def test_file_that_cannot_be_linked_is_copied(path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EXDEV, "no links here")

    monkeypatch.setattr(os, "link", fail)
    write_bytes(path, b"new" * 10**6)
    assert path.read_bytes() == b"new" * 10**6
    assert names(path) == ["file"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_folder_that_cannot_be_written_to(path, monkeypatch, number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    monkeypatch.setattr(atomic, "open", fail, raising=False)
    with pytest.raises(DiskError, match=f"{path}: cannot write: {os.strerror(number)}"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    with pytest.raises(DiskError, match="cannot write: Permission denied"):
        write_bytes(tmp_path / "locked" / "file", b"new")


def test_folder_and_device_are_not_replaced(tmp_path):
    with pytest.raises(DiskError, match=f"{tmp_path}: cannot write: it is a folder"):
        write_bytes(tmp_path, b"new")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DiskError, match="pipe: cannot write: it is no regular file"):
        write_bytes(tmp_path / "pipe", b"new")
    assert names(tmp_path / "pipe") == ["pipe"]


def test_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(DiskError, match="cannot write"):
        write_bytes(tmp_path / "file" / "x", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def has_unnamed_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (OSError, AttributeError):
        return False
    return True


def test_killed_while_it_writes_leaves_the_old_file_and_no_litter(
    tmp_path, environment
):
    if not has_unnamed_files(tmp_path):
        pytest.skip("this file system has no unnamed files")
    (tmp_path / "file").write_bytes(b"old")
    command = [sys.executable, "-c", SLOW_WRITER, str(tmp_path / "file")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout.readline() == b"writing\n"
        writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path / "file") == ["file"]


KILLED_AT_RENAME = """
import os, signal, sys
from pathlib import Path
from furlkit.files.container.atomic import write_bytes
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "hidden":
    del os.O_TMPFILE
write_bytes(Path(sys.argv[1]), b"new")
"""


@pytest.mark.parametrize("kind", ["unnamed", "hidden"])
def test_litter_of_a_killed_process_is_removed_by_the_next(tmp_path, environment, kind):
    path = tmp_path / "file"
    command = [sys.executable, "-c", KILLED_AT_RENAME, str(path), kind]
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    (litter,) = names(path)
    assert litter.startswith(".file.") and litter.endswith(".part")
    write_bytes(tmp_path / "other", b"new")  # Not its file, so not its litter.
    assert litter in names(path)
    write_bytes(path, b"new")
    assert sorted(names(path)) == ["file", "other"]


@pytest.mark.parametrize("make", [os.mkfifo, lambda p: os.symlink("/dev/full", p)])
def test_a_pipe_or_link_with_the_name_of_litter_is_left_alone(path, make):
    other = path.with_name(".file.0123456789ab.part")
    make(other)
    write_bytes(path, b"new")
    assert sorted(names(path)) == [other.name, "file"]


def test_what_a_live_process_writes_is_no_litter(path):
    with replacing(path) as slow:
        write_bytes(path, b"fast")
        slow.write(b"slow")
    assert path.read_bytes() == b"slow"
    assert names(path) == ["file"]


def test_hidden_files_of_others_are_no_litter(path):
    others = [".file.part", ".file.0123456789ab.parts", ".file.x.part", "file.part"]
    for name in others:
        path.with_name(name).write_bytes(b"")
    write_bytes(path, b"new")
    assert sorted(names(path)) == sorted(["file", *others])


def test_two_processes_at_once_leave_one_whole_file(tmp_path):
    """Each of four processes writes its own letter 30 times; none sees a mixture."""
    path, size = tmp_path / "file", 100_000
    children = []
    for letter in b"abcd":
        child = os.fork()
        if child == 0:
            for _ in range(30):
                write_bytes(path, bytes([letter]) * size)
                if len(set(path.read_bytes())) != 1:
                    os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(path.read_bytes()) == size
    assert names(path) == ["file"]
