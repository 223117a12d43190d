"""Decisions about headers of files for other organisations.

A site withholds the seed and the files of the site. A server withholds names of sites,
hashes of uploads and numbers of single sites. Simulations, with numbered clients, publish
whole headers.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from furlkit.catalogue import COMMANDS, direction_of
from furlkit.errors import UsageError
from furlkit.files.clients import ClientId
from furlkit.files.partition import PUBLIC
from furlkit.files.published import Withheld

RECEIVED = "received"  # First word of the directions of files from the server.
# Name of the option in the headers of anonymous files.
ANONYMOUS = "anonymous"
# Facts about all sites; with two sites, a site learns the other site's number. Names of
# clients in other facts are replaced by numbers.
OF_SITES = {
    "checkpoint": ("examples", "classes", "cluster_losses"),
    "features": ("owners",),
}


def is_site(client: ClientId | None) -> bool:
    """Return whether a client is an organisation with a name, not a simulated client."""
    return isinstance(client, str) and client != PUBLIC


def withheld_by_site(command: str, client: ClientId | None) -> Withheld | None:
    """Entries for the site only: the seed, and inputs that the server did not send.

    The hash of a private file would confirm guessed images; files of other sites
    ("helper north") name the sites.
    """
    if not is_site(client):
        return None
    roles = COMMANDS[command].roles
    shown = [role for role in roles if direction_of(command, role).startswith(RECEIVED)]
    return Withheld(frozenset(shown), seed=True)


def is_anonymous(
    chosen: bool | None, record: Path | None, clients: Iterable[ClientId | None]
) -> bool:
    """Return whether to publish without names; the default for sites and for a record."""
    if record and chosen is False:
        raise UsageError(
            f"--record {record}: with --named the output has the whole header, and there "
            "is no record; leave out --record or --named"
        )
    if chosen is None:
        return record is not None or any(map(is_site, clients))
    return chosen


def withheld_by_server(
    command: str, record: Path | None, facts: Mapping[str, tuple[str, ...]]
) -> Withheld:
    """Entries for the server only: uploads by client, shares, and facts about sites."""
    shown = frozenset(
        COMMANDS[command].roles
    )  # Roles with a client are not among these.
    return Withheld(shown, frozenset({"shares"}), facts, record=record)
