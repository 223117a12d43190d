"""aggregate --rule mean: warn about uploads that plainly do not fit."""

from collections.abc import Sequence

import numpy as np

from furlkit import console
from furlkit.aggregators.outliers import sketched
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container
from furlkit.files.partition import Partition
from furlkit.inputs.bodies import sketch_of_parent
from furlkit.stages.aggregate.claims import SHOWN
from furlkit.stages.aggregate.clients import Client
from furlkit.weights import is_batchnorm_statistic

ADVICE = "the upload counts; see --report, or use --rule median"
NO_PARENT = (
    "the directions of the updates are not compared; for that, give --parent, the "
    "global model from which the clients started"
)


def name_suspects(clients: Sequence[Client], parent: Container | None) -> None:
    """Warn about updates far longer than most, or against the others' direction."""
    names = _weights(clients[0])
    sketch = None if parent is None else sketch_of_parent(parent, names)
    sketches = np.stack([client.sketch for client in clients])
    examples = np.array([client.facts.examples or 1 for client in clients], float)
    found = sketched(sketches, sketch, examples)
    if found is None:
        return
    if parent is None:
        # No warning: nothing is suspicious. Silence would look like a passed check.
        console.info(NO_PARENT)
    place = "the middle of the uploads" if sketch is None else "the global model"
    _name(clients, found.far, found.ratios, f"times as far from {place} as most")
    _name(clients, found.against, found.angles, "degrees away from the others")
    for group in found.alike:
        if not (sketches[group] == sketches[group[0]]).all():  # Copies have a warning.
            console.warn(f"{nearly_equal(_ids(clients, group))}; {ADVICE}")
    if found.opposed:
        groups = (_ids(clients, group) for group in found.opposed)
        console.warn(f"{disagreement(*groups)}; see --report")


def nearly_equal(group: Sequence[ClientId]) -> str:
    """Words for clients with nearly equal updates."""
    return f"nearly the same update of {_listed(group)}: copies, or sybils"


def disagreement(many: Sequence[ClientId], few: Sequence[ClientId]) -> str:
    """Words for two opposed groups of clients."""
    return (
        f"two groups disagree: {_listed(many)} ({len(many)}) and {_listed(few)} "
        f"({len(few)}); updates do not show which group is hostile"
    )


def _ids(clients: Sequence[Client], group: Sequence[int]) -> list[ClientId]:
    return [clients[k].facts.client or 0 for k in group]


def _listed(group: Sequence[ClientId]) -> str:
    more = f" and {len(group) - SHOWN:,} more" if len(group) > SHOWN else ""
    return f"clients {', '.join(map(str, group[:SHOWN]))}{more}"


def name_missing(clients: Sequence[Client], partition: Partition, chosen: bool) -> None:
    """Warn about clients of a partition without an upload.

    If an option has `chosen` the number of clients, print a plain line instead: a round
    may have only some clients.
    """
    here = {client.facts.client for client in clients}
    missing = [k for k in range(partition.facts.clients) if k not in here]
    if missing:
        more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
        cure = (
            f"; if the round has {len(clients)} clients, say --at-least {len(clients)}"
        )
        say = console.info if chosen else console.warn
        say(
            f"{partition.path}: {len(missing):,} of {partition.facts.clients:,} "
            f"clients have no upload here: {', '.join(map(str, missing[:SHOWN]))}{more}"
            f"{'' if chosen else cure}"
        )


def _weights(client: Client) -> list[str]:
    """Names of the tensors in a sketch."""
    return [
        entry.name
        for entry in client.opened.entries
        if entry.dtype.kind == "f" and not is_batchnorm_statistic(entry.name)
    ]


def _name(
    clients: Sequence[Client], odd: np.ndarray, values: np.ndarray, words: str
) -> None:
    """Print a line: the first of these uploads, and the number of further uploads."""
    places = np.flatnonzero(odd)
    if not len(places):
        return
    first = clients[places[0]]
    more = f", as are {len(places) - 1:,} more uploads" if len(places) > 1 else ""
    console.warn(
        f"{first.path}: the update of client {first.facts.client} is about "
        f"{values[places[0]]:.3g} {words}{more}; {ADVICE}"
    )
