import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from furlkit.errors import DiskError, InputError
from furlkit.files.journal import Journal


def lines(journal: Journal) -> list:
    found = [json.loads(line) for line in journal.path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "time"} for line in found]


def test_every_line_has_the_time(tmp_path):
    journal, before = Journal(tmp_path / "c.st"), datetime.now(UTC)
    journal.write({"step": 1})
    (line,) = journal.read()
    time = datetime.fromisoformat(line["time"])
    assert abs(time - before) < timedelta(minutes=1)


def test_a_new_training_forgets_the_old_one(tmp_path):
    journal = Journal(tmp_path / "c.st")
    journal.write({"event": "start"})
    journal.rewind(0)
    assert journal.read() == []


def test_lines_are_appended(tmp_path):
    journal = Journal(tmp_path / "client_0.safetensors")
    journal.rewind(0)
    journal.write({"step": 1, "loss": 0.5})
    journal.write({"step": 2, "loss": 0.25})
    assert journal.path == tmp_path / "client_0.log.jsonl"
    assert lines(journal) == [{"loss": 0.5, "step": 1}, {"loss": 0.25, "step": 2}]


def test_what_is_done_again_is_forgotten(tmp_path):
    journal = Journal(tmp_path / "c.safetensors")
    for step in range(1, 6):
        journal.write({"step": step})
    journal.rewind(3)
    assert lines(journal) == [{"step": 1}, {"step": 2}, {"step": 3}]


@pytest.mark.parametrize("rest", [b'{"step": 2', b"5\n", b"\xff\xfe\n", b"[[\n"])
def test_a_line_that_was_cut_short_ends_the_usable_part(tmp_path, rest):
    journal = Journal(tmp_path / "c.safetensors")
    journal.path.write_bytes(b'{"step": 1}\n' + rest)
    journal.rewind(9)
    journal.write({"step": 2})
    assert lines(journal) == [{"step": 1}, {"step": 2}]


def test_a_file_of_the_user_is_not_replaced(tmp_path):
    journal = Journal(tmp_path / "c.safetensors")
    journal.path.write_text("a day's work\n")
    with pytest.raises(InputError, match="c.log.jsonl: exists and is no journal"):
        journal.rewind(0)
    assert journal.path.read_text() == "a day's work\n"
    journal.path.write_text("")
    journal.rewind(0)


def test_two_outputs_never_share_a_journal(tmp_path):
    names = ("client.0", "client.1", "client", "client.0.safetensors.1")
    assert len({Journal(tmp_path / name).path for name in names}) == len(names)


def test_journal_that_cannot_be_written(tmp_path):
    journal = Journal(tmp_path / "c.safetensors")
    journal.path.mkdir()
    with pytest.raises(DiskError, match="c.log.jsonl: cannot write: it is a folder"):
        journal.write({"step": 1})


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_a_journal_never_writes_into_something_else(tmp_path, kind):
    journal, other = Journal(tmp_path / "c.safetensors"), tmp_path / "other"
    if kind == "pipe":
        os.mkfifo(journal.path)
    else:
        journal.path.symlink_to(other)
    if kind == "link":
        other.write_text("mine")
    with pytest.raises(DiskError, match=f"c.log.jsonl: cannot write.*{kind[-4:]}"):
        journal.write({"step": 1})
    assert not other.exists() or other.read_text() == "mine"
