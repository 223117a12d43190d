"""aggregate --rule ensemble: what the clients' models together find alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.aggregators.ensemble import mean_of, sharpened
from furlkit.errors import InputError
from furlkit.files.container import Container, write_stream
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.features import Features, read_features
from furlkit.files.header import canonical
from furlkit.files.layout import Entry
from furlkit.files.similarity import Similarity, cosines, mapped, read_similarity
from furlkit.patterns import check_output
from furlkit.updates.ensemble import unit_rows
from furlkit.uploads import check_enough, check_same, in_client_order

BLOCK = 1024
Given = Features | Similarity


@dataclass(frozen=True)
class Options:
    """`temperature` is tau_T; `matrix` writes M itself, n x n."""

    inputs: tuple[Path, ...]
    output: Path
    temperature: float = 0.1
    matrix: bool = False
    min_clients: int = 1
    dry_run: bool = False


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Check that all are of the same images in the same order, then put together."""
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
        f"{options.output}: round {facts.round}, ensemble of {len(clients)} clients on "
        f"{facts.examples:,} images, as {form}"
    )
    data: dict[str, Any] = {
        "round": facts.round,
        "form": form,
        "clients": facts.clients,
    }
    if not options.dry_run:
        inputs = {f"client {c.facts.client}": c.content for c in clients}
        words = {"rule": "ensemble", "temperature": options.temperature, "form": form}
        made = Provenance("aggregate", words, None, inputs)
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
            block = mean_of(sharpened(of(rows), facts.temperature) for of in parts)
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
    similar = Container(path).header.kind == "similarity"
    client = read_similarity(path) if similar else read_features(path)
    _check_upload(client)
    # Checked whole, but not kept: memory is one matrix, however many clients.
    if isinstance(client, Similarity) and client.columns is None:
        return mapped(client)
    return client


def _check_upload(client: Given) -> None:
    if client.facts.client is None or client.facts.round is None:
        raise InputError(
            f"{client.path}: is by no client's model; what embed makes of the models "
            "that local-train writes was wanted"
        )
    if "examples" not in client.facts.dataset:
        raise InputError(
            f"{client.path}: does not say of which images it is; make it with embed on "
            "the public part"
        )
    if isinstance(client, Similarity):
        _check_cosines(client)
    elif not np.abs(client.rows).max(axis=1, initial=0).all():
        raise InputError(
            f"{client.path}: has a row of zeros, which is like nothing; the model that "
            "made it has collapsed"
        )


def _check_cosines(client: Similarity) -> None:
    """An image is like itself: without that, a row may have no target at all."""
    if np.abs(client.matrix).max(initial=0) > 1.001:
        raise InputError(f"{client.path}: has values beyond 1; cosines were wanted")
    if client.columns is None:
        itself = np.diagonal(client.matrix)
    else:
        own = client.columns == np.arange(len(client.columns))[:, None]
        itself = np.where(own, client.matrix, -1).max(axis=1, initial=-1)
    if (itself < 0.9).any():
        image = int(np.argmin(itself))
        raise InputError(
            f"{client.path}: row {image} does not find its own image alike; make it "
            "with embed --similarity from a model that has not collapsed"
        )


def _check_together(clients: list[Given]) -> None:
    for what in ("round", "part", "layer"):
        check_same(clients, what, [getattr(c.facts, what) for c in clients])
    marks = [canonical(client.facts.dataset) for client in clients]
    check_same(clients, "dataset", marks)
    check_same(clients, "kind", [type(c).__name__.lower() for c in clients])
    orders = [client.index.tobytes() for client in clients]
    common = max(orders, key=orders.count)
    for client, order in zip(clients, orders, strict=True):
        if order != common:
            raise InputError(
                f"{client.path}: has {len(client.index)} images, or another order of "
                "them than the others; embed the same part of the same partition"
            )
