"""aggregate --rule centroids: rows that stand for many images each, clustered."""

from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.aggregators.mean import dominant, shares_of
from furlkit.catalogue import load, rules
from furlkit.errors import InputError, UsageError
from furlkit.files.features import FeatureFacts, Features, write_features
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import (
    ROUND,
    Sent,
    check_same,
    check_same_facts,
    hides_names,
    provenance_of,
)
from furlkit.reports.text import counted
from furlkit.stages.aggregate.tables import examined_rows, open_rows

MOST_IMAGES = 10**12


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check the uploads against each other, then cluster the rows of all clients."""
    options, clients = open_uploads(values, KIND)
    rows = np.concatenate([client.rows for client in clients])
    K, first = options.settings["centroids"], clients[0].facts
    if len(rows) < K:
        raise UsageError(f"--centroids {K}: the clients share only {len(rows):,} rows")
    line = (
        f"{options.output}: round {first.round}, {counted(K, 'centroid')} of "
        f"{len(rows):,} rows of {counted(len(clients), 'client')}"
    )
    data: dict[str, Any] = {"round": first.round, "centroids": K}
    _name_dominant(clients)
    if options.dry_run:
        return line, data
    facts = FeatureFacts(
        layer=first.layer, dataset={}, part="centroids", round=first.round,
        examples=K, parent=first.parent, run=first.run,
    )  # fmt: skip
    provenance = provenance_of(options, clients)
    if made := existing_result(options, "features", provenance, facts):
        return made
    rule = load(rules()[options.rule].function)
    counts = np.concatenate([_counts(client) for client in clients])
    found, held = rule(rows, counts, **options.settings)
    where = (np.arange(K), facts, provenance)
    # The counts add up to the images of all sites.
    shown = None if hides_names(options, clients) else held
    data["content"] = write_features(options.output, found, *where, counts=shown)
    return line, data


def _counts(client: Features) -> np.ndarray:
    return np.zeros(0) if client.counts is None else client.counts


def _name_dominant(clients: list[Features]) -> None:
    """Warn about a client that claims most of the images."""
    shares = shares_of([float(_counts(client).sum()) for client in clients])
    place = dominant(shares)
    if place is not None:
        client = clients[place]
        console.warn(
            f"{client.path}: client {client.facts.client} claims {shares[place]:.1%} of "
            "the images that the rows stand for"
        )


def _open(path: Path) -> Sent:
    sent = open_rows(path)
    if "counts" not in sent.opened or sent.facts.client is None:
        raise InputError(
            f"{path}: has no counts of a client's rows; --rule centroids reads local "
            "centroids with the number of images of each"
        )
    return sent


def _examined(sent: Sent, by: str | None, remember: bool) -> Features:
    client = examined_rows(sent, by, remember)
    counts = _counts(client)
    if not len(counts) or counts.min() < 1 or counts.max() > MOST_IMAGES:
        raise InputError(
            f"{client.path}: a row stands for {counts.min(initial=0):,} to "
            f"{counts.max(initial=0):,} images; expected 1 to {MOST_IMAGES:,}"
        )
    if not np.linalg.norm(client.rows, axis=1).min() > 0:
        raise InputError(f"{client.path}: has a row of zeros, which has no direction")
    return client


def _check_together(clients: list[Features]) -> None:
    check_same_facts(clients, {**ROUND, "layer": "share the same layer"})
    widths = [client.rows.shape[1] for client in clients]
    check_same(clients, "length of a row", widths, ROUND["round"])


KIND = Kind(("features",), _open, _examined, _check_together)
