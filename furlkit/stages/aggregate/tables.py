"""aggregate: rows and similarities of clients; header first, tensors later."""

from pathlib import Path

from furlkit.files.features import Features, features_of, open_table
from furlkit.files.similarity import Similarity, similarity_of
from furlkit.inputs.uploads import Sent

ROWS = {"features": "rows", "similarity": "matrix"}


def open_rows(path: Path, kind: str = "features") -> Sent:
    """Open a table of features or similarities, by header alone."""
    opened, facts = open_table(path, kind, ROWS[kind])
    return Sent(opened.path, opened.content, opened, facts)


def examined_rows(sent: Sent, by: str | None, remember: bool) -> Features:
    """Read the rows and compare the hash `by` of the bytes read."""
    tensors = sent.opened.verified_tensors(by or "check", remember)
    return features_of(sent.opened, sent.facts, tensors)


def examined_similarity(sent: Sent, by: str | None, remember: bool) -> Similarity:
    """Read the cosines and compare the hash `by`; copy files that may change."""
    return similarity_of(sent.opened, sent.facts, by or "check", private=remember)
