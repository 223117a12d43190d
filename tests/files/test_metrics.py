import json
import math
from hashlib import sha256

import pytest

from furlkit.errors import InputError
from furlkit.files.metrics import read_metrics, write_metrics


def test_metrics_are_read_as_they_were_written(tmp_path):
    write_metrics(tmp_path / "m.json", {"b": [1, 2.5], "a": None})
    read = read_metrics(tmp_path / "m.json")
    content = read.pop("content")
    assert read == {"a": None, "b": [1, 2.5], "kind": "metrics", "version": 3}
    text = '{"a":null,"b":[1,2.5],"kind":"metrics","version":3}'
    assert content == sha256(text.encode()).hexdigest()


def test_text_is_sorted_and_ends_with_a_newline(tmp_path):
    write_metrics(tmp_path / "m.json", {"z": 1, "a": 1})
    text = (tmp_path / "m.json").read_text()
    assert list(json.loads(text)) == ["a", "content", "kind", "version", "z"]
    assert text.startswith('{\n "a": 1,\n') and text.endswith(' "z": 1\n}\n')


def test_a_number_that_is_not_finite_is_null(tmp_path):
    values = {"loss": math.nan, "by_client": {2: math.inf, 10: 1.5}}
    written = write_metrics(tmp_path / "m.json", values)
    assert written["by_client"] == {"2": None, "10": 1.5}
    assert read_metrics(tmp_path / "m.json") == written and written["loss"] is None
    assert "NaN" not in (tmp_path / "m.json").read_text()


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
            b'{"kind": "metrics", "version": 4}',
            "format version 4, this furlkit reads up to 3",
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


@pytest.mark.parametrize(
    "old, new",
    [
        ('"accuracy": 0.769', '"accuracy": 0.979'),
        ('"epochs": 20', '"epochs": 100'),
        ('"test": "ab"', '"test": "cd"'),
        ('"content": "ef"', '"content": "00"'),
        (' "content": "', ' "contents": "'),
    ],
)
def test_a_document_that_was_changed_is_refused(tmp_path, old, new):
    path = tmp_path / "m.json"
    known = {"data": {"test": "ab"}, "checkpoint": {"content": "ef"}}
    written = write_metrics(
        path, {"accuracy": 0.769, "options": {"epochs": 20}, **known}
    )
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    expected = written["content"][:12] if "contents" not in new else "None"
    with pytest.raises(InputError, match=f"m.json: was changed .*{expected}.*restore"):
        read_metrics(path)


def test_metrics_of_version_1_are_read(tmp_path):
    (tmp_path / "m.json").write_text('{"kind": "metrics", "version": 1, "a": 3}')
    assert read_metrics(tmp_path / "m.json")["a"] == 3


def test_missing_metrics(tmp_path):
    with pytest.raises(InputError, match="m.json: no such file"):
        read_metrics(tmp_path / "m.json")


def test_a_file_with_tensors_is_named_by_its_kind(world):
    with pytest.raises(InputError, match="is a checkpoint file, expected a metrics"):
        read_metrics(world.model)
