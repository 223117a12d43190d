"""Docstrings, help texts and messages contain nouns, not stand-ins for nouns."""

from pathlib import Path

import pytest

from tests import plain_english
from tests.plain_english import DOCSTRINGS, MESSAGES, PROSE

PROJECT = Path(__file__).parent.parent
MEAN = 0.06
HARD_SHARE = 0.01
FINISHED = ("README.md", "examples", "furlkit")


@pytest.mark.parametrize("kind", [DOCSTRINGS, MESSAGES, PROSE])
def test_sentences_of_finished_paths_are_plain(kind):
    paths = [PROJECT / path for path in FINISHED]
    assert all(path.exists() for path in paths)
    measured = [s for s in plain_english.sentences(*paths) if s.kind == kind]
    hard = plain_english.hard_sentences(measured)
    worst = sorted(measured, reverse=True)[:20]
    listed = "\n".join(f"{s.density:.2f} {s.place} {s.text}" for s in worst)
    assert plain_english.mean_density(measured) <= MEAN, listed
    assert len(hard) <= HARD_SHARE * len(measured), listed


def test_density_is_the_share_of_stand_ins():
    assert plain_english.density("What it says of those is so") == 4 / 7
    assert plain_english.density("Weights of the uploads in this round") == 0


def test_sentences_end_at_full_stops_and_empty_lines():
    long = "The server reads the uploads of every client in order"
    assert list(plain_english.split(f"{long}. Short one. {long}")) == [f"{long}.", long]
    assert list(plain_english.split(f"{long}\n\n  {long}")) == [long, long]
    assert not list(plain_english.split("z = x + 1 2 3 4 5 6 7 8"))


def test_python_texts_are_docstrings_and_literals():
    source = 'def f(x):\n    """Add."""\n    return f"{x} more", "plain"\n'
    assert list(plain_english.python_texts(source)) == [
        (DOCSTRINGS, 2, "Add."),
        (MESSAGES, 3, "X more"),
        (MESSAGES, 3, "plain"),
    ]


def test_markdown_texts_skip_code_tables_and_headings():
    source = "# Head\nfirst\nline\n\n| cell |\n```\ncode\n```\nlast\n"
    assert list(plain_english.markdown_texts(source)) == [
        (PROSE, 2, "first line"),
        (PROSE, 9, "last"),
    ]
