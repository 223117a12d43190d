"""aggregate --rule dictionary: one dictionary of the rows that clients share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.aggregators.dictionary import dictionary
from furlkit.catalogue import recorded
from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.features import (
    FeatureFacts,
    Features,
    read_features,
    write_features,
)
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.inputs.uploads import (
    TRAIN_AGAIN,
    check_enough,
    check_same,
    in_client_order,
)

ROUNDING = 1e-3


@dataclass(frozen=True)
class Options:
    """`dictionary_size` is K, the rows that a dictionary has at most."""

    inputs: tuple[Path, ...]
    output: Path
    rule: str
    dictionary_size: int
    min_clients: int
    dry_run: bool
    recorded: dict[str, Any]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check the uploads against each other, then write one after the other."""
    options = fill(Options, {**values, "recorded": recorded("aggregate", values)})
    check_output(options.output, options.inputs)
    clients = in_client_order(map(_opened, options.inputs))
    _check_together(clients)
    check_enough(len(clients), options.min_clients)
    kept = dictionary([client.rows for client in clients], options.dictionary_size)
    rows = np.concatenate(kept)
    owners = [[c.facts.client or 0, len(k)] for c, k in zip(clients, kept, strict=True)]
    first = clients[0].facts
    facts = FeatureFacts(
        layer="z", dataset={}, part="dictionary", round=first.round,
        examples=len(rows), parent=first.parent, owners=owners,
    )  # fmt: skip
    line = (
        f"{options.output}: round {first.round}, dictionary of {len(rows):,} rows of "
        f"{len(clients)} clients"
    )
    data: dict[str, Any] = {"round": first.round, "rows": len(rows), "owners": owners}
    if not options.dry_run:
        inputs = {f"client {c.facts.client}": c.content for c in clients}
        made = Provenance("aggregate", options.recorded, None, inputs)
        numbers = np.arange(len(rows))
        data["content"] = write_features(
            options.output, rows, numbers, facts, made
        ).content
    return line, data


def _opened(path: Path) -> Features:
    client = read_features(path)
    _check_upload(client)
    return client


def _check_upload(client: Features) -> None:
    facts = client.facts
    if facts.layer != "z" or facts.client is None or facts.owners is not None:
        raise InputError(
            f"{client.path}: is not what a client shares; the files that local-train "
            "--features-out writes were wanted"
        )
    lengths = np.linalg.norm(client.rows.astype(np.float64), axis=1)
    if len(lengths) and np.abs(lengths - 1).max() > ROUNDING:
        odd = lengths[np.abs(lengths - 1).argmax()]
        raise InputError(
            f"{client.path}: a row has length {odd:.3g}, rows of length 1 were wanted, "
            "as local-train --features-out writes them"
        )


def _check_together(clients: list[Features]) -> None:
    for what in ("round", "parent"):
        values = [getattr(client.facts, what) for client in clients]
        check_same(clients, what, values, TRAIN_AGAIN)
    lengths = [client.rows.shape[1] for client in clients]
    check_same(clients, "length of a row", lengths, TRAIN_AGAIN)
