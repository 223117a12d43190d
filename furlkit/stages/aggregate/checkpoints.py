"""aggregate: one model from many clients' models, by any rule for checkpoints."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import catalogue
from furlkit.aggregators.mean import shares_of
from furlkit.aggregators.uploads import Combine
from furlkit.catalogue import recorded
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import CheckpointFacts, check_finite, open_checkpoint
from furlkit.files.container.header import canonical, parse_strict
from furlkit.files.container.layout import Entry
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import Container, unreadable
from furlkit.files.container.write import write_stream
from furlkit.files.facts import Provenance
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.inputs.uploads import (
    TRAIN_AGAIN,
    check_enough,
    check_same,
    in_client_order,
)
from furlkit.weights import is_batchnorm_statistic

MOST_EXAMPLES = 10**12


@dataclass(frozen=True)
class Options:
    """`weights` is examples, uniform, or a JSON file from client to weight."""

    inputs: tuple[Path, ...]
    output: Path
    rule: str
    weights: str
    bn: str
    min_clients: int
    dry_run: bool
    recorded: dict[str, Any]


class Client(NamedTuple):
    """One upload, opened."""

    opened: Container
    facts: CheckpointFacts

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.opened.path

    @property
    def content(self) -> str:
        """Its content hash."""
        return self.opened.content


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check the uploads against each other, then average them in one pass."""
    options = fill(Options, {**values, "recorded": recorded("aggregate", values)})
    check_output(options.output, options.inputs)
    clients = in_client_order(map(_opened, options.inputs))
    _check_together(clients)
    check_enough(len(clients), options.min_clients)
    weights = _weights(clients, options.weights)
    facts = _facts(clients, options.bn)
    names = [str(client.facts.client) for client in clients]
    line = (
        f"{options.output}: round {facts.round}, {options.rule} of {len(clients)} "
        f"clients, {facts.examples:,} examples"
    )
    shares = dict(zip(names, shares_of(weights), strict=True))
    data: dict[str, Any] = {"round": facts.round, "shares": shares}
    if options.dry_run:
        _check_bodies(clients)
    else:
        data["content"] = _write(options, clients, list(shares.values()), facts)
    return line, data


def _check_bodies(clients: list[Client]) -> None:
    """What `_write` checks along the way, without writing."""
    for client in clients:
        for entry, array in client.opened.stream():
            check_finite(client.path, entry.name, array)


class _Uploads:
    """What a rule sees of the clients; see `aggregators.uploads.Uploads`."""

    def __init__(self, files: Lockstep, clients: list[Client], shares: list[float]):
        self.clients = [client.facts.client or 0 for client in clients]
        self.shares, self._files = shares, files
        self._entries = {entry.name: entry for entry in clients[0].opened.entries}
        self._read: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The tensors that every upload has."""
        return list(self._entries)

    def combine(self, name: str, function: Combine) -> Iterator[np.ndarray]:
        """For each piece of a tensor, `function` of that piece of every upload."""
        self._read.add(name)
        return self._files.combine(self._entries[name], function)

    def check(self) -> None:
        """Compare every file with its seal; tensors that no rule read count as well."""
        for name in self._entries.keys() - self._read:
            self._files.skip(self._entries[name])
        self._files.finish()


def _write(
    options: Options,
    clients: list[Client],
    shares: list[float],
    facts: CheckpointFacts,
) -> str:
    entries = clients[0].opened.entries
    if options.bn == "keep":
        entries = [e for e in entries if not is_batchnorm_statistic(e.name)]
    words = dict(options.recorded)
    if options.weights not in ("examples", "uniform"):
        words["weights"] = "given"
    inputs = {f"client {c.facts.client}": c.opened.content for c in clients}
    header = Provenance("aggregate", {**words, "shares": shares}, None, inputs).header(
        "checkpoint", facts
    )
    last = entries[-1].name
    with Lockstep([client.opened for client in clients]) as files:
        uploads = _Uploads(files, clients, shares)
        result = catalogue.load(catalogue.RULES[options.rule].function)(uploads)

        def pieces(entry: Entry) -> Iterator[np.ndarray]:
            for piece in result(entry.name):
                # A sum is finite only if every summand is: one look instead of many.
                if piece.dtype.kind == "f" and not np.isfinite(piece).all():
                    _check_bodies(clients)
                yield piece
            if entry.name == last:
                # Before the output takes its place, so that damage leaves no file.
                uploads.check()

        return write_stream(options.output, entries, pieces, header).content


def _opened(path: Path) -> Client:
    client = Client(*open_checkpoint(path))
    _check_upload(client)
    return client


def _check_upload(client: Client) -> None:
    facts = client.facts
    if facts.role != "client" or facts.client is None:
        raise InputError(
            f"{client.path}: is a checkpoint of role {facts.role}, "
            "expected the ones that local-train writes (role client)"
        )
    if facts.examples is None or not 0 < facts.examples <= MOST_EXAMPLES:
        raise InputError(
            f"{client.path}: says it was trained on {facts.examples} examples"
        )
    if all(is_batchnorm_statistic(entry.name) for entry in client.opened.entries):
        raise InputError(f"{client.path}: has no weights at all")


def _check_together(clients: list[Client]) -> None:
    for what in ("round", "parent"):
        values = [getattr(client.facts, what) for client in clients]
        check_same(clients, what, values, TRAIN_AGAIN)
    makes = [_make(client) for client in clients]
    usual = clients[makes.index(Counter(makes).most_common(1)[0][0])]
    for client in clients:
        _check_alike(client, usual)


def _make(client: Client) -> tuple:
    """What all uploads must share, in a form that can be counted."""
    facts = client.facts
    words = canonical([facts.architecture, facts.mean, facts.std])
    return words, *((e.name, e.shape, e.dtype.str) for e in client.opened.entries)


def _check_alike(client: Client, usual: Client) -> None:
    theirs = {e.name: e for e in usual.opened.entries}
    ours = {e.name: e for e in client.opened.entries}
    if odd := sorted(theirs.keys() ^ ours.keys()):
        state = "has" if odd[0] in ours else "lacks"
        other = "lack" if odd[0] in ours else "have"
        raise InputError(f"{client.path}: {state} {odd[0]}, the others {other} it")
    for name, entry in ours.items():
        if entry.shape != theirs[name].shape:
            raise InputError(
                f"{client.path}: {name} is {entry.shape}, the others have "
                f"{theirs[name].shape}; was it trained with another --stem or --width?"
            )
        if entry.dtype != theirs[name].dtype:
            raise InputError(
                f"{client.path}: {name} is {entry.dtype}, the others have "
                f"{theirs[name].dtype}"
            )
    if any(entry.start != theirs[name].start for name, entry in ours.items()):
        raise InputError(f"{client.path}: its tensors lie in another order")
    for fact in ("architecture", "mean", "std"):
        mine, others = getattr(client.facts, fact), getattr(usual.facts, fact)
        if canonical(mine) != canonical(others):
            raise InputError(
                f"{client.path}: its {fact} is {mine}, the others have {others}"
            )


def _weights(clients: list[Client], how: str) -> list[float]:
    if how == "examples":
        return [float(client.facts.examples or 0) for client in clients]
    if how == "uniform":
        return [1.0] * len(clients)
    given = _read_weights(Path(how))
    lacking = [c.facts.client for c in clients if str(c.facts.client) not in given]
    if lacking:
        raise UsageError(f"--weights {how}: has no weight for client {lacking[0]}")
    return [float(given[str(client.facts.client)]) for client in clients]


def _read_weights(path: Path) -> dict[str, float]:
    try:
        given = parse_strict(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            f"--weights {path}: no such file; expected examples, uniform or a JSON file"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON: {error}") from error
    # A whole number of 400 digits is JSON, but no float.
    numbers = isinstance(given, dict) and all(
        type(v) in (int, float) and -1e300 < v < 1e300 for v in given.values()
    )
    if not numbers:
        raise InputError(f'{path}: expected an object like {{"0": 0.5, "1": 2}}')
    return given


def _facts(clients: list[Client], bn: str) -> CheckpointFacts:
    first = clients[0].facts
    partitions = {client.facts.partition for client in clients}
    return CheckpointFacts(
        role="global",
        round=first.round,
        architecture=first.architecture,
        mean=first.mean,
        std=first.std,
        examples=sum(client.facts.examples or 0 for client in clients),
        parent=first.parent,
        partition=partitions.pop() if len(partitions) == 1 else None,
        parts=first.parts,
        statistics=first.statistics and bn == "average",
    )
