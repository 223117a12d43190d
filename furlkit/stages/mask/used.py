"""Masks that a site has used: a file beside the secret key.

Two different uploads with one mask reveal the difference of the uploads. Sums of a round
with and without a site reveal the model of the site, so a round has one list of keys.
Each use is a line of JSON.
"""

import json
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.container.atomic import OWNER, write_bytes
from furlkit.files.container.header import canonical
from furlkit.files.opening import read_bytes

LONGEST = 16 * 2**20


def used_of(secret: Path) -> Path:
    """Path of the file beside a secret key."""
    return secret.with_name(f"{secret.name}.used")


def check_unused(secret: Path, use: dict[str, Any], sent: dict[str, Any]) -> None:
    """Refuse to mask another upload in a round; the same upload gives the same bytes."""
    for line in _lines(secret):
        if line["use"] == use and line["sent"] != sent:
            raise InputError(
                f"{used_of(secret)}: round {use['round']} has masked another upload, or "
                "with other keys or other --weights; two masked files of a round can "
                "reveal the model of a site. If no site has sent a masked file of this "
                "round, remove the file"
            )


def note_use(secret: Path, use: dict[str, Any], sent: dict[str, Any]) -> None:
    """Add a use to the file."""
    line, lines = {"use": use, "sent": sent}, _lines(secret)
    if line not in lines:
        text = "".join(f"{canonical(each)}\n" for each in (*lines, line))
        write_bytes(used_of(secret), text.encode(), mode=OWNER)


def _lines(secret: Path) -> list[dict[str, Any]]:
    path = used_of(secret)
    if not path.exists():
        return []
    try:
        text = read_bytes(path, LONGEST).decode()
        lines = [json.loads(line) for line in text.splitlines()]
        return [{"use": line["use"], "sent": line["sent"]} for line in lines]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: is no list of used masks; restore the file, or make new keys of "
            "all sites"
        ) from error
