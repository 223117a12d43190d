"""Secrets of sites: files of one command are drawn by one secret.

Another secret would draw other rows or noise for the same images: two files of a round
reveal more than one. The fingerprint of the secret is in files that stay at the site.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.header import short
from furlkit.files.container.read import Container
from furlkit.files.container.write import record_of
from furlkit.files.published import published_by
from furlkit.files.secret import FINGERPRINT, fingerprint_of, site_secret

REMEDY = (
    "restore the secret; --force makes the files with a new secret, only if nobody has "
    "the old files"
)


def check_secret(secret: Path, outputs: Sequence[Path]) -> None:
    """Raise if an earlier run drew one of the outputs by another secret.

    A missing secret is no error: complete outputs need no draws.
    """
    if not secret.exists():
        return
    found = fingerprint_of(secret)
    for kept, expected in _recorded(outputs):
        if found != expected:
            _refuse(secret, found, kept, expected, REMEDY)


def open_secret(secret: Path, outputs: Sequence[Path]) -> None:
    """Write a missing secret; raise if an earlier run used another or a lost secret."""
    recorded = _recorded(outputs)
    if recorded and not secret.exists():
        kept, expected = recorded[0]
        raise InputError(
            f"{secret}: no such file; {kept} has the fingerprint {expected}; {REMEDY}"
        )
    site_secret(secret)
    check_secret(secret, outputs)


def is_secret_of(rows: Path, content: str, secret: Path) -> bool:
    """Return whether the record beside a file confirms the secret; raise if not.

    Without a record, or a record with the secret, nothing is known.
    """
    try:
        header = Container(record_of(rows)).header
    except FurlkitError:
        return False
    expected = header.facts.get(FINGERPRINT)
    if published_by(header) != content or not isinstance(expected, str):
        return False
    check_fingerprint(secret, expected, rows)
    return True


def check_fingerprint(secret: Path, expected: str, drawn: Path) -> None:
    """Raise if the secret does not have the fingerprint that a file records."""
    if (found := fingerprint_of(secret)) != expected:
        record, remedy = record_of(drawn), f"give the secret of {drawn}"
        _refuse(secret, found, record if record.exists() else drawn, expected, remedy)


def _recorded(outputs: Sequence[Path]) -> list[tuple[Path, str]]:
    """Files beside the outputs that name a secret, and the fingerprint."""
    files = [path for output in outputs for path in (output, record_of(output))]
    pairs = [(path, _fingerprint_in(path)) for path in files if path.exists()]
    return [(path, found) for path, found in pairs if found]


def _fingerprint_in(path: Path) -> str | None:
    """Fingerprint in a header; None in a broken file, and in files of earlier versions."""
    try:
        found = Container(path).header.facts.get(FINGERPRINT)
    except FurlkitError:
        return None
    return found if isinstance(found, str) else None


def _refuse(
    secret: Path, found: str, kept: Path, expected: str, remedy: str
) -> NoReturn:
    raise InputError(
        f"{secret}: the fingerprint of the secret is {found}, {kept} has "
        f"{short(expected)}; {remedy}"
    )
