import pytest

from furlkit.errors import InputError
from furlkit.files.metrics import read_metrics, write_metrics


def test_metrics_are_read_as_they_were_written(tmp_path):
    write_metrics(tmp_path / "m.json", {"b": [1, 2.5], "a": None})
    read = read_metrics(tmp_path / "m.json")
    assert read == {"a": None, "b": [1, 2.5], "kind": "metrics", "version": 2}


def test_text_is_sorted_and_ends_with_a_newline(tmp_path):
    write_metrics(tmp_path / "m.json", {"z": 1, "a": 1})
    text = (tmp_path / "m.json").read_text()
    assert text == '{\n "a": 1,\n "kind": "metrics",\n "version": 2,\n "z": 1\n}\n'


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is not a metrics file"),
        (b"{", "is not a metrics file"),
        (b"\xff\xfe\x00", "is not a metrics file"),
        (b"[" * 100_000, "is not a metrics file"),
        (b"[]", "is JSON, but not a metrics file"),
        (b'{"kind": "other"}', "is JSON, but not a metrics file"),
        (b'{"kind": "metrics"}', "format version is None"),
        (
            b'{"kind": "metrics", "version": 3}',
            "format version 3, this furlkit reads up to 2",
        ),
        (
            b'{"kind": "metrics", "version": 1, "a": NaN}',
            "'NaN' is not a finite number",
        ),
        (b'{"kind": "metrics", "version": 1, "a": 1, "a": 2}', "'a' occurs twice"),
    ],
)
def test_broken_metrics(tmp_path, content, message):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(InputError, match=f"m.json: .*{message}"):
        read_metrics(tmp_path / "m.json")


def test_metrics_of_version_1_are_read(tmp_path):
    (tmp_path / "m.json").write_text('{"kind": "metrics", "version": 1, "a": 3}')
    assert read_metrics(tmp_path / "m.json")["a"] == 3


def test_missing_metrics(tmp_path):
    with pytest.raises(InputError, match="m.json: no such file"):
        read_metrics(tmp_path / "m.json")
