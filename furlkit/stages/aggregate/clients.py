"""The clients' models: open each upload, and compare the uploads."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import CheckpointFacts, open_checkpoint
from furlkit.files.container.header import canonical
from furlkit.files.container.read import Container
from furlkit.files.partition import Partition
from furlkit.inputs.bodies import Sizes, check_sizes, examined_body
from furlkit.inputs.uploads import (
    ROUND,
    check_fit,
    check_same,
    check_same_facts,
    usual,
)
from furlkit.stages.aggregate.claims import check_members
from furlkit.weights import is_batchnorm_statistic

MOST_EXAMPLES = 10**12


class Client(NamedTuple):
    """An opened upload."""

    path: Path
    content: str
    opened: Container
    facts: CheckpointFacts
    sizes: Sizes
    sketch: np.ndarray


def open_client(path: Path) -> Client:
    """Open a client's model, by header alone."""
    opened, facts = open_checkpoint(path)
    if facts.role != "client" or facts.client is None:
        raise InputError(
            f"{path}: is a checkpoint of role {facts.role}, expected a checkpoint of "
            "local-train (role client)"
        )
    if facts.privacy is not None or facts.next_clip is not None:
        raise InputError(
            f"{path}: claims a guarantee of privacy (epsilon or a clip norm), which only "
            "aggregate --noise gives to a global model; train again with local-train"
        )
    if facts.examples is not None and not 0 < facts.examples <= MOST_EXAMPLES:
        raise InputError(f"{path}: claims to be trained on {facts.examples} examples")
    if not all(type(n) is int and n >= 0 for n in (facts.classes or {}).values()):
        raise InputError(f"{path}: classes have no numbers of images; re-create it")
    if all(is_batchnorm_statistic(entry.name) for entry in opened.entries):
        raise InputError(f"{path}: has no weights at all")
    return Client(path, opened.content, opened, facts, {}, np.zeros(0))


def examined(client: Client, by: str | None, remember: bool) -> Client:
    """Read and check the client's numbers; `by` is the hash to compare."""
    body = examined_body(client.opened, by, remember)
    return client._replace(sizes=body.sizes, sketch=body.sketch)


def of_last_round(clients: list[Client]) -> list[Client]:
    """Return the uploads of the last round."""
    last = max(client.facts.round for client in clients)
    return [client for client in clients if client.facts.round == last]


def check_together(
    clients: list[Client],
    several_rounds: bool,
    partition: Partition | None,
    statistics: bool,
    names: frozenset[str],
) -> None:
    """Refuse uploads that do not fit each other.

    With `several_rounds`, older models are allowed and may have other parts. If uploads
    have different parts, an upload with exactly the tensors `names` decides, otherwise
    the most frequent parts.
    """
    newest = of_last_round(clients) if several_rounds else clients
    check_same_facts(newest, ROUND)
    layouts = [_layout(client) for client in newest]
    named = [c for c in newest if {e.name for e in c.opened.entries} == names]
    common = named[0] if named else usual(newest, layouts)
    check_fit(_odd_names(newest, common))
    check_fit(_odd_tensors(clients, common))
    counts = [len(client.facts.cluster_losses or ()) for client in clients]
    check_same(clients, "number of cluster losses", counts, "train like the others")
    for fact in ("architecture", "mean", "std", "reading"):
        values = [canonical(getattr(client.facts, fact)) for client in clients]
        check_same(clients, fact, values, "train all clients from one global model")
    if partition:
        check_members(clients, partition)
    check_sizes(clients, statistics)


def check_alone(
    clients: list[Client], partition: Partition | None, names: frozenset[str]
) -> None:
    """Refuse uploads without a vote among uploads, for --noise.

    With a vote, a single client could exchange all the uploads of a sum, and the noise
    hides one upload. Each upload was compared with the parent, by `check_parent`; the
    parent also has the `names` of the tensors. A model of init does not decide which
    parts clients send: different parts end the round.
    """
    if names:
        check_fit(
            (client, "has other tensors than the parent; train like the other clients")
            for client in clients
            if {entry.name for entry in client.opened.entries} != names
        )
    for client in clients[1:]:
        if _layout(client) != _layout(clients[0]):
            raise InputError(
                f"{clients[0].path} and {client.path}: have different tensors; with "
                "--noise, no vote decides between uploads. Train all clients with one "
                "--send, and remove the uploads of strangers, or list --members"
            )
    if partition:
        check_members(clients, partition)


def _layout(client: Client) -> tuple:
    """Tensors, which the uploads must share, in a hashable form."""
    return tuple((e.name, e.shape, e.dtype.str) for e in client.opened.entries)


def _odd_names(
    clients: Sequence[Client], common: Client
) -> Iterator[tuple[Client, str]]:
    """Yield clients with additional or missing tensors, and the first such tensor."""
    theirs = {e.name for e in common.opened.entries}
    for client in clients:
        ours = {e.name for e in client.opened.entries}
        if odd := sorted(theirs ^ ours):
            one, rest = ("has", "lack") if odd[0] in ours else ("lacks", "have")
            yield client, f"{one} {odd[0]}, the others {rest} it"


def _odd_tensors(
    clients: Sequence[Client], common: Client
) -> Iterator[tuple[Client, str]]:
    """Yield clients with a tensor of another shape or type, and the first tensor."""
    theirs = {e.name: e for e in common.opened.entries}
    for client in clients:
        for entry in client.opened.entries:
            name, other = entry.name, theirs.get(entry.name, entry)
            if (entry.shape, entry.dtype) != (other.shape, other.dtype):
                yield (
                    client,
                    (
                        f"{name} is {entry.dtype} {entry.shape}, the others have "
                        f"{other.dtype} {other.shape}; was it trained with another --stem "
                        "or --width?"
                    ),
                )
                break
