"""aggregate --rule ensemble: combined similarities of the clients' models."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.mean import dominant, shares_of
from furlkit.aggregators.similarity import (
    BLOCK,
    cosine_rows,
    sharpened,
    trimmed_ensemble,
)
from furlkit.catalogue import RULES, load
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.features import Features
from furlkit.files.similarity import (
    check_directions,
    write_similarity,
)
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import Sent, provenance_of, shown_ids
from furlkit.stages.aggregate.claims import name_repeats
from furlkit.stages.aggregate.images import Upload, check_together, check_upload
from furlkit.stages.aggregate.shared import open_upload, read_upload

SAMPLE, TINY = 256, 1e-300


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check for equal images in equal order, then combine the uploads."""
    options, clients = open_uploads(values, KIND)
    if options.anonymous:  # The order of the names would tell the owners.
        clients.sort(key=lambda client: client.content)
    first, form = clients[0], _form(clients, options.settings["matrix"])
    facts = EnsembleFacts(
        form=form,
        clients=shown_ids(options, clients),
        round=first.facts.round or 0,
        temperature=options.settings["temperature"],
        dataset=first.facts.dataset,
        part=first.facts.part,
        examples=len(first.index),
        layer=first.facts.layer,
        run=first.facts.run,
        trim=options.settings["trim"],
    )
    line = (
        f"{options.output}: round {facts.round}, ensemble of {len(clients)} "
        f"client{'s' * (len(clients) > 1)} on {facts.examples:,} images, as {form}"
    )
    data: dict[str, Any] = {"round": facts.round, "form": form}
    data["clients"] = [client.facts.client for client in clients]
    name_repeats([client for client in clients if isinstance(client, Features)])
    if facts.trim is None:
        _name_dominant(clients, facts.temperature)
    if not options.dry_run:
        provenance = provenance_of(options, clients, form=form)
        if made := existing_result(options, "ensemble", provenance, facts, data):
            return made
        writer = _write_matrix if form == "matrix" else _write_parts
        data["content"] = writer(options.output, clients, facts, provenance)
    return line, data


def _name_dominant(clients: Sequence[Upload], tau_T: float) -> None:
    """Warn about a client with similarities far above the other clients'.

    Eq. 6 adds exp(M_k / tau_T): a single client may dominate the sum. Measured on
    SAMPLE images, off the diagonal.
    """
    n = len(clients[0].index)
    places = np.unique(np.linspace(0, max(n - 1, 0), min(n, SAMPLE)).astype(int))
    if len(places) < 2:
        return
    others = ~np.eye(len(places), dtype=bool)
    cosines = [_sampled(client, places)[others] for client in clients]
    parts = shares_of([float(sharpened(c, tau_T).mean()) + TINY for c in cosines])
    place = dominant(parts)
    if place is not None:
        client = clients[place]
        console.warn(
            f"{client.path}: {parts[place]:.1%} of the ensemble is of client "
            f"{client.facts.client}, with higher similarities than the other clients; "
            "the model is hostile or has collapsed"
        )


def _sampled(client: Upload, places: np.ndarray) -> np.ndarray:
    """M_k between some images; -inf for a cosine that was not sent."""
    if isinstance(client, Features):
        unit = unit_rows(client.rows[places])
        return unit @ unit.T
    block = cosine_rows(client)
    return np.concatenate([block(slice(i, i + 1))[:, places] for i in places])


def _form(clients: Sequence[Upload], matrix: bool) -> str:
    """Form of the file: `matrix` for M, n x n; otherwise the parts that give M."""
    if all(isinstance(client, Features) for client in clients):
        return "matrix" if matrix else "rows"
    whole = any(client.columns is None for client in clients)  # type: ignore[union-attr]
    return "matrix" if matrix or whole else "top"


def _write_parts(
    output: Path, clients: list[Upload], facts: EnsembleFacts, provenance: Provenance
) -> str:
    parts, columns = {}, {}
    for number, client in zip(facts.clients, clients, strict=True):
        if isinstance(client, Features):
            parts[number] = unit_rows(client.rows)
        elif client.columns is not None:
            parts[number], columns[number] = client.matrix, client.columns
    return write_parts(output, parts, columns, clients[0].index, facts, provenance)


def _write_matrix(
    output: Path, clients: list[Upload], facts: EnsembleFacts, provenance: Provenance
) -> str:
    index, parts = clients[0].index, [cosine_rows(client) for client in clients]
    ensemble = load(RULES["ensemble"].function)
    # A trimmed mean holds the rows of all clients at once.
    step = BLOCK if facts.trim is None else max(1, BLOCK // len(clients))

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, len(index), step):
            rows = slice(start, start + step)
            found = (sharpened(of(rows), facts.temperature) for of in parts)
            if facts.trim is None:
                yield ensemble(found)
            else:
                yield trimmed_ensemble(np.stack([*found]), facts.trim)

    return write_similarity(output, blocks(), index, facts, provenance, kind="ensemble")


def _open(path: Path) -> Sent:
    sent = open_upload(path, RULES["ensemble"])
    check_upload(sent)
    return sent


def _examined(sent: Sent, by: str | None, remember: bool) -> Upload:
    client: Upload = read_upload(sent, by, remember)
    if isinstance(client, Features):
        check_directions(client)
    return client


KIND = Kind(("features", "similarity"), _open, _examined, check_together)
