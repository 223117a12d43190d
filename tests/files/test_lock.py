"""Locks beside outputs: one process at a time, and the dead do not count."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from furlkit.errors import DiskError, TooEarlyError
from furlkit.files.lock import holder, holding, lock_path

HOLD = """
import sys, time
from pathlib import Path
from furlkit.files.lock import holding
with holding(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def other(environment):
    """Another process that holds the lock of an output."""
    started = []

    def hold(output: Path) -> subprocess.Popen:
        command = [sys.executable, "-c", HOLD, str(output)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()


def test_a_lock_is_gone_with_its_folder_when_nothing_was_written(tmp_path):
    output = tmp_path / "a" / "b" / "x.st"
    with holding(output):
        assert holder(output)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_an_output_stays(tmp_path):
    output = tmp_path / "a" / "x.st"
    with holding(output):
        output.write_text("x")
    assert [p.name for p in output.parent.iterdir()] == ["x.st"]


def test_a_second_process_is_told_who_holds_it(tmp_path, other):
    output = tmp_path / "x.st"
    process = other(output)
    match = f"process {process.pid} on "
    with pytest.raises(TooEarlyError, match=match) as refused, holding(output):
        pass
    assert refused.value.exit_code == 75
    assert holder(output).startswith(f"process {process.pid} on ")


def test_the_lock_of_a_dead_process_does_not_count(tmp_path, other):
    output = tmp_path / "x.st"
    process = other(output)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert lock_path(output).exists() and holder(output) is None
    with holding(output):
        assert holder(output) == f"process {os.getpid()} on {os.uname().nodename}"
    assert not lock_path(output).exists()


def test_two_outputs_have_two_locks(tmp_path, other):
    other(tmp_path / "x.st")
    with holding(tmp_path / "y.st"):
        pass


def test_many_processes_never_hold_it_at_once(tmp_path, environment):
    code = """
import sys, time
from pathlib import Path
from furlkit.errors import DiskError, TooEarlyError
from furlkit.files.lock import holding
output, log = Path(sys.argv[1]), sys.argv[2]
for _ in range(200):
    try:
        with holding(output):
            with open(log, "a") as stream:
                stream.write("in\\n")
                stream.flush()
                stream.write("out\\n")
    except TooEarlyError:
        pass
"""
    words = [sys.executable, "-c", code, str(tmp_path / "x.st"), str(tmp_path / "log")]
    processes = [subprocess.Popen(words, env=environment) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    lines = (tmp_path / "log").read_text().split()
    assert lines == ["in", "out"] * (len(lines) // 2) and lines


def test_a_process_that_looks_does_not_stop_one_that_starts(tmp_path, environment):
    """status looks at locks all the time."""
    code = """
import sys, time
from pathlib import Path
from furlkit.files.lock import holder
print("looking", flush=True)
while True:
    holder(Path(sys.argv[1]))
"""
    output = tmp_path / "a" / "x.st"
    words = [sys.executable, "-c", code, str(output)]
    looking = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
    try:
        assert looking.stdout.readline() == b"looking\n"
        for _ in range(400):
            with holding(output):
                pass
    finally:
        looking.kill()
        looking.communicate()


def test_a_process_stopped_while_it_looks_does_not_stop_one_that_starts(tmp_path):
    """A busy system may stop a process that looks for longer than a moment."""
    output = tmp_path / "x.st"
    with lock_path(output).open("wb") as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        timer = threading.Timer(1, fcntl.flock, [looks, fcntl.LOCK_UN])
        timer.start()
        with holding(output):
            assert holder(output) == f"process {os.getpid()} on {os.uname().nodename}"
        timer.join()


def test_a_process_that_looks_for_ever_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("furlkit.files.lock.PATIENCE", 0.05)
    output = tmp_path / "x.st"
    with lock_path(output).open("wb") as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        with pytest.raises(TooEarlyError, match="another process"), holding(output):
            pass


def test_a_folder_that_cannot_be_written_is_left_to_the_writer(tmp_path):
    (tmp_path / "file").write_text("x")
    with holding(tmp_path / "file" / "x.st"):
        assert holder(tmp_path / "file" / "x.st") is None


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "text"])
def test_a_lock_never_empties_a_file_of_the_user(tmp_path, kind):
    output, thesis = tmp_path / "x.st", tmp_path / "thesis.tex"
    thesis.write_text("chapter 1")
    if kind == "hard link":
        lock_path(output).hardlink_to(thesis)
    elif kind == "text":
        lock_path(output).write_text("chapter 1")
    else:
        lock_path(output).symlink_to(thesis if kind == "link" else tmp_path / "new")
    with pytest.raises(DiskError, match=r"\.x\.st\.lock.*remove it"), holding(output):
        pass
    assert thesis.read_text() == "chapter 1" and not (tmp_path / "new").exists()
    assert os.path.lexists(lock_path(output)) and holder(output) is None


@pytest.mark.parametrize("kind", ["pipe", "link to /dev/full", "folder"])
def test_a_lock_that_is_no_file_is_refused_and_not_waited_for(tmp_path, refused, kind):
    output = tmp_path / "p.safetensors"
    lock = lock_path(output)
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to("/dev/full")
    words = lock, kind.split()[0], "remove it"
    refused(tmp_path, 74, words, "partition", "--data", "digits", "--clients", 2,
            "-o", output)  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_lock_of_another_user_is_refused_unless_it_is_empty(tmp_path):
    output = tmp_path / "x.st"
    lock = lock_path(output)
    lock.write_text('{"host": "a", "process": 1}')
    os.chown(lock, 12345, 12345)
    with pytest.raises(DiskError, match="another user"), holding(output):
        pass
    lock.write_text("")
    with holding(output):
        assert holder(output) == f"process {os.getpid()} on {os.uname().nodename}"


def test_attempts_to_make_a_lock_are_bounded(tmp_path, monkeypatch):
    def lose(*_arguments):
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", lose)
    with pytest.raises(TooEarlyError, match="removed"), holding(tmp_path / "x.st"):
        pass
