import re

import pytest

from furlkit.errors import InputError
from furlkit.files.container.header import (
    VERSION,
    Header,
    canonical,
    parse_header,
    parse_strict,
    short,
    with_article,
)
from furlkit.files.kinds import KINDS


def test_header_is_read_as_it_was_written():
    header = Header("checkpoint", "init", {"x": [1, 2.5]}, 7, {"m": "a"}, {"r": None})
    assert parse_header("f", header.to_json()) == header


def test_canonical_text():
    assert canonical({"b": [1, None], "a": 0.1}) == '{"a":0.1,"b":[1,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"a": 1, "a": 1}', "the key 'a' occurs twice"),
        ('{"x": {"a": 1, "b": 2, "a": 3}}', "the key 'a' occurs twice"),
        ('{"a": NaN}', "'NaN' is not a finite number"),
        ('{"a": -Infinity}', "'-Infinity' is not a finite number"),
        ('{"a": 1e999}', "'1e999' is not a finite number"),
        ("[" * 65 + "]" * 65, "nested more than 64 levels deep"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64 levels deep"),
        (b"\xff\xfe{", "codec can't decode"),
        ('{"a": }', "Expecting value"),
    ],
)
def test_liberties_that_are_not_taken(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_strict(text)


def changed(**words):
    header = {"kind": "private", "stage": "x", "version": VERSION, **words}
    return canonical({"content": "0" * 64, **header})


@pytest.mark.parametrize(
    "text, message",
    [
        (changed(version=VERSION + 1), "format version 3, this furlkit reads up to 2"),
        (changed(version=3, invented_later=1), "install a newer furlkit"),
        (changed(version=0), "the format version is 0"),
        (changed(version="1"), "the format version is '1'"),
        (changed(version=True), "the format version is True"),
        (changed(kind="secret"), "is of the unknown kind 'secret'"),
        (changed(kind=["private"]), "is of the unknown kind ['private']"),
        (changed(facts=[]), "header entry 'facts' is []; expected dict"),
        (changed(options=None), "header entry 'options' is None"),
        (changed(inputs="x"), "header entry 'inputs' is 'x'"),
        (changed(stage=1), "header entry 'stage' is 1; expected str"),
        (changed(content="0" * 63), "has no readable content hash"),
        (changed(content="\ud800" * 64), "has no readable content hash"),
        (changed(more=1), "the furlkit header is broken"),
        ('{"kind": "private"}', "the furlkit header is broken"),
        ("[]", "the furlkit header is broken"),
        ('[["kind", "private"], ["stage", "x"]]', "not a JSON object"),
        ('"text"', "the furlkit header is broken"),
        ("[" * 100_000, "the furlkit header is broken"),
        ('{"kind": NaN}', "'NaN' is not a finite number"),
        ("", "the furlkit header is broken"),
    ],
)
def test_broken_headers(text, message):
    with pytest.raises(InputError) as caught:
        parse_header("some/file", text)
    assert str(caught.value).startswith("some/file: ")
    assert message in str(caught.value)


def test_every_kind_is_known():
    for kind in KINDS:
        assert parse_header("f", changed(kind=kind)).kind == kind


def test_long_values_are_shown_short():
    assert short("x" * 100) == "'" + "x" * 56 + "..."
    assert short([1]) == "[1]"


def test_kinds_have_their_article():
    told = {kind: with_article(kind).split()[0] for kind in KINDS}
    assert {kind for kind, article in told.items() if article == "an"} == {
        "encoder", "ensemble",
    }  # fmt: skip
    assert with_article("checkpoint") == "a checkpoint"
