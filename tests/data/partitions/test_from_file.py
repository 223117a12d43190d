import json
from dataclasses import replace

import pytest

from furlkit.data.partitions.schemes import split
from furlkit.errors import InputError, UsageError
from tests.data.partitions.toy import chosen, dataset, rng


@pytest.mark.parametrize(
    "content", [{"1": [4], "0": [2, 1], "public": [0]}, [[2, 1], [4]]]
)
def test_split_from_json(tmp_path, content):
    path = tmp_path / "split.json"
    path.write_text(json.dumps(content))
    drawn = split(dataset([0] * 5), chosen("file", split_file=path), rng())
    assert [list(part) for part in drawn.indices] == [[1, 2], [4]]
    assert list(drawn.public) == ([0] if isinstance(content, dict) else [])


@pytest.mark.parametrize(
    "content, message",
    [
        ("[[0, 1], [5]]", "index 5, expected 0 to 4"),
        ("[[0, 1], [-1]]", "index -1"),
        ("[[0, 1], [1]]", "index 1 2 times"),
        ('{"0": [1], "2": [2]}', "'0', '2'"),
        ("[[0.5], [1]]", "client 0 .*integers"),
        ("[[[0]], [1]]", "client 0 .*integers"),
        ("[[[0], 1], [1]]", "client 0 .*integers"),
        ('["abc"]', "client 0 .*integers"),
        ("3", "type int"),
        ("[]", "no clients"),
        ('{"public": [1]}', "no clients"),
        ("[[1", "JSON"),
    ],
)
def test_broken_split_files_are_named(tmp_path, content, message):
    path = tmp_path / "split.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        split(dataset([0] * 5), chosen("file", split_file=path), rng())
    assert str(path) in str(caught.value)


def test_split_file_with_an_empty_client(tmp_path):
    path = tmp_path / "split.json"
    path.write_text("[[], [1]]")
    options = chosen("file", split_file=path)
    with pytest.raises(UsageError, match="split.json: client 0.* --min-size"):
        split(dataset([0] * 5), options, rng())
    drawn = split(dataset([0] * 5), replace(options, min_size=0), rng())
    assert [len(part) for part in drawn.indices] == [0, 1]


def test_split_file_may_repeat_with_replacement(tmp_path):
    path = tmp_path / "split.json"
    path.write_text("[[3, 3], [3]]")
    options = chosen("file", split_file=path, with_replacement=True)
    drawn = split(dataset([0] * 5), options, rng())
    assert [list(part) for part in drawn.indices] == [[3, 3], [3]]
