"""sign: signatures of uploads and global models, by ssh-keygen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from furlkit.errors import UsageError
from furlkit.files.container.read import Container
from furlkit.files.opening import read_bytes
from furlkit.files.signatures import LONGEST_SIGNATURE as LONGEST
from furlkit.files.signatures import sign, signature_of, signer_of, statement
from furlkit.reports.outgoing import check_may_leave

KEY = Path("~/.ssh/id_ed25519")


def run(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sign files that may leave, or print the statement about a file."""
    files = [_open(Path(path)) for path in values["paths"]]
    if values["statement"]:
        if len(files) > 1:
            raise UsageError("--statement: describes a single file")
        text = statement(files[0].header)
        yield text.rstrip("\n"), {"statement": text}
        return
    for file in files:
        _check_place(signature_of(file.path))
    if not values["dry_run"]:
        sign(files, (values["key"] or KEY).expanduser())
    for file in files:
        path, signer = signature_of(file.path), _signer(file)
        data = {"signature": str(path), "signer": signer, "content": file.content}
        yield f"{path}: signature of {signer}", data


def _open(path: Path) -> Container:
    opened = Container(path)
    check_may_leave(path, opened.header)
    _signer(opened)  # Raises for an invalid name.
    return opened


def _check_place(signature: Path) -> None:
    """Refuse to replace a file that is no signature."""
    if signature.exists() and b"SSH SIGNATURE" not in read_bytes(signature, LONGEST):
        raise UsageError(
            f"{signature}: exists and is no signature of OpenSSH; move the file, because "
            "sign writes the signature there"
        )


def _signer(file: Container) -> str:
    return signer_of(file.path, file.header.facts)
