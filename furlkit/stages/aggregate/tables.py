"""aggregate: rows and similarities of clients, opened by their header and then read."""

from pathlib import Path

from furlkit.files.features import Features, features_of, open_table
from furlkit.files.similarity import Similarity, similarity_of
from furlkit.inputs.uploads import Sent

ROWS = {"features": "rows", "similarity": "matrix"}


def open_rows(path: Path, kind: str = "features") -> Sent:
    """A table of features or similarities, by its header alone."""
    opened, facts = open_table(path, kind, ROWS[kind])
    return Sent(opened.path, opened.content, opened, facts)


def examined_rows(sent: Sent, by: str | None, remember: bool) -> Features:
    """The rows, after the hash `by` of these very bytes was compared."""
    tensors = sent.opened.verified_tensors(by or "check", remember)
    return features_of(sent.opened, sent.facts, tensors)


def examined_similarity(sent: Sent, by: str | None, remember: bool) -> Similarity:
    """The cosines, after the hash `by` was compared; in private if others may write."""
    return similarity_of(sent.opened, sent.facts, by or "check", private=remember)
