"""Traffic of clients: counted from the headers of a run's files, or planned ahead.

A file was sent if the server's `aggregate` or `distill` read it as a client's, and received if a client's
`local-train` or `distill` read it. Weights that stay at a client (FLESD) do not count.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.catalogue import direction_of
from furlkit.errors import InputError
from furlkit.files.clients import ClientId, client_order, is_client, is_name
from furlkit.files.journal import Journal, cpu_seconds_of
from furlkit.files.published import lacks_record
from furlkit.files.similarity import kept_of
from furlkit.reports.runs import File, objective_of, read_files, two_runs
from furlkit.reports.summary import grouped
from furlkit.reports.text import short_hash

SENT, RECEIVED = "sent", "received"
SERVER = ("aggregate", "distill")  # Stages that read uploads.
UNKNOWN = ""  # The content of what a training received that left no file.
# Bytes of a number, and of what is stored with a row of features or of similarities.
WIDTHS = {"float32": 4, "float16": 2, "int8": 1}
INDEX, SCALE, COLUMN = 8, 4, 4
MOST_IMAGES = 2**62
_CLIENT = re.compile(r"client (?:([0-9]{1,9})|([A-Za-z]\S*))")


class Transfer(NamedTuple):
    """One file sent or received by a client; `file` is None if the file is missing."""

    client: ClientId
    round: int
    direction: str
    role: str
    content: str
    file: File | None


@dataclass(frozen=True)
class Ledger:
    """All transfers by round and client, and the run's files."""

    transfers: tuple[Transfer, ...]
    files: tuple[File, ...]

    def until(self, round_: int) -> int:
        """Bytes sent and received up to the end of a round."""
        past = (t.file for t in self.transfers if t.round <= round_)
        return sum(file.size for file in past if file)


def read_ledger(runs: Sequence[Path]) -> Ledger:
    """Read the headers below folders, or of single files, and list all transfers."""
    ledger = ledger_of(read_files(runs))
    if not ledger.transfers:
        raise InputError(
            f"{', '.join(map(str, runs))}: no training of a client and no aggregation "
            "found; give the folder that local-train and aggregate wrote to"
        )
    return ledger


def ledger_of(found: Iterable[File]) -> Ledger:
    """List all transfers of files; warn about missing files."""
    # Copies of a file are counted once; the first path is named.
    files = {file.content: file for file in reversed([*found])}
    transfers = _transfers(files)
    unique = tuple(sorted(files.values(), key=lambda file: file.path))
    mixed = filter(None, [two_runs(unique)])
    lost = (*_lost_ensembles(unique, files), *_lost_records(unique))
    for warning in (*mixed, *_missing(transfers), *lost):
        console.warn(warning)
    _tell_phases(unique)
    return Ledger(tuple(transfers), unique)


def _tell_phases(files: Iterable[File]) -> None:
    trained = [f for f in files if (f.stage, f.kind) == ("local-train", "checkpoint")]
    phases = sorted({objective_of(file) for file in trained})
    if len(phases) > 1:
        console.info(
            f"clients have trained for --objective {' and '.join(phases)}; rounds "
            "with equal numbers are added up"
        )


def _transfers(files: dict[str, File]) -> list[Transfer]:
    """Each file once per client, round and direction, sorted."""
    trained = [file for file in files.values() if file.stage == "local-train"]
    every = [*_sent(files), *_received([*trained, *_taught(files)], files)]
    every += _unseen(every, trained)
    keys = ((t.round, client_order(t.client), t.direction, t.content) for t in every)
    found = dict(zip(keys, every, strict=True))
    return [found[key] for key in sorted(found)]


def _sent(files: dict[str, File]) -> Iterator[Transfer]:
    made = (file for file in files.values() if file.kind != "server")
    servers = [file for file in made if file.stage in SERVER]
    first: dict[str, int] = {}
    for server in sorted(servers, key=lambda file: file.facts["round"]):
        for role, content in server.inputs.items():
            round_ = server.facts["round"]
            if server.kind == "checkpoint":
                # A model averaged again in later rounds was sent once.
                round_ = first.setdefault(content, round_)
            if (client := _client_of(role)) is not None:
                file = files.get(content)
                yield Transfer(client, round_, SENT, "upload", content, file)


def _client_of(role: str) -> ClientId | None:
    """Client that sent an input; None for inputs that are not uploads."""
    match = _CLIENT.fullmatch(role)
    if match is None or (match[2] and not is_name(match[2])):
        return None
    return match[2] or int(match[1])


def _taught(files: dict[str, File]) -> list[File]:
    """Models of clients taught by a file of the server, as in DS-FL."""
    made = [file for file in files.values() if file.stage == "distill"]
    own = [file for file in made if is_client(file.facts.get("client"))]
    return [file for file in own if type(file.facts.get("round")) is int]


def _received(trained: Iterable[File], files: dict[str, File]) -> Iterator[Transfer]:
    first: dict[tuple[ClientId, str], int] = {}
    # A look at the catalogue takes as long as reading a header.
    direction = cache(direction_of)
    for model in sorted(trained, key=lambda file: file.facts["round"]):
        place = client, round_ = model.facts["client"], model.facts["round"]
        for role, content in model.inputs.items():
            file = files.get(content)
            way = direction(model.stage, role)
            if not way.startswith(RECEIVED) or _is_own(model, role, file):
                continue
            # Several files of one client in a round name equal inputs.
            begun = first.setdefault((client, content), round_)
            if begun == round_ or way == RECEIVED:
                yield Transfer(*place, RECEIVED, role, content, file)


def _unseen(sent: Iterable[Transfer], trained: Iterable[File]) -> list[Transfer]:
    """Inputs of unknown size: a client that sent a file must have received one."""
    seen = {(file.facts["client"], file.facts["round"]) for file in trained}
    senders = {(t.client, t.round) for t in sent if t.direction == SENT}
    new = senders - seen
    return [Transfer(*each, RECEIVED, "global", UNKNOWN, None) for each in new]


def _is_own(model: File, role: str, given: File | None) -> bool:
    """Return True if a client started from its last model: --update keep, continue."""
    if role != "global":
        return False
    if given is not None:
        return given.facts.get("role") == "client"
    update = model.options.get("update")
    return update == "continue" or (update == "keep" and model.facts["round"] > 1)


def _missing(transfers: Iterable[Transfer]) -> Iterator[str]:
    """Warn about each file named in a header but missing."""
    missing = sorted((t for t in transfers if t.file is None), key=lambda t: t.content)
    for first, *more in grouped(missing, lambda t: t.content).values():
        who = f"client {first.client} in round {first.round}"
        who += f" (and {len(more)} more)" if more else ""
        what = "sent" if first.direction == SENT else f"{first.role}, received"
        if first.content == UNKNOWN:
            yield (
                f"{who}: sent a file, but no file of the training is there; the input "
                "of the training is unknown"
            )
        else:
            yield (
                f"{short_hash(first.content)}: is not among the files; {what} by "
                f"{who}; size unknown"
            )


def _lost_ensembles(files: Iterable[File], known: dict[str, File]) -> Iterator[str]:
    """Warn about each missing ensemble: only its header names the senders."""
    for file in files:
        content = file.inputs.get("ensemble")
        if file.stage == "distill" and content is not None and content not in known:
            yield (
                f"{short_hash(content)}: is not among the files; {file.path} was "
                "distilled from this ensemble; the uploads for the ensemble are unknown"
            )


def _lost_records(files: Iterable[File]) -> Iterator[str]:
    """Warn about files of the server without the record that names the uploads."""
    for file in files:
        if file.stage in SERVER and lacks_record(file):
            yield (
                f"{file.path}: the header does not name the uploads, and the record of the "
                "file is missing; give the folder of --record too"
            )


def document(ledger: Ledger) -> dict[str, Any]:
    """Sums by round, by client, by both, and in total, printed by `--json`."""
    transfers = ledger.transfers

    def rows(name: str, other: str) -> list[dict[str, Any]]:
        """Sums by round or client, with a list of the other."""
        ordered = sorted(transfers, key=lambda t: client_order(getattr(t, name)))
        return [
            {name: k,
             f"{other}s": sorted({getattr(t, other) for t in group}, key=client_order),
             **tally(group)}
            for k, group in grouped(ordered, attrgetter(name)).items()
        ]  # fmt: skip

    seeds = {file.seed for file in ledger.files if file.stage == "local-train"}
    rounds, clients = rows("round", "client"), rows("client", "round")
    cells = grouped(transfers, lambda t: (t.round, t.client))
    return {
        "protocol": "ledger",
        "seed": seeds.pop() if len(seeds) == 1 else None,
        "rounds": rounds,
        "clients": clients,
        "cells": [
            {"round": r, "client": k, **tally(group)} for (r, k), group in cells.items()
        ],
        "total": {"rounds": len(rounds), "clients": len(clients), **tally(transfers)},
        "missing": [
            {"content": t.content or None, "direction": t.direction, "role": t.role,
             "client": t.client, "round": t.round}
            for t in transfers
            if t.file is None
        ],
    }  # fmt: skip


def training_time(files: Iterable[File]) -> dict[str, Any]:
    """CPU seconds of local-train for models of clients, from the journals beside them.

    The seconds are of training steps, by all threads of the process. `cpu_seconds` is
    None, with a warning, if a model lacks a complete journal.
    """
    models = [f for f in files if (f.stage, f.kind) == ("local-train", "checkpoint")]
    seconds = {f.path: cpu_seconds_of(Journal(f.path).read()) for f in models}
    untimed = [path for path, spent in seconds.items() if spent is None]
    if untimed:
        more = f" and {len(untimed) - 1:,} more" if untimed[1:] else ""
        console.warn(
            f"{untimed[0]}{more}: no journal with CPU seconds beside the file; --time "
            "has no sum"
        )
    known = [spent for spent in seconds.values() if spent is not None]
    total = None if untimed else sum(known)
    return {"cpu_seconds": total, "timed": len(known), "untimed": len(untimed)}


def tally(transfers: Sequence[Transfer]) -> dict[str, Any]:
    """Files, bytes and payload in each direction by kind; unknown files have no bytes."""
    known = [(t.direction, t.file) for t in transfers if t.file]
    result: dict[str, Any] = {}
    for way in (SENT, RECEIVED):
        files = [file for direction, file in known if direction == way]
        kinds = sorted(grouped(files, lambda file: file.kind).items())
        by_kind = {kind: _sum(group) for kind, group in kinds}
        result[way] = {"kinds": by_kind, **_sum(files)}
    sums = _sum([file for _, file in known])
    del sums["files"]
    return {**result, **sums, "unknown": len(transfers) - len(known)}


def _sum(files: Sequence[File]) -> dict[str, int]:
    size, payload = sum(f.size for f in files), sum(f.payload for f in files)
    return {"files": len(files), "bytes": size, "payload": payload}


class Upload(NamedTuple):
    """Format in which FLESD's clients send outputs for public images.

    `width` numbers for each image; if None, similarities to every image or to the `top`
    percent most similar images.
    """

    width: int | None
    encoding: str = "float32"
    top: float | None = None

    def numbers(self, n: int) -> int:
        """Numbers sent for one of n images."""
        if self.width is not None:
            return self.width
        return n if self.top is None else kept_of(self.top, n)

    def bytes(self, n: int) -> int:
        """Bytes of the tensors written by `embed` for n images."""
        each = WIDTHS[self.encoding] + (0 if self.top is None else COLUMN)
        scaled = self.encoding == "int8" and self.width is not None
        return n * (each * self.numbers(n) + INDEX + (SCALE if scaled else 0))


def flesd_equation_11(T: int, n: int, d: int, T_avg: int, w: int) -> dict[str, Any]:
    """FLESD Eq. 11: condition under which representations cost less than weights.

        T n d <= T' |w|

    T rounds of n public images with d numbers each, against T' rounds of weight
    averaging of a model with |w| parameters; both sides are numbers sent by one client.
    """
    left, right = T * n * d, T_avg * w
    return {"left": left, "right": right, "holds": left <= right}


def most_images(upload: Upload, rounds: int, budget: int) -> int:
    """Largest number of public images whose uploads fit into a budget of bytes."""

    def cost(n: int) -> int:
        return rounds * upload.bytes(n)

    return max(0, bisect_right(range(MOST_IMAGES), budget, key=cost) - 1)
