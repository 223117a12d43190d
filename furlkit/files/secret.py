"""Secret of a site: 32 random bytes in a file that stays at the site.

Draws that protect shared data come from the secret: which images a client shares, the
mixtures and masks of InstaHide, noise. A seed can be guessed, and is in the headers of
simulations.
"""

import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from furlkit.errors import DiskError, InputError
from furlkit.files.container.atomic import OWNER
from furlkit.files.opening import read_bytes

LENGTH = 32
ENDING = ".secret"  # Of the usual name of the file.
# Entry of the recorded options of files whose draws come from a secret.
DRAWN_BY, SECRET = "drawn-by", "secret"
# Fact of the site's files, and the beginning of the hash.
FINGERPRINT = "secret"
_PURPOSE = b"furlkit: fingerprint of the secret of a site\n"
# Value of the entry for draws of the operating system, which no file records.
SYSTEM = "operating system"


def read_secret(path: Path) -> int:
    """Read a secret as a number, to derive generators from; see `furlkit.randomness`."""
    content = read_bytes(path, LENGTH + 1)
    if len(content) != LENGTH:
        raise InputError(
            f"{path}: has {len(content)} bytes, expected a secret of {LENGTH}; restore the "
            "file. If the secret is lost, remove the file; a new secret makes files of an "
            "earlier run only with --force, and only if nobody has the old files"
        )
    check_mode(path)
    return int.from_bytes(content, "big")


def check_mode(path: Path) -> None:
    """Raise if other users may read a file with a secret."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise InputError(
            f"{path}: others may read the secret (mode {mode:o}, expected 600); run chmod "
            "600, and take a new secret if others have read the file"
        )


def fingerprint_of(path: Path) -> str:
    """Return 16 digits that identify a secret, for files that stay at the site.

    A secret has 256 random bits: nobody can try all secrets, so the hash reveals no bit
    of the secret. The hash does not leave the site, because it would connect files.
    """
    secret = read_secret(path).to_bytes(LENGTH, "big")
    return sha256(_PURPOSE + secret).hexdigest()[:16]


def origin_of_draws(run: str | None, parent: str | None) -> tuple[str, str]:
    """Last parts of the purpose of draws by a secret: run, and hash of the model."""
    return str(run), str(parent)


def site_secret(path: Path) -> int:
    """Read a secret; write a new secret first if the file is missing."""
    if not path.exists():
        with suppress(FileExistsError):
            _write_new(path)
    return read_secret(path)


def _write_new(path: Path) -> None:
    """Write random bytes; of two processes, one writes the file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER)
        with os.fdopen(handle, "wb") as stream:
            stream.write(os.urandom(LENGTH))
            stream.flush()
            os.fsync(stream.fileno())
        os.link(part, path)  # Fails if the secret exists, unlike a rename.
    except FileExistsError:
        raise
    except OSError as error:
        raise DiskError(
            f"{path}: cannot write: {error.strerror}; choose another --secret"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
