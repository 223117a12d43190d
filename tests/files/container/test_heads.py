"""A reader of many headers returns the headers and the errors of Container."""

import random
from dataclasses import replace

import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.container import heads
from furlkit.files.container.header import Header
from furlkit.files.container.heads import Head, Heads
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from tests.files.mutate import bytes_changed

HEADER = Header("checkpoint", "test", {"a": 1.5}, 3, {"model": "f" * 64}, {"round": 2})
TENSORS = {"B.first": np.arange(3.0), "encoder.x": np.zeros((2, 2), np.float32)}


def outcome(read, path):
    """Header and sizes, or the message of the error."""
    try:
        found = read(path)
    except InputError as error:
        return str(error)
    if isinstance(found, Container):
        return Head(found.header, found.body_start, found.size)
    return found


@pytest.fixture
def uploads(tmp_path):
    """Files with equal tables and different facts, so with padding of different lengths."""
    paths = [tmp_path / f"{k}.safetensors" for k in range(9)]
    for k, path in enumerate(paths):
        write(path, TENSORS, replace(HEADER, facts={"client": "ü" * k, "round": k}))
    return paths


def test_headers_equal_those_of_containers(uploads):
    reader = Heads()
    assert [reader.read(p) for p in uploads] == [outcome(Container, p) for p in uploads]


def test_an_equal_table_is_parsed_once(uploads, monkeypatch):
    opened = []
    monkeypatch.setattr(heads, "Container", lambda p: opened.append(p) or Container(p))
    reader = Heads()
    for path in uploads:
        reader.read(path)
    assert opened == uploads[:1]


def test_an_equal_table_with_another_body_is_refused(uploads):
    reader = Heads()
    reader.read(uploads[0])
    with uploads[1].open("ab") as stream:
        stream.write(b"12345678")
    with pytest.raises(InputError, match="1.safetensors"):
        reader.read(uploads[1])


@pytest.mark.parametrize("seed", range(300))
def test_changed_bytes_give_the_outcome_of_a_container(uploads, seed):
    reader, rng = Heads(), random.Random(seed)
    reader.read(uploads[0])
    raw, other = uploads[1].read_bytes(), uploads[8].read_bytes()
    uploads[1].write_bytes(bytes_changed(raw, rng, other))
    assert outcome(reader.read, uploads[1]) == outcome(Container, uploads[1])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"pt"', b'"np"'),
        (b'"pt"', b'"pt" '),
        (b'"pt"', b'"pt","furlkit":"x"'),
        (b'"pt"', b'"pt","a":"b"'),
        (b'"furlkit":"{', b'"furlkit":"\\ud800{'),
        (b'"furlkit":"{', b'"furlkit":"\xff{'),
        (b'"furlkit":"{', b'"furlkit":"\\u007b'),
        (b'"furlkit":"{', b'"furlkit":"\0{'),
        (b'"furlkit":"{', b'"furlkit":"",'),
        (b"B.first", b"B/first"),
    ],
)
def test_another_header_gives_the_outcome_of_a_container(uploads, old, new):
    reader = Heads()
    reader.read(uploads[0])
    raw = uploads[1].read_bytes()
    length = int.from_bytes(raw[:8], "little")
    head = raw[8 : 8 + length].replace(old, new, 1)
    uploads[1].write_bytes(len(head).to_bytes(8, "little") + head + raw[8 + length :])
    assert outcome(reader.read, uploads[1]) == outcome(Container, uploads[1])
