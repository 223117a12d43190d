"""Signatures by OpenSSH, beside a file: FILE.sig.

ssh-keygen signs a statement about the file, a line of about 200 bytes. The statement
has the content hash, which covers the header and every tensor, and repeats the run, the
round and the client of the header for people. A signature is valid for a file if the
bytes have the content hash of the header: callers compare the hash with the bytes that
they use.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from furlkit.errors import FurlkitError, InputError
from furlkit.files.clients import EXPECTED, is_client
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import Header, canonical, short
from furlkit.files.container.read import Container
from furlkit.files.opening import read_bytes

PROGRAM, NAMESPACE, ENDING = "ssh-keygen", "furlkit", ".sig"
SERVER = "server"  # The signer of files that name no client.
CLIENT = "client"  # Signers of files that clients share with each other.
LONGEST_SIGNATURE, LONGEST_SIGNERS = 64 * 2**10, 16 * 2**20
_REMEDY = "install OpenSSH 8.2 or newer"


def signature_of(path: Path) -> Path:
    """Path of a file's signature."""
    return path.with_name(path.name + ENDING)


def signer_of(path: Path, facts: Mapping[str, Any]) -> str:
    """Name of the signer: the client in the facts of a header, otherwise the server."""
    client = facts.get("client")
    if client is None:
        return SERVER
    if not is_client(client):  # A pattern such as * must not match other signers.
        raise InputError(
            f"{path}: is of a client called {short(client)}; expected {EXPECTED}"
        )
    return str(client)


def statement(header: Header) -> str:
    """The line to sign."""
    known = {name: header.facts.get(name) for name in ("run", "round", "client")}
    said = {name: value for name, value in known.items() if value is not None}
    return f"{canonical({'content': header.content, 'kind': header.kind, **said})}\n"


def sign(files: Sequence[Container], key: Path) -> list[Path]:
    """Write the signatures of files with one call of ssh-keygen: one passphrase."""
    paths = [signature_of(file.path) for file in files]
    with TemporaryDirectory() as folder:
        said = [Path(folder, str(number)) for number in range(len(files))]
        for each, file in zip(said, files, strict=True):
            each.write_text(statement(file.header))
        _sign(said, key)
        for path, each in zip(paths, said, strict=True):
            # Not flushed: after a crash of the machine, the user signs again.
            write_bytes(path, signature_of(each).read_bytes(), flush=False)
    return paths


def _sign(statements: Sequence[Path], key: Path) -> None:
    words = ("-q", "-Y", "sign", "-n", NAMESPACE, "-f", key, *statements)
    # On a terminal, ssh-keygen asks for a touch of a hardware key on stderr.
    stderr = None if sys.stderr.isatty() else subprocess.PIPE
    done = _run(*words, stderr=stderr, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise InputError(f"--key {key}: {PROGRAM} does not sign: {_last_words(done)}")


class Signers:
    """Names and public keys of an allowed_signers file of OpenSSH.

    `names`: the names in the file; None if the file has patterns.
    """

    def __init__(self, path: Path):
        self.path = path
        text = read_bytes(path, LONGEST_SIGNERS).decode(errors="replace")
        lines = (line.strip() for line in text.splitlines())
        fields = (_first_field(line) for line in lines if line and line[0] != "#")
        names = {name for field in fields for name in field.split(",")}
        patterns = any(re.search("[*?!]", name) for name in names)
        self.names = None if patterns else names
        _check_program()

    def check_name(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Refuse the file of a client without a key."""
        name = signer_of(path, facts)
        if self.names is not None and name not in self.names:
            who = _words_for(name)
            raise InputError(f"{path}: is of {who}, who has no key in {self.path}")

    def check(self, file: Container) -> None:
        """Refuse a file without a valid signature of the client in the header.

        The signature covers the content hash of the header. Only a comparison of the
        bytes with this hash makes the signature valid for the file.
        """
        path, header = file.path, file.header
        self.check_name(path, header.facts)
        name, beside = signer_of(path, header.facts), signature_of(path)
        who = _words_for(name)
        try:
            signature = read_bytes(beside, LONGEST_SIGNATURE)
        except FurlkitError as error:
            raise InputError(f"{path}: has no signature of {who}: {error}") from error
        # A copy, because the file beside the upload may become a pipe.
        with NamedTemporaryFile() as copy:
            copy.write(signature)
            copy.flush()
            words = ("-Y", "verify", "-n", NAMESPACE, "-f", self.path, "-I", name)
            said = statement(header).encode()
            done = _run(*words, "-s", copy.name, input=said, stderr=subprocess.PIPE)
        if done.returncode:
            raise InputError(
                f"{path}: {beside} is no valid signature of {who} by {self.path}: "
                f"{_last_words(done)}"
            )


def _first_field(line: str) -> str:
    """Principals of a line; the field may have quotes."""
    match = re.match(r'"([^"]*)"|(\S+)', line)
    return (match[1] or match[2]) if match else ""


def _check_program() -> None:
    """Raise if ssh-keygen does not know -Y verify."""
    done = _run("-Y", "verify", stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if b"option" in done.stderr:
        raise FurlkitError(f"{PROGRAM}: is too old for signatures; {_REMEDY}")


def _run(*words: Any, **how: Any) -> subprocess.CompletedProcess:
    command = [PROGRAM, *map(str, words)]
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, **how)
    except OSError as error:
        reason = error.strerror or error
        raise FurlkitError(f"{PROGRAM}: cannot run: {reason}; {_REMEDY}") from error


def _words_for(signer: str) -> str:
    return "the server" if signer == SERVER else f"client {signer}"


def _last_words(done: subprocess.CompletedProcess) -> str:
    """The last line of ssh-keygen."""
    said = (done.stderr or b"").decode(errors="replace").strip().splitlines()
    return said[-1] if said else "no such name, or another key"


def check_received(
    signers: Path, files: Iterable[tuple[Path, str]]
) -> dict[Path, Container]:
    """Check the signer, the signature and every byte of received files.

    `files`: path and declared signer, SERVER or CLIENT. Read the returned containers: a
    file opened again by its name may be another file.
    """
    allowed, received = Signers(signers), {}
    for path, signer in dict.fromkeys(files):
        file = Container(path)
        _check_signer(file, signer)
        allowed.check(file)
        file.verify()
        file.by = "content"
        received[path] = file
    return received


def _check_signer(file: Container, signer: str) -> None:
    """Refuse a file of a client in place of the server's, and the reverse."""
    name = signer_of(file.path, file.header.facts)
    if signer == SERVER and name != SERVER:
        raise InputError(
            f"{file.path}: is of client {name}, expected a file of the server; a "
            "signature of a client is not enough, get the file from the server"
        )
    # The file names no client, or a client that is called like the server.
    if signer == CLIENT and name == SERVER:
        raise InputError(
            f"{file.path}: is a file of the server and names no client, expected a file "
            "that a client has made and signed"
        )
