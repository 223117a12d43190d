"""aggregate --rule ensemble: what the clients' models together find alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.similarity import ensemble, sharpened
from furlkit.catalogue import recorded
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container
from furlkit.files.container.write import write_stream
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.features import Features, read_features
from furlkit.files.similarity import (
    SHORTEST,
    Similarity,
    cosines,
    mapped,
    read_similarity,
)
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.inputs.uploads import check_enough, check_same, in_client_order

BLOCK = 1024
Given = Features | Similarity
# What must be the same, and what to do if it is not.
ALIKE = {
    "part": "embed the same --part, the public one, for every client",
    "layer": "embed all with the same --layer",
    "round": "embed that client's model of the same round, or leave it out",
}


@dataclass(frozen=True)
class Options:
    """`temperature` is tau_T; `matrix` writes M itself, n x n."""

    inputs: tuple[Path, ...]
    output: Path
    rule: str
    temperature: float
    matrix: bool
    min_clients: int
    dry_run: bool
    recorded: dict[str, Any]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check that all are of the same images in the same order, then put together."""
    options = fill(Options, {**values, "recorded": recorded("aggregate", values)})
    check_output(options.output, options.inputs)
    clients = in_client_order(map(_opened, options.inputs))
    _check_together(clients)
    check_enough(len(clients), options.min_clients)
    first, form = clients[0], _form(options, clients)
    facts = EnsembleFacts(
        form=form,
        clients=[client.facts.client or 0 for client in clients],
        round=first.facts.round or 0,
        temperature=options.temperature,
        dataset=first.facts.dataset,
        part=first.facts.part,
        examples=len(first.index),
        layer=first.facts.layer,
    )
    line = (
        f"{options.output}: round {facts.round}, ensemble of {len(clients)} "
        f"client{'s' if len(clients) > 1 else ''} on {facts.examples:,} images, as {form}"
    )
    data: dict[str, Any] = {
        "round": facts.round,
        "form": form,
        "clients": facts.clients,
    }
    if not options.dry_run:
        inputs = {f"client {c.facts.client}": c.content for c in clients}
        made = Provenance("aggregate", {**options.recorded, "form": form}, None, inputs)
        data["content"] = _write(options, clients, facts, made)
    return line, data


def _form(options: Options, clients: Sequence[Given]) -> str:
    if options.matrix or any(_is_whole(client) for client in clients):
        return "matrix"
    return "rows" if isinstance(clients[0], Features) else "top"


def _is_whole(client: Given) -> bool:
    return isinstance(client, Similarity) and client.columns is None


def _write(
    options: Options, clients: list[Given], facts: EnsembleFacts, made: Provenance
) -> str:
    index = clients[0].index
    if facts.form != "matrix":
        parts, columns = {}, {}
        for client in clients:
            number = client.facts.client or 0
            if isinstance(client, Features):
                parts[number] = unit_rows(client.rows)
            elif client.columns is not None:
                parts[number], columns[number] = client.matrix, client.columns
        return write_parts(options.output, parts, columns, index, facts, made).content
    n = len(index)
    entries = [
        Entry("matrix", np.dtype("<f4"), (n, n)),
        Entry("index", np.dtype("<i8"), (n,)),
    ]

    def pieces(entry: Entry) -> Iterator[np.ndarray]:
        if entry.name == "index":
            yield np.ascontiguousarray(index, dtype=np.int64)
            return
        parts = [_cosines(client) for client in clients]
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            block = ensemble(sharpened(of(rows), facts.temperature) for of in parts)
            yield np.ascontiguousarray(block, dtype="<f4")

    header = made.header("ensemble", facts)
    return write_stream(options.output, entries, pieces, header).content


def _cosines(client: Given):
    """A function from a slice of rows to these rows of M_k."""
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


def _opened(path: Path) -> Given:
    kind = Container(path).header.kind
    if kind not in ("features", "similarity"):
        raise InputError(
            f"{path}: is {with_article(kind)} file, a features or similarity file was "
            "wanted here; make it with embed, of a client's model and the public images"
        )
    client = read_similarity(path) if kind == "similarity" else read_features(path)
    _check_upload(client)
    # Checked whole, but not kept: memory is one matrix, however many clients.
    if isinstance(client, Similarity) and client.columns is None:
        return mapped(client)
    return client


def _check_upload(client: Given) -> None:
    if client.facts.owners is not None:
        raise InputError(
            f"{client.path}: is a dictionary, whose rows are of no known images; what "
            "embed makes of the public images was wanted"
        )
    if client.facts.client is None or client.facts.round is None:
        raise InputError(
            f"{client.path}: is by no client's model; what embed makes of the models "
            "that local-train writes was wanted"
        )
    if type(client.facts.dataset.get("examples")) is not int:
        raise InputError(
            f"{client.path}: does not say of which images it is; make it with embed on "
            "the public part"
        )
    if client.facts.part.isdecimal():
        raise InputError(
            f"{client.path}: is of client {client.facts.part}'s own images, which the "
            "server does not have; embed the public ones, with --part public"
        )
    if isinstance(client, Features):
        _check_rows(client)


def _check_rows(client: Features) -> None:
    """Only what has a direction is like anything."""
    length = np.linalg.norm(client.rows, axis=1)
    zeros = np.flatnonzero(length < SHORTEST)
    if len(zeros):
        raise InputError(
            f"{client.path}: has zeros in {len(zeros):,} of its {len(length):,} rows, row "
            f"{zeros[0]} first, which are like nothing; the model of client "
            f"{client.facts.client} is dead or has collapsed, train it again with a "
            "lower --lr, or leave it out"
        )


def _check_together(clients: list[Given]) -> None:
    _check_datasets(clients)
    kinds = [type(client).__name__.lower() for client in clients]
    check_same(clients, "kind", kinds, "embed all with --similarity, or none")
    for what, cure in ALIKE.items():
        check_same(clients, what, [getattr(c.facts, what) for c in clients], cure)
    _check_images(clients)


def _check_datasets(clients: list[Given]) -> None:
    """The majority is right, and what two fingerprints both know is compared."""
    marks = [canonical(client.facts.dataset) for client in clients]
    common = clients[marks.index(max(marks, key=marks.count))]
    for client, mark in zip(clients, marks, strict=True):
        difference = same_dataset(client.facts.dataset, common.facts.dataset)
        if mark != canonical(common.facts.dataset) and difference:
            raise InputError(
                f"{client.path}: is of another dataset than {common.path}: {difference}; "
                "embed the same public images for every client"
            )


def _check_images(clients: list[Given]) -> None:
    """Row i is of the same image everywhere."""
    orders = [client.index.tobytes() for client in clients]
    common = clients[orders.index(max(orders, key=orders.count))]
    for client in clients:
        difference = _difference(client.index, common.index)
        if difference:
            raise InputError(
                f"{client.path}: {difference} {common.path}; embed the same part of the "
                "same partition for every client"
            )


def _difference(index: np.ndarray, wanted: np.ndarray) -> str:
    if len(index) != len(wanted):
        return f"has {len(index):,} images, and there are {len(wanted):,} in"
    if missing := np.count_nonzero(~np.isin(index, wanted)):
        return f"has images, {missing:,} of {len(index):,}, that are not in"
    places = np.flatnonzero(index != wanted)
    return f"has, from row {places[0]} on, another order than" if len(places) else ""
