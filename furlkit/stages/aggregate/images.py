"""aggregate: uploads about public images; row i must be of one image in every upload."""

from collections.abc import Sequence

import numpy as np

from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError
from furlkit.files.container.header import canonical
from furlkit.files.features import Features
from furlkit.files.similarity import Similarity
from furlkit.inputs.uploads import Sent, check_fit, check_same, check_same_facts, usual

Upload = Features | Similarity
# Facts that must agree, and the advice if they differ.
ALIKE = {
    "part": "embed the public --part for every client",
    "layer": "embed all with the same --layer",
    "run": "embed the client's model of this run, or leave the client out; clients with "
    "different networks need one init --run-name",
    "round": "embed the client's model of this round, or leave the client out",
}


def check_upload(client: Sent) -> None:
    """Check that an upload is a client's, and of known public images."""
    facts = client.facts
    if facts.owners is not None:
        raise InputError(
            f"{client.path}: is a dictionary or a mean of several clients; pass the "
            "client's output of embed on the public images"
        )
    if facts.client is None or facts.round is None:
        raise InputError(
            f"{client.path}: not made from a client's model; pass the output of embed "
            "on a local-train checkpoint"
        )
    if type(facts.dataset.get("examples")) is not int:
        raise InputError(
            f"{client.path}: does not record the images; create it with embed on the "
            "public part"
        )
    if facts.part.isdecimal():
        raise InputError(
            f"{client.path}: is of client {facts.part}'s own images, which the server "
            "does not have; embed the public images, with --part public"
        )


def check_together(clients: Sequence[Upload]) -> None:
    """Check for equal images in equal order."""
    _check_datasets(clients)
    kinds = [type(client).__name__.lower() for client in clients]
    check_same(clients, "kind", kinds, "embed all with --similarity, or none")
    check_same_facts(clients, ALIKE)
    # Row i must be of one image in every upload.
    common = usual(clients, [client.index.tobytes() for client in clients])
    differences = [_difference(client.index, common.index) for client in clients]
    cure = "embed the same part of the partition for every client"
    check_fit(
        (client, f"{difference} {common.path}; {cure}")
        for client, difference in zip(clients, differences, strict=True)
        if difference
    )


def _check_datasets(clients: Sequence[Upload]) -> None:
    """Compare the hashes that both fingerprints have."""
    common = usual(clients, [canonical(client.facts.dataset) for client in clients])
    theirs = common.facts.dataset
    cure = "embed the same public images for every client"
    check_fit(
        (client, f"is of another dataset than {common.path}: {difference}; {cure}")
        for client in clients
        if client.facts.dataset != theirs
        if (difference := same_dataset(client.facts.dataset, theirs))
    )


def _difference(index: np.ndarray, expected: np.ndarray) -> str:
    if len(index) != len(expected):
        return f"has {len(index):,} images, and there are {len(expected):,} in"
    if missing := np.count_nonzero(~np.isin(index, expected)):
        return f"has images, {missing:,} of {len(index):,}, that are not in"
    places = np.flatnonzero(index != expected)
    return f"has, from row {places[0]} on, another order than" if len(places) else ""
