"""Masks that a site has used: a file beside the secret key.

Two different uploads with one mask reveal the difference of the uploads. The sum of all
sites minus a sum without a site is the model of this site; two sums with different weights
have two sites' models, too. So a site masks one upload in a round, and for the same sites
with the same weights as in the round before.

`mask key` writes the file together with the secret key. The first line names the key, the
site and the run; every further line is a use.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.atomic import OWNER, write_bytes
from furlkit.files.container.header import canonical
from furlkit.files.keys import Key, KeyFacts, public_of
from furlkit.files.opening import read_bytes

LONGEST = 16 * 2**20


@dataclass(frozen=True)
class Use:
    """A masked upload: round, hashes of model, upload and public keys, and weights."""

    round: int
    parent: str
    upload: str
    roster: str
    weights: str


def used_of(secret: Path) -> Path:
    """Path of the file beside a secret key."""
    return secret.with_name(f"{secret.name}.used")


def start_list(secret: Path, key: bytes, facts: KeyFacts, renew: bool) -> None:
    """Write the list of a new secret key; a key of the same site and run keeps the uses.

    Otherwise a server could ask for new keys, and for the masked uploads of a round again.
    """
    path = used_of(secret)
    for other in path.parent.glob("*.used"):
        if other != path and _list_of(other, facts) is not None:
            raise InputError(
                f"{other}: is the list of another key of client {facts.client} in this "
                "run; a site with two keys can mask a round twice. Use that key, or give "
                "its --secret-out and --renew"
            )
    uses = _list_of(path, facts)
    if uses is None and not renew and path.exists():
        raise InputError(
            f"{path}: exists and is no list of client {facts.client} in run {facts.run}; "
            "a key without its list is refused. Choose another --secret-out; --renew "
            "replaces the file"
        )
    _write(secret, key, facts, uses or [])


def _list_of(path: Path, facts: KeyFacts) -> list[Use] | None:
    """Uses in a list of this site and run; None for another list or a broken list."""
    try:
        about, uses = _read(path)
    except FurlkitError:
        return None
    return uses if about.items() >= asdict(facts).items() else None


def check_unused(secret: Key, use: Use, new_roster: bool) -> None:
    """Refuse another upload in a round, and other keys or weights than in the last."""
    path, uses = used_of(secret.path), _uses_of(secret)
    if use in uses:  # Gives the same bytes.
        return
    if any(earlier.round == use.round for earlier in uses):
        raise InputError(
            f"{path}: round {use.round} has masked another upload, or with other keys, "
            "another model or other --weights; two masked files of a round can reveal "
            "the model of a site. If the masked file has not left this site, remove the "
            "line of the round; otherwise start a new run: furlkit init --from"
        )
    if uses and uses[-1].weights != use.weights:
        raise InputError(
            f"{path}: round {uses[-1].round} had --weights {uses[-1].weights}, this round "
            f"has {use.weights}; a sum with equal weights and a sum with other weights can "
            f"reveal the models of sites. Give --weights {uses[-1].weights}, at every site"
        )
    if uses and uses[-1].roster != use.roster and not new_roster:
        raise InputError(
            f"{path}: round {uses[-1].round} had other keys ({uses[-1].roster[:16]}) than "
            f"this round ({use.roster[:16]}); a sum with a site and a sum without the "
            "site can reveal the model of the site. Give the same keys, or ask the site "
            "that joins or leaves, not the server, and give --new-roster"
        )


def note_use(secret: Key, use: Use) -> None:
    """Add a use to the list."""
    uses = _uses_of(secret)
    if use not in uses:
        _write(secret.path, secret.key, secret.facts, [*uses, use])


def _uses_of(secret: Key) -> list[Use]:
    """Uses in the list of a secret key."""
    path = used_of(secret.path)
    if not path.exists():
        raise InputError(
            f"{path}: no such file; mask key writes this list of used masks beside the "
            "secret key, and a copy of the key has no list. Use the key and the list that "
            "mask key wrote. If the list is lost, make new keys with mask key --renew, "
            "and mask no round again"
        )
    about, uses = _read(path)
    if about.get("key") != public_of(secret.key).hex():
        raise InputError(
            f"{path}: is the list of another secret key than {secret.path}; use the key "
            "and the list that mask key wrote together"
        )
    return uses


def _read(path: Path) -> tuple[dict[str, Any], list[Use]]:
    try:
        text = read_bytes(path, LONGEST).decode()
        about, *uses = [json.loads(line) for line in text.splitlines()]
        return {**about}, [Use(**line) for line in uses]
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}: is no list of used masks; restore the file, or make new keys with "
            "mask key --renew, and mask no round again"
        ) from error


def _write(secret: Path, key: bytes, facts: KeyFacts, uses: list[Use]) -> None:
    about = {"key": public_of(key).hex(), **asdict(facts)}
    lines = [about, *map(asdict, uses)]
    text = "".join(f"{canonical(line)}\n" for line in lines)
    write_bytes(used_of(secret), text.encode(), mode=OWNER)
