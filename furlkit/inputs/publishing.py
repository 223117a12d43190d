"""Decisions about headers of files for other organisations.

A site is a client that trains without a partition. A site withholds the seed and the
files of the site. A server withholds names of sites, hashes of uploads and numbers of
single sites. Simulations, clients of one partition, publish whole headers.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from furlkit.catalogue import COMMANDS, direction_of
from furlkit.errors import UsageError
from furlkit.files.clients import ClientId
from furlkit.files.container.header import Header
from furlkit.files.masked import SITE
from furlkit.files.partition import PUBLIC
from furlkit.files.published import Withheld, lacks_record
from furlkit.files.secret import fingerprint_of

RECEIVED = "received"  # First word of the directions of files from the server.
# Name of the option in the headers of anonymous files.
ANONYMOUS = "anonymous"
# Facts about all sites; with two sites, a site learns the other site's number. Names of
# clients in other facts are replaced by numbers.
OF_SITES = {
    "checkpoint": ("examples", "classes", "cluster_losses"),
    "features": ("owners",),
}


def is_site(client: ClientId | None, partition: object) -> bool:
    """Return whether a client is an organisation: a client without a partition.

    A name is enough, because the clients of a partition have numbers. The server is no
    site if it trains (PUBLIC), nor is the writer of a global model (None).
    """
    if client in (None, PUBLIC):
        return False
    return isinstance(client, str) or partition is None


def is_of_site(header: Header) -> bool:
    """Return whether a file comes from a site, by the header.

    A model tells the partition, and a masked upload tells that it is of a site. Other
    files of sites have short headers. Without any of these facts, in files of earlier
    versions, a number is a simulated client.
    """
    facts = header.facts
    client = facts.get("client")
    if header.kind == "checkpoint":
        return is_site(client, facts.get("partition"))
    told = lacks_record(header) or facts.get(SITE) is True
    return is_site(client, None if told else "unknown")


def withheld_by_site(command: str, secret: Path | None = None) -> Withheld:
    """Entries for the site only: the seed, and inputs that the server did not send.

    The hash of a private file would confirm guessed images; files of other sites
    ("helper north") name the sites. `secret`: the site's, if the secret decides draws.
    """
    roles = COMMANDS[command].roles
    shown = [role for role in roles if direction_of(command, role).startswith(RECEIVED)]
    known = fingerprint_of(secret) if secret and secret.exists() else None
    return Withheld(frozenset(shown), seed=True, secret=known)


def is_anonymous(
    chosen: bool | None, record: Path | None, inputs: Iterable[Header]
) -> bool:
    """Return whether to publish without names; the default for sites and for a record."""
    if record and chosen is False:
        raise UsageError(
            f"--record {record}: with --named the output has the whole header, and there "
            "is no record; leave out --record or --named"
        )
    if chosen is None:
        return record is not None or any(map(is_of_site, inputs))
    return chosen


def withheld_by_server(
    command: str, record: Path | None, facts: Mapping[str, tuple[str, ...]]
) -> Withheld:
    """Entries for the server only: uploads by client, shares, and facts about sites."""
    shown = frozenset(
        COMMANDS[command].roles
    )  # Roles with a client are not among these.
    return Withheld(shown, frozenset({"shares"}), facts, record=record)
