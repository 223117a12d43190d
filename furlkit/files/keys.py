"""Keys of sites for masked sums: X25519, one pair of keys for a site and a run.

The only module that imports the package cryptography.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import FurlkitError, InputError
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.atomic import OWNER
from furlkit.files.container.header import canonical
from furlkit.files.container.read import Readable
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, open_facts
from furlkit.files.secret import check_mode

PUBLIC, SECRET = "public-key", "secret-key"
TENSOR, LENGTH = "X25519", 32
Words = Callable[[int], np.ndarray]  # The next words of a mask.


@dataclass(frozen=True)
class KeyFacts:
    """Owner of a key, and the run in which the key is valid."""

    client: ClientId
    run: str


@dataclass(frozen=True)
class Key(Record[KeyFacts]):
    """A public or secret key of 32 bytes."""

    key: bytes


def write_key(path: Path, kind: str, key: bytes, facts: KeyFacts) -> str:
    """Write a key; only the user may read a secret key. Return the content hash."""
    tensors = {TENSOR: np.frombuffer(key, np.uint8)}
    header = Provenance("mask key").header(kind, facts)
    return write(path, tensors, header, *([OWNER] if kind == SECRET else []))


def read_key(file: Readable, kind: str) -> Key:
    """Read a key of this kind; other users must not be able to read a secret key."""
    opened, facts = open_facts(file, kind, KeyFacts)
    if kind == SECRET:
        check_mode(opened.path)
    opened.expect(TENSOR, "uint8", LENGTH)
    return Key(opened.path, facts, opened.content, opened.tensors()[TENSOR].tobytes())


def new_secret() -> bytes:
    """Draw a secret key from the operating system's randomness."""
    return _x25519().X25519PrivateKey.generate().private_bytes_raw()


def public_of(secret: bytes) -> bytes:
    """Public key of a secret key."""
    private = _x25519().X25519PrivateKey.from_private_bytes(secret)
    return private.public_key().public_bytes_raw()


def point_of(public: bytes) -> int:
    """The point of a public key: X25519 ignores the top bit, and computes modulo p."""
    return (int.from_bytes(public, "little") % 2**255) % (2**255 - 19)


def roster_of(run: str, keys: Mapping[ClientId, bytes]) -> str:
    """Hash of the run and of the public keys by client; sites compare the hash."""
    listed = [[client, keys[client].hex()] for client in sorted(keys, key=client_order)]
    return sha256(canonical([run, listed]).encode()).hexdigest()


def mask_words(secret: bytes, other: Key, about: Any) -> Words:
    """Mask that two sites share: a function that returns the next words.

    HKDF-SHA256 of the X25519 secret with `about` (run, round, pair, ...) gives the key
    of a ChaCha20 stream. Every `about` is used once, so the nonce is zero.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = canonical(["furlkit masked sum 1", about]).encode()
    key = HKDF(SHA256(), LENGTH, None, info).derive(_shared(secret, other))
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return lambda count: np.frombuffer(stream.update(bytes(8 * count)), "<u8")


def _shared(secret: bytes, other: Key) -> bytes:
    x25519 = _x25519()
    try:
        public = x25519.X25519PublicKey.from_public_bytes(other.key)
        return x25519.X25519PrivateKey.from_private_bytes(secret).exchange(public)
    except ValueError as error:  # A point of small order gives a public secret.
        raise InputError(
            f"{other.path}: is no valid X25519 key of client {other.facts.client}; ask "
            "the site for the file of furlkit mask key"
        ) from error


def _x25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError as error:
        raise FurlkitError(
            "masked sums need the package cryptography; install furlkit[masks]"
        ) from error
    return x25519
