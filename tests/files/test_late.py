"""Inputs that become visible some time after they were written."""

import time

import pytest

from furlkit.errors import UsageError
from furlkit.files.late import VARIABLE, wait_for


@pytest.fixture
def limit(monkeypatch):
    return lambda seconds: monkeypatch.setenv(VARIABLE, str(seconds))


@pytest.fixture
def pauses(monkeypatch):
    """Pauses so far, on a clock that only pauses move; a test may act in a pause."""
    lengths = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(lengths))
    monkeypatch.setattr(time, "sleep", lengths.append)
    return lengths


def test_a_late_file_is_waited_for(tmp_path, limit, pauses, monkeypatch):
    limit(30)
    path = tmp_path / "late"

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            path.touch()

    monkeypatch.setattr(time, "sleep", sleep)
    assert wait_for([str(path)]) == sum(pauses) and len(pauses) == 3


def test_the_wait_ends(tmp_path, limit, pauses):
    limit(2.1)
    waited = wait_for([str(tmp_path / "never")])
    assert waited == sum(pauses) and 2.1 <= waited < 3.1


def test_nothing_is_waited_for_by_default(tmp_path, monkeypatch, pauses):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert wait_for([str(tmp_path / "never")]) == 0 and not pauses
    (tmp_path / "there").touch()
    assert wait_for([str(tmp_path / "there")]) == 0


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_limit_must_be_a_number(tmp_path, limit, text):
    limit(text)
    with pytest.raises(UsageError, match=f"{VARIABLE}={text}"):
        wait_for([str(tmp_path / "never")])
