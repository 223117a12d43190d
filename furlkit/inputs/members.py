"""Members of a federation: clients with a place on the server's lists.

A members file has a line for each client: the name, and optionally weight=NUMBER and
examples=NUMBER. Signers have a name and a public key. With --weights FILE, the clients
with a weight are members.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import InputError, UsageError
from furlkit.files.clients import EXPECTED, client_of
from furlkit.files.metrics import read_json
from furlkit.files.opening import LONGEST_LIST, read_bytes
from furlkit.files.signatures import SERVER, Signers
from furlkit.inputs.uploads import OpenedUpload, UploadOptions

Weights = dict[str, float]


class Member(NamedTuple):
    """`weight` of the client; `examples`: largest number of examples to believe."""

    weight: float | None = None
    examples: int | None = None


class Members(dict[str, Member]):
    """Members by name, from the file `path`."""

    def __init__(self, path: Path, members: Mapping[str, Member]):
        super().__init__(members)
        self.path = path

    @property
    def weights(self) -> Weights:
        """Weights by name; empty if the file has no weights."""
        return {k: v.weight for k, v in self.items() if v.weight is not None}

    @property
    def has_numbers(self) -> bool:
        """Return whether the file decides the shares of some clients."""
        return any(member != Member() for member in self.values())


class Admission(NamedTuple):
    """Lists of members; an upload needs a place on every list that is given.

    `how` is the value of --weights, the file of the `weights`.
    """

    members: Members | None
    weights: Weights | None
    signers: Signers | None
    how: Any

    @property
    def names(self) -> set[str] | None:
        """Names of all members; None without a list."""
        lists: list[Iterable[str] | None] = [self.members, self.weights]
        lists.append(self.signers.names if self.signers else None)
        given = [set(each) for each in lists if each is not None]
        return set.intersection(*given) - {SERVER} if given else None

    def check_name(self, upload: OpenedUpload) -> None:
        """Refuse an upload in the name of no member."""
        path, name = upload.path, str(upload.facts.client)
        if self.members is not None and name not in self.members:
            listed = self.members.path
            raise InputError(f"{path}: is of client {name}, who is not in {listed}")
        if self.weights is not None and name not in self.weights:
            raise UsageError(
                f"{path}: is of client {name}, who has no weight in --weights {self.how}"
            )
        if self.signers:
            self.signers.check_name(path, upload.opened.header.facts)

    def check_signature(self, upload: OpenedUpload) -> None:
        """Refuse an upload without a valid signature of the client."""
        if self.signers:
            self.signers.check(upload.opened)


def admission_of(options: UploadOptions) -> Admission:
    """Read the lists of members."""
    if options.signers and options.trust_headers:
        raise UsageError(
            "--signers: signatures cover the sha256 of the bytes, which --trust-headers "
            "does not compare; leave out either"
        )
    members = read_members(options.members) if options.members else None
    how = options.settings.get("weights")
    weights = weights_of(how)
    if weights and members and members.weights:
        raise UsageError(
            f"--weights {how}: {options.members} has weights, too; leave out either"
        )
    signers = Signers(options.signers) if options.signers else None
    return Admission(members, weights, signers, how)


def weights_of(how: Any) -> Weights | None:
    """Weights in the file of --weights; None for examples and uniform."""
    return None if how in (None, "examples", "uniform") else read_weights(Path(how))


def read_weights(path: Path) -> Weights:
    """Read a JSON file of weights by client."""
    if not path.exists():
        raise InputError(
            f"--weights {path}: no such file; expected examples, uniform or a JSON file"
        )
    given = read_json(path)
    # A whole number of 400 digits is JSON, but not a float.
    numbers = isinstance(given, dict) and all(
        type(v) in (int, float) and -1e300 < v < 1e300 for v in given.values()
    )
    if not numbers:
        raise InputError(f'{path}: expected an object like {{"0": 0.5, "1": 2}}')
    return given


def read_members(path: Path) -> Members:
    """Read the members by name; all members have a weight, or none."""
    text = read_bytes(path, LONGEST_LIST).decode(errors="replace")
    members: dict[str, Member] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        place = f"{path}:{number}"
        if words[0] in members:
            raise InputError(f"{place}: {words[0]} is listed twice")
        members[words[0]] = _member(place, *words)
    if not members:
        raise InputError(f"{path}: lists no member; expected a client on each line")
    if len({member.weight is None for member in members.values()}) > 1:
        raise InputError(f"{path}: give a weight to every member, or to none")
    return Members(path, members)


def _member(place: str, name: str, *settings: str) -> Member:
    if client_of(name) is None:
        raise InputError(f"{place}: {name!r} is no client; expected {EXPECTED}")
    known: dict[str, Any] = {}
    for word in settings:
        key, _, value = word.partition("=")
        number = _number(value)
        if key not in Member._fields or key in known or number is None:
            raise InputError(
                f"{place}: {word!r}; expected weight=NUMBER or examples=NUMBER, above 0"
            )
        known[key] = number if key == "weight" else math.ceil(number)
    return Member(**known)


def _number(text: str) -> float | None:
    """Parse a finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 < number < 1e300 else None
