"""aggregate --rule ensemble: combined similarities of the clients' models."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.mean import dominant, shares_of
from furlkit.aggregators.similarity import sharpened, trimmed_ensemble
from furlkit.catalogue import RULES, load
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.container.read import Container
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.features import PROBABILITIES, Features
from furlkit.files.similarity import (
    SHORTEST,
    Similarity,
    cosines,
    write_similarity,
)
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import (
    Sent,
    check_fit,
    check_same,
    check_same_facts,
    hides_names,
    provenance_of,
    shown_ids,
    usual,
)
from furlkit.stages.aggregate.claims import name_repeats
from furlkit.stages.aggregate.tables import (
    examined_rows,
    examined_similarity,
    open_rows,
)

BLOCK = 1024
SAMPLE, TINY = 256, 1e-300
KINDS = ("features", "similarity")
Upload = Features | Similarity
# Facts that must agree, and the advice if they differ.
ALIKE = {
    "part": "embed the public --part for every client",
    "layer": "embed all with the same --layer",
    "run": "embed the client's model of this run, or leave the client out; clients with "
    "different networks need one init --run-name",
    "round": "embed the client's model of this round, or leave the client out",
}


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check for equal images in equal order, then combine the uploads."""
    options, clients = open_uploads(values, KIND)
    if hides_names(options, clients):  # The order of the names would tell the owners.
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
        if made := existing_result(options, "ensemble", provenance, facts):
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


def cosine_rows(client: Upload) -> Callable[[slice], np.ndarray]:
    """Return a function from a slice of rows to these rows of M_k."""
    if isinstance(client, Features):
        unit = unit_rows(client.rows)
        return lambda rows: unit[rows] @ unit.T
    matrix, columns = client.matrix, client.columns
    if columns is None:
        return lambda rows: cosines(matrix[rows])

    def dense(rows: slice) -> np.ndarray:
        block = np.full((len(matrix[rows]), len(matrix)), -np.inf, np.float32)
        np.put_along_axis(block, columns[rows].astype(np.int64), matrix[rows], axis=1)
        return block

    return dense


def _open(path: Path) -> Sent:
    kind = Container(path).header.kind
    if kind not in KINDS:
        raise InputError(
            f"{path}: is {with_article(kind)} file, expected a features or similarity "
            "file; create it with embed, from a client's model and the public images"
        )
    sent = open_rows(path, kind)
    check_upload(sent)
    if sent.facts.layer == PROBABILITIES:
        raise InputError(
            f"{path}: holds probabilities of classes; combine probabilities with "
            f"aggregate --rule {PROBABILITIES}, or embed h or z"
        )
    return sent


def _examined(sent: Sent, by: str | None, remember: bool) -> Upload:
    if sent.opened.header.kind == "similarity":
        return examined_similarity(sent, by, remember)
    client = examined_rows(sent, by, remember)
    _check_directions(client)
    return client


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


def _check_directions(client: Features) -> None:
    length = np.linalg.norm(client.rows, axis=1)
    zeros = np.flatnonzero(length < SHORTEST)
    if len(zeros):
        raise InputError(
            f"{client.path}: has zeros in {len(zeros):,} of {len(length):,} rows, row "
            f"{zeros[0]} first, which have no cosine; the model of client "
            f"{client.facts.client} is dead or has collapsed, train it again with a lower "
            "--lr, or leave it out"
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


KIND = Kind(KINDS, _open, _examined, check_together)
