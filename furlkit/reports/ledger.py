"""What clients sent and received, found out from the headers of a run's files.

A file was sent if the server's `aggregate` was given it, and received if a client's
`local-train` was: weights that never left a client, as FLESD's, are nobody's traffic.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.header import short
from furlkit.files.container.read import Container
from furlkit.reports.runs import files_below
from furlkit.reports.text import plain, short_hash

SENT, RECEIVED = "sent", "received"
# What a client is given, and whether it is given it once and for all. Its partition is
# its own, and what is private never came from anywhere.
DOORS = {"global": False, "dictionary": False, "targets": True}
# The facts without which a file of the stage has no place in the ledger.
NEEDED = {"local-train": ("client", "round"), "aggregate": ("round",)}
# Stands for what a training that left no file was given.
NOTHING_KNOWN = ""
_CLIENT = re.compile("client ([0-9]{1,9})")


class File(NamedTuple):
    """What the ledger knows of a file; `payload` is the part of `size` in tensors."""

    path: Path
    kind: str
    stage: str
    content: str
    options: dict[str, Any]
    inputs: dict[str, str]
    facts: dict[str, Any]
    size: int
    payload: int


class Transfer(NamedTuple):
    """One file on its way from or to a client; `file` is None where it is missing."""

    client: int
    round: int
    direction: str
    role: str
    content: str
    file: File | None

    @property
    def kind(self) -> str:
        """Of the file, if it is there."""
        return self.file.kind if self.file else "unknown"


@dataclass(frozen=True)
class Ledger:
    """All transfers by round and client, and what the user should look at."""

    transfers: tuple[Transfer, ...]
    files: tuple[File, ...]
    warnings: tuple[str, ...]

    def until(self, round_: int) -> int:
        """Bytes sent and received up to the end of a round."""
        past = (t.file for t in self.transfers if t.round <= round_)
        return sum(file.size for file in past if file)


def read_ledger(runs: Sequence[Path]) -> Ledger:
    """Read the headers below some folders, or of single files, and add them up.

    What is broken or foreign in a folder is left out with a warning; a single file was
    asked for by name, and is an error.
    """
    files, warnings = _read_files(runs)
    transfers = _transfers(files)
    if not transfers:
        raise InputError(
            f"{', '.join(map(str, runs))}: no training of a client and no aggregation "
            "was found; give the folder that local-train and aggregate wrote into"
        )
    warnings += [*_two_runs(files.values()), *_missing(transfers), *_lost(files)]
    known = tuple(sorted(files.values(), key=lambda file: file.path))
    return Ledger(tuple(transfers), known, tuple(warnings))


def _read_files(runs: Sequence[Path]) -> tuple[dict[str, File], list[str]]:
    """Files by content, the same one twice being one; and what had to be left out."""
    found: dict[str, File] = {}
    warnings: dict[Path, str] = {}
    for run in runs:
        for path in files_below(run) if run.is_dir() else [run]:
            try:
                file = _read_file(path)
            except FurlkitError as error:
                if path == run:
                    raise
                warnings[path.resolve()] = f"{plain(str(error))}; left out"
                continue
            # Of what is unfinished nobody was sent anything yet.
            if file.kind != "progress":
                known = found.get(file.content, file)
                found[file.content] = min(known, file, key=lambda f: f.path)
    return found, [warnings[path] for path in sorted(warnings)]


def _read_file(path: Path) -> File:
    opened = Container(path)
    header = opened.header
    for name in () if header.kind == "progress" else NEEDED.get(header.stage, ()):
        value = header.facts.get(name)
        if type(value) is not int or value < 0:
            raise InputError(
                f"{path}: was made by {header.stage}, but its {name} is {short(value)}"
            )
    if not all(isinstance(content, str) for content in header.inputs.values()):
        raise InputError(f"{path}: its inputs are not all named by their content hash")
    payload = sum(entry.size for entry in opened.entries)
    return File(
        path, header.kind, header.stage, header.content, header.options, header.inputs,
        header.facts, opened.body_start + payload, payload,
    )  # fmt: skip


def _transfers(files: dict[str, File]) -> list[Transfer]:
    """Each file once on each way it took, in the order of rounds and clients."""
    servers = [file for file in files.values() if file.stage == "aggregate"]
    trained = [file for file in files.values() if file.stage == "local-train"]
    every = [*_sent(servers, files), *_received(trained, files)]
    every += _unseen(every, trained)
    found = {(t.round, t.client, t.direction, t.content): t for t in every}
    return [found[key] for key in sorted(found)]


def _sent(servers: Iterable[File], files: dict[str, File]) -> Iterator[Transfer]:
    for server in servers:
        for role, content in server.inputs.items():
            if match := _CLIENT.fullmatch(role):
                client, round_ = int(match[1]), server.facts["round"]
                file = files.get(content)
                yield Transfer(client, round_, SENT, "upload", content, file)


def _received(trained: Iterable[File], files: dict[str, File]) -> Iterator[Transfer]:
    first: dict[tuple[int, str], int] = {}
    for model in sorted(trained, key=lambda file: file.facts["round"]):
        client, round_ = model.facts["client"], model.facts["round"]
        for role, once in DOORS.items():
            content = model.inputs.get(role)
            if content is None or _is_own(model, role, files.get(content)):
                continue
            # A round may leave several files of one client, which all name the same.
            if once and first.setdefault((client, content), round_) != round_:
                continue
            file = files.get(content)
            yield Transfer(client, round_, RECEIVED, role, content, file)


def _unseen(sent: Iterable[Transfer], trained: Iterable[File]) -> list[Transfer]:
    """Whoever sent something had trained, and for that had received something."""
    seen = {(file.facts["client"], file.facts["round"]) for file in trained}
    senders = {(t.client, t.round) for t in sent if t.direction == SENT}
    return [
        Transfer(*sender, RECEIVED, "global", NOTHING_KNOWN, None)
        for sender in senders - seen
    ]


def _is_own(model: File, role: str, given: File | None) -> bool:
    """Whether a client carried on from its own model, as with `--update keep`."""
    if role != "global":
        return False
    if given is not None:
        return given.facts.get("role") == "client"
    return model.options.get("update") == "keep" and model.facts["round"] > 1


def _two_runs(files: Iterable[File]) -> Iterator[str]:
    models: dict[tuple[int, int], list[Path]] = {}
    for file in files:
        if file.stage == "local-train" and file.kind == "checkpoint":
            place = file.facts["round"], file.facts["client"]
            models.setdefault(place, []).append(file.path)
    for (round_, client), paths in sorted(models.items()):
        if len(paths) > 1:
            one, other = sorted(paths)[:2]
            yield (
                f"{one} and {other}: are both of client {client} in round {round_}; "
                "are these files of several runs? Give one run at a time"
            )
            return


def _missing(transfers: Iterable[Transfer]) -> Iterator[str]:
    """A warning for each file that is named but not there."""
    unknown: dict[str, list[Transfer]] = {}
    for transfer in transfers:
        if transfer.file is None:
            unknown.setdefault(transfer.content, []).append(transfer)
    for content, needed in unknown.items():
        first, more = needed[0], len(needed) - 1
        others = f" (and {more} more like it)" if more else ""
        who = f"client {first.client} in round {first.round}"
        if content == NOTHING_KNOWN:
            yield (
                f"{who}{others}: sent something, but no file of its training is there; "
                "what it received is unknown"
            )
            continue
        what = "sent" if first.direction == SENT else f"{first.role}, received"
        yield (
            f"{short_hash(content)}: is not among the files; it was {what} by {who}"
            f"{others}; its bytes are unknown"
        )


def _lost(files: dict[str, File]) -> Iterator[str]:
    """A warning for each ensemble without which nobody knows who sent what for it."""
    for file in sorted(files.values(), key=lambda file: file.path):
        content = file.inputs.get("ensemble")
        if file.stage == "distill" and content is not None and content not in files:
            yield (
                f"{short_hash(content)}: is not among the files; it is the ensemble that "
                f"{file.path} was distilled from; what was sent for it is unknown"
            )


def document(ledger: Ledger) -> dict[str, Any]:
    """Sums by round, by client, by both, and of all: what `--json` prints."""
    transfers = ledger.transfers
    rounds = _grouped(transfers, lambda t: t.round)
    clients = _grouped(transfers, lambda t: t.client)
    cells = _grouped(transfers, lambda t: (t.round, t.client))
    missing = [transfer for transfer in transfers if transfer.file is None]
    return {
        "protocol": "ledger",
        "rounds": [
            {"round": k, "clients": sorted({t.client for t in group}), **tally(group)}
            for k, group in rounds.items()
        ],
        "clients": [
            {"client": k, "rounds": sorted({t.round for t in group}), **tally(group)}
            for k, group in clients.items()
        ],
        "cells": [
            {"round": r, "client": k, **tally(group)} for (r, k), group in cells.items()
        ],
        "total": {"rounds": len(rounds), "clients": len(clients), **tally(transfers)},
        "missing": [
            {"content": t.content or None, "direction": t.direction, "role": t.role,
             "client": t.client, "round": t.round}
            for t in missing
        ],
    }  # fmt: skip


def _grouped(
    transfers: Iterable[Transfer], key: Callable[[Transfer], Any]
) -> dict[Any, list[Transfer]]:
    groups: dict[Any, list[Transfer]] = {}
    for transfer in sorted(transfers, key=key):
        groups.setdefault(key(transfer), []).append(transfer)
    return groups


def tally(transfers: Sequence[Transfer]) -> dict[str, Any]:
    """Files, bytes and payload each way by kind; unknown files have no bytes."""
    known = [transfer for transfer in transfers if transfer.file]
    ways = {
        way: _by_kind([t for t in known if t.direction == way])
        for way in (SENT, RECEIVED)
    }
    sums = _sum(known)
    unknown = len(transfers) - len(known)
    return {
        **ways, "bytes": sums["bytes"], "payload": sums["payload"], "unknown": unknown
    }  # fmt: skip


def _by_kind(transfers: Sequence[Transfer]) -> dict[str, Any]:
    kinds = _grouped(transfers, lambda t: t.kind)
    sums = {kind: _sum(group) for kind, group in kinds.items()}
    return {"kinds": sums, **_sum(transfers)}


def _sum(transfers: Iterable[Transfer]) -> dict[str, int]:
    files = [transfer.file for transfer in transfers if transfer.file]
    size, payload = sum(f.size for f in files), sum(f.payload for f in files)
    return {"files": len(files), "bytes": size, "payload": payload}
