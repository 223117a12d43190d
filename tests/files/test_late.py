"""Inputs that become visible some time after they were written."""

import threading
import time

import pytest

from furlkit.errors import UsageError
from furlkit.files.late import VARIABLE, wait_for


@pytest.fixture
def limit(monkeypatch):
    return lambda seconds: monkeypatch.setenv(VARIABLE, str(seconds))


def test_a_late_file_is_waited_for(tmp_path, limit):
    limit(30)
    path = tmp_path / "late"
    timer = threading.Timer(0.3, path.touch)
    timer.start()
    assert 0.3 <= wait_for([str(path)]) < 10


def test_the_wait_ends(tmp_path, limit):
    limit(0.1)
    begin = time.monotonic()
    wait_for([str(tmp_path / "never")])
    assert 0.1 <= time.monotonic() - begin < 5


def test_nothing_is_waited_for_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert wait_for([str(tmp_path / "never")]) < 0.1
    (tmp_path / "there").touch()
    assert wait_for([str(tmp_path / "there")]) == 0


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_limit_must_be_a_number(tmp_path, limit, text):
    limit(text)
    with pytest.raises(UsageError, match=f"{VARIABLE}={text}"):
        wait_for([str(tmp_path / "never")])
