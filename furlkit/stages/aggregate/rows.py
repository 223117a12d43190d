"""aggregate --rule dictionary: a dictionary of the rows that clients share."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.aggregators.dictionary import distinct_rows, mixed_order, oddities
from furlkit.aggregators.mean import dominant, shares_of
from furlkit.catalogue import RULES, load, rules
from furlkit.errors import InputError, UsageError
from furlkit.files.clients import ClientId, client_of
from furlkit.files.features import FeatureFacts, Features, write_features
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import (
    ROUND,
    Sent,
    check_same,
    check_same_facts,
    provenance_of,
)
from furlkit.reports.text import counted
from furlkit.stages.aggregate.claims import SHOWN, limit_of, name_repeats
from furlkit.stages.aggregate.shared import open_upload, read_upload

ROUNDING = 1e-3


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Compare the uploads, then concatenate the rows."""
    made_for = _client(values.get("made_for"))
    options, clients = open_uploads(values, KIND)
    size = options.settings["dictionary_size"]
    partitions = [client.partition for client in clients]
    most, option = limit_of(options.settings["max_share"], partitions)
    name_repeats(clients)
    for text in oddities(clients):
        console.warn(text)
    if options.anonymous:
        _name_small(clients)
    clients = _distinct(clients, options.settings["distinct"])
    given = [client.rows for client in clients]
    if most is not None:
        given = _cut(clients, max(1, int(most * size)), option)
    kept = load(rules()[options.rule].function)(given, size)
    if most is None:
        _name_dominant(clients, [len(each) for each in kept])
    kept = _without(kept, clients, made_for)
    rows = np.concatenate(kept)
    if options.anonymous:
        rows = mixed_order(rows)
        _name_revealing(made_for)
    owners = [[c.facts.client or 0, len(k)] for c, k in zip(clients, kept, strict=True)]
    first = clients[0].facts
    line = (
        f"{options.output}: round {first.round}, dictionary of {len(rows):,} rows of "
        f"{counted(len(clients), 'client')}"
    )
    line += "" if made_for is None else f", without those of client {made_for}"
    data: dict[str, Any] = {"round": first.round, "rows": len(rows), "owners": owners}
    if not options.dry_run:
        facts = FeatureFacts(
            layer="z", dataset={}, part="dictionary", round=first.round,
            examples=len(rows), parent=first.parent, owners=owners,
            share_rows=_made(clients), made_for=made_for, run=first.run,
        )  # fmt: skip
        provenance = provenance_of(options, clients)
        if made := existing_result(options, "features", provenance, facts, data):
            return made
        more = (np.arange(len(rows)), facts, provenance)
        data["content"] = write_features(options.output, rows, *more)
    return line, data


def _client(text: str | None) -> ClientId | None:
    if text is None:
        return None
    client = client_of(text)
    if client is None:
        raise UsageError(f"--for {text}: expected a client, by number or name")
    return client


def _name_revealing(made_for: ClientId | None) -> None:
    """Warn about a dictionary without the rows of one site."""
    if made_for is not None:
        console.warn(
            f"--for {made_for}: whoever has this dictionary and the dictionary of another "
            f"site knows the rows of {made_for}; send the file to {made_for} only, or use "
            "local-train --leave-own-out with a common dictionary"
        )


def _name_small(clients: list[Features]) -> None:
    """Warn about sites with fewer rows: a small site sends a row for each image."""
    most = max(len(client.rows) for client in clients)
    small = [client for client in clients if len(client.rows) < most]
    if small:
        first, rest = small[0], len(small) - 1
        others = f", and so have {counted(rest, 'other site')}" if rest else ""
        console.warn(
            f"{first.path}: {first.facts.client} has {counted(len(first.rows), 'row')}, "
            f"others have {most:,}{others}: a site with fewer images than rows sends all "
            "images, so the size of the dictionary tells the number of images; lower "
            "--dictionary-size of local-train"
        )


def _without(
    kept: list[np.ndarray], clients: list[Features], left_out: ClientId | None
) -> list[np.ndarray]:
    """Drop a client's rows, which the client would drop from the full bank."""
    own = [client.facts.client == left_out for client in clients]
    if left_out is not None and not any(own):
        console.info(f"--for {left_out}: this client shares no rows here")
    return [k[:0] if mine else k for k, mine in zip(kept, own, strict=True)]


def _open(path: Path) -> Sent:
    sent = open_upload(path, RULES["dictionary"])
    facts = sent.facts
    if facts.layer != "z" or facts.client is None or facts.owners is not None:
        raise InputError(
            f"{path}: is not a client's shared rows; pass files of local-train "
            "--features-out"
        )
    return sent


def _examined(sent: Sent, by: str | None, remember: bool) -> Features:
    client: Features = read_upload(sent, by, remember)
    lengths = np.linalg.norm(client.rows.astype(np.float64), axis=1)
    if len(lengths) and np.abs(lengths - 1).max() > ROUNDING:
        odd = lengths[np.abs(lengths - 1).argmax()]
        raise InputError(
            f"{client.path}: client {client.facts.client} has a row of length "
            f"{odd:.3g}, expected rows of length 1, as written by local-train "
            "--features-out"
        )
    return client


def _distinct(clients: list[Features], most: float | None) -> list[Features]:
    """Drop repeated rows of each client; print the numbers in one line."""
    if most is None:
        return clients
    found = [replace(c, rows=distinct_rows(c.rows, most)) for c in clients]
    fewer = [
        f"{len(old.rows) - len(new.rows):,} of {len(old.rows):,} rows of client "
        f"{old.facts.client}"
        for old, new in zip(clients, found, strict=True)
        if len(new.rows) < len(old.rows)
    ]
    if fewer:
        more = f" and of {len(fewer) - SHOWN} more" if len(fewer) > SHOWN else ""
        console.info(f"--distinct {most:g}: dropped {', '.join(fewer[:SHOWN])}{more}")
    return found


def _cut(clients: list[Features], limit: int, option: str) -> list[np.ndarray]:
    """First rows of each client, at most `limit`; warn about cuts in one line."""
    over = [
        f"client {client.facts.client} ({len(client.rows):,} rows)"
        for client in clients
        if len(client.rows) > limit
    ]
    if over:
        rest = f" and {len(over) - SHOWN} more" if len(over) > SHOWN else ""
        who = ", ".join(over[:SHOWN])
        console.warn(f"{option}: cut {who}{rest} to {limit:,} rows each")
    return [client.rows[:limit] for client in clients]


def _name_dominant(clients: list[Features], counts: list[int]) -> None:
    """Warn about a client with most rows of the dictionary."""
    if not sum(counts):
        return
    place = dominant(shares_of(counts))
    if place is not None:
        client, total = clients[place], sum(counts)
        empty = sum(
            not count and len(client.rows) > 0
            for count, client in zip(counts, clients, strict=True)
        )
        lost = f", and {empty} other clients have no rows" if empty else ""
        console.warn(
            f"{client.path}: {counts[place]:,} of the {total:,} rows of the dictionary "
            f"are of client {client.facts.client}{lost}; limit by --max-share"
        )


def _made(clients: list[Features]) -> str | None:
    """Name how the rows were computed; None if all rows are averaged features."""
    ways = {client.facts.share_rows or "averaged": client for client in clients}
    if len(ways) > 1:
        (one, first), (other, second), *_ = sorted(ways.items())
        console.warn(
            f"{first.path} has {one} rows, {second.path} has {other} rows: the clients "
            "were trained with different --share-rows"
        )
    return None if set(ways) == {"averaged"} else ", ".join(sorted(ways))


def _check_together(clients: list[Features]) -> None:
    check_same_facts(clients, ROUND)
    widths = [client.rows.shape[1] for client in clients]
    check_same(clients, "length of a row", widths, ROUND["round"])


KIND = Kind(("features",), _open, _examined, _check_together)
