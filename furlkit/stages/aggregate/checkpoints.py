"""aggregate: combine clients' models into a global model, by any rule."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import catalogue, console
from furlkit.aggregators.mean import aged, shares_of
from furlkit.aggregators.uploads import Combine, Pieces, Stacked, Uploads
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.checkpoint import (
    Checkpoint,
    CheckpointFacts,
    open_checkpoint,
    read_checkpoint,
)
from furlkit.files.clients import ClientId
from furlkit.files.container.atomic import EVERYBODY, OWNER
from furlkit.files.container.header import with_article
from furlkit.files.container.layout import Entry
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import ChangedFile, Container
from furlkit.files.container.write import Blocks, write
from furlkit.files.facts import Provenance
from furlkit.files.metrics import write_metrics
from furlkit.files.partition import Partition, read_partition
from furlkit.files.server import ServerFacts
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import Output, existing_result, unchanged
from furlkit.inputs.inbox import Kind, name_left_out, open_uploads
from furlkit.inputs.members import Members, read_members, read_weights
from furlkit.inputs.paths import check_output
from furlkit.inputs.records import check_record
from furlkit.inputs.uploads import (
    UploadOptions,
    check_added,
    check_enough,
    provenance_of,
)
from furlkit.reports.text import counted
from furlkit.stages.aggregate.claims import Limit, capped, cut, limit_of, name_dominant
from furlkit.stages.aggregate.clients import (
    Client,
    check_alone,
    check_together,
    examined,
    of_last_round,
    open_client,
)
from furlkit.stages.aggregate.privacy import (
    Privacy,
    check_release,
    summary,
    take,
)
from furlkit.stages.aggregate.report import describe, line_of
from furlkit.stages.aggregate.state import (
    OldState,
    open_state,
    state_entries,
    weights_of,
)
from furlkit.stages.aggregate.suspects import name_missing, name_suspects
from furlkit.weights import (
    is_batchnorm_statistic,
    online_name,
    part_of,
    within,
)

# Options that are not the rule's own business.
DEFAULTS: dict[str, Any] = {
    "weights": "examples",
    "bn": "average",
    "staleness": None,
    "report": None,
    "partition": None,
    "max_share": None,
}


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check and compare the uploads, then combine tensor by tensor."""
    # Rules without these options use the defaults.
    used = {**DEFAULTS, **values}
    partition = used["partition"] and read_partition(used["partition"])
    options, clients = _open(values, used, partition)
    if partition:
        chosen = options.at_least > 1 or options.expect is not None
        name_missing(clients, partition, chosen)
    if options.rule == "mean" and not (used["report"] or used["staleness"]):
        parent = None if options.parent is None else Container(options.parent)
        name_suspects(clients, parent)
    while True:
        try:
            return _combined(options, clients, partition)
        except ChangedFile as error:
            clients = _unchanged(clients, error.path)
            check_enough(options, clients)


def _combined(
    options: UploadOptions, clients: list[Client], partition: Partition | None
) -> tuple[str, dict[str, Any]]:
    """Apply the rule to these clients and write; raise if an inbox file changed."""
    settings = {**DEFAULTS, **options.settings}
    how, bn, staleness, report, _, most = (settings.pop(name) for name in DEFAULTS)
    complete = settings.pop("complete", False)
    privacy = take(options, settings, clients)
    _check_report(options, report, staleness)
    members = read_members(options.members) if options.members else None
    clients = capped(clients, partition, members)
    newest = of_last_round(clients)
    weights = _weights(clients, how, members)
    listed = members is not None and members.has_numbers
    limit = _limit(clients, most, how, bool(partition or listed))
    if how == "examples" and not (partition or limit.most or listed):
        name_dominant(clients, shares_of(weights))
    shares = cut(clients, _shares(clients, weights, staleness or 1), limit)
    facts = _facts(clients, _common(options, newest[0]), bn)
    if not privacy:
        facts = replace(facts, **_cluster_head(clients, shares))
    by_file = listed or how not in ("examples", "uniform")
    given = {"weights": "given"} if by_file else {}
    provenance = provenance_of(options, clients, shares=shares, **given)
    if privacy:
        facts, provenance = privacy.facts(facts), privacy.provenance(options, clients)
    entries = _entries(newest[0], facts.statistics)
    names = [entry.name for entry in entries]
    if privacy:
        privacy.compare_noise(entries)
    rule = catalogue.rules()[options.rule]
    model = _open_parent(options, report, newest[0], names)
    held = state_entries(rule.state, entries)
    state = open_state(options.state, rule, options.parent, held)
    start = _start(options, newest[0]) if complete else None
    # A report does not change the result.
    parent = start or (model if rule.parent or state else None)
    more = by_role("aggregate", partition=partition, parent=parent, state=state)
    provenance = replace(provenance, inputs={**provenance.inputs, **more})
    function = partial(catalogue.load(rule.function), **settings)
    if privacy:
        function = partial(catalogue.load(rule.private), **privacy.applied)
    job = _Job(function, clients, shares, entries, model, held, state, start, privacy)
    return _made(options, job, facts, provenance, report)


def _unchanged(clients: list[Client], changed: Path) -> list[Client]:
    """Drop the clients with files that have changed since the check.

    All files of the inbox are read again, to drop several changed files at once.
    """
    reasons = {
        client.path: str(ChangedFile(client.path))
        for client in clients
        if client.path == changed
        or (client.opened.digests is not None and not client.opened.is_unchanged())
    }
    name_left_out(reasons)
    return [client for client in clients if client.path not in reasons]


def _open(
    values: dict[str, Any], used: dict[str, Any], partition: Partition | None
) -> tuple[UploadOptions, list[Client]]:
    rule = catalogue.rules()[values["rule"]]
    names = _names_of_earlier_uploads(values)
    together = partial(
        check_together,
        several_rounds=used["staleness"] is not None,
        partition=partition,
        statistics=rule.averages and used["bn"] == "average",
        names=names,
    )
    if used.get("noise"):
        together = partial(check_alone, partition=partition, names=names)
    opening = partial(_open_client, rule)
    return open_uploads(values, Kind(("checkpoint",), opening, examined, together))


def _open_client(rule: catalogue.Rule, path: Path) -> Client:
    try:
        client = open_client(path)
    except InputError:
        _check_kind(rule, path)
        raise
    check_added(client.path, (entry.name for entry in client.opened.entries), rule)
    return client


def _check_kind(rule: catalogue.Rule, path: Path) -> None:
    """Refuse a file that only other rules read."""
    kind = Container(path).header.kind
    others = [r.name for r in catalogue.rules().values() if kind in r.reads.split("|")]
    if others and kind != "checkpoint":
        raise InputError(
            f"{path}: is {with_article(kind)} file, --rule {rule.name} expects a "
            f"checkpoint file; give --rule {' or '.join(others)}"
        )


def _names_of_earlier_uploads(values: dict[str, Any]) -> frozenset[str]:
    """Names of the tensors that clients sent in the previous round, if known."""
    if values["parent"] is None or values.get("complete"):
        return frozenset()
    opened = Container(values["parent"])
    entries = opened.entries if opened.header.stage == "aggregate" else ()
    return frozenset(entry.name for entry in entries)


def _shares(
    clients: list[Client], weights: list[float], staleness: float
) -> list[float]:
    """Shares of the clients; older models have lower weights."""
    last = of_last_round(clients)[0].facts.round
    pairs = zip(weights, clients, strict=True)
    return shares_of([aged(w, last - c.facts.round, staleness) for w, c in pairs])


def _limit(clients: list[Client], most: float | None, how: str, listed: bool) -> Limit:
    """Limit of shares; no default limit for numbers that the server has `listed`."""
    if how != "examples" or listed:
        return limit_of(most, ())
    return limit_of(most, [client.facts.partition for client in clients])


def _made(
    options: UploadOptions,
    job: "_Job",
    facts: CheckpointFacts,
    provenance: Provenance,
    report: Path | None,
) -> tuple[str, dict[str, Any]]:
    """Write the report and the model, unless they exist."""
    check_record(options.output, "checkpoint", provenance)
    line, data = _line(options, job, facts), _data(job, facts)
    known = {**_known(provenance, facts, job), "protocol": "uploads"}
    if report and not options.dry_run:
        exists = _reported(options, report, known)
        data["stands_out"] = [] if exists else _report(options, report, job, known)
    if options.state_out and not options.dry_run:
        state = _write_state(options, options.state_out, job, facts, provenance)
        facts = replace(facts, state=state)
    if made := existing_result(options, "checkpoint", provenance, facts, data):
        return made
    check_release(options, facts)
    if not options.dry_run:
        facts = replace(facts, next_clip=job.next_clip())
        header = provenance.header("checkpoint", facts)
        with job.uploads() as uploads:
            pieces, _ = job.apply(uploads, uploads.state)
            tensors = _checked(options, uploads, job.entries, pieces)
            data["content"] = write(options.output, {**tensors, **job.unsent}, header)
    return line, data


def _write_state(
    options: UploadOptions,
    path: Path,
    job: "_Job",
    facts: CheckpointFacts,
    provenance: Provenance,
) -> str:
    """Write the rule's memory, unless the file exists; return the content hash.

    The model is written later and records the hash. Each file takes a separate pass
    over the uploads: memory is one piece of a tensor.
    """
    about = ServerFacts(options.rule, facts.round, facts.architecture)
    if existing := unchanged(options, Output(path, "server", provenance, about)):
        return existing[0].content
    with job.uploads() as uploads:
        _, pieces = job.apply(uploads, uploads.state)
        tensors = _checked(options, uploads, job.held, pieces)
        header = provenance.header("server", about)
        return write(path, tensors, header, OWNER if options.anonymous else EVERYBODY)


def _line(options: UploadOptions, job: "_Job", facts: CheckpointFacts) -> str:
    line = (
        f"{options.output}: round {facts.round}, {options.rule} of "
        f"{counted(len(job.clients), 'client')}, {_counted(facts)}"
    )
    old = len(job.clients) - len(of_last_round(job.clients))
    return f"{line}, {old} of them of earlier rounds" if old else line


def _data(job: "_Job", facts: CheckpointFacts) -> dict[str, Any]:
    pairs = zip(job.clients, job.shares, strict=True)
    shares = {str(client.facts.client): share for client, share in pairs}
    classes = {"classes": facts.classes} if facts.classes else {}
    return {"round": facts.round, "shares": shares, **classes}


def _counted(facts: CheckpointFacts) -> str:
    if facts.privacy:
        return summary(facts)
    if facts.examples is None:
        return "without numbers of examples"
    return f"{facts.examples:,} examples"


class _Job(NamedTuple):
    """Uploads to combine and the rule.

    `entries`: tensors of the result; `held`: tensors of the next state, in the order of
    the files; `state`: the previous state; `start`: the model that completes the result.
    """

    rule: Callable[..., Any]
    clients: list[Client]
    shares: list[float]
    entries: list[Entry]
    parent: Container | None
    held: list[Entry]
    state: Container | None
    start: Checkpoint | None
    privacy: Privacy | None

    @property
    def unsent(self) -> dict[str, np.ndarray]:
        """Tensors of the start that no upload has."""
        own = {entry.name for entry in self.entries}
        start = self.start.tensors if self.start else {}
        return {name: array for name, array in start.items() if name not in own}

    @contextmanager
    def uploads(self) -> "Iterator[_Uploads]":
        """Open the files together."""
        before = [self.parent] if self.parent else []
        opened = [client.opened for client in self.clients]
        with ExitStack() as stack:
            files = stack.enter_context(Lockstep([*before, *opened]))
            state = stack.enter_context(OldState(self.state)) if self.state else None
            yield _Uploads(files, self, state)

    def next_clip(self) -> float | None:
        """Clip norm of the next round, if the uploads decide."""
        if self.privacy is None:
            return None
        with self.uploads() as uploads:
            return self.privacy.next_clip(uploads)

    def apply(
        self, uploads: Uploads, state: Pieces | None
    ) -> tuple[Pieces, Pieces | None]:
        """Return the pieces of the model and of the next state."""
        if not self.held:
            return self.rule(uploads), None
        return self.rule(uploads, state)


def _entries(client: Client, statistics: bool) -> list[Entry]:
    entries = client.opened.entries
    return [e for e in entries if statistics or not is_batchnorm_statistic(e.name)]


def _start(options: UploadOptions, client: Client) -> Checkpoint:
    """Read the model of --parent for --complete; it must be the start of the clients."""
    if options.parent is None:
        raise UsageError(
            "--complete: give the global model of the clients' round, --parent CHECKPOINT"
        )
    start = read_checkpoint(options.parent)
    if start.content != client.facts.parent:
        raise InputError(
            f"{start.path}: is not the model from which {client.path} started; give the "
            "global model of the last round"
        )
    return start


def _check_report(
    options: UploadOptions, report: Path | None, staleness: float | None
) -> None:
    if report and staleness is not None:
        raise UsageError("--report does not apply beside --staleness")
    if report:
        check_output(
            report, [*options.inputs, options.output, options.parent], "--report"
        )


def _known(provenance: Provenance, facts: CheckpointFacts, job: _Job) -> dict[str, Any]:
    """Entries of a report that are known before reading the uploads."""
    inputs = {**provenance.inputs, **by_role("aggregate", parent=job.parent)}
    return {"options": provenance.options, "inputs": inputs, "round": facts.round}


def _reported(options: UploadOptions, path: Path, known: dict[str, Any]) -> bool:
    """Return whether a report without suspects exists; others are made again."""
    entries = {key: value for key, value in known.items() if key != "options"}
    how = Provenance("aggregate", known["options"])
    existing = unchanged(options, Output(path, "metrics", how, entries))
    return existing is not None and existing[0].facts.get("stands_out") == []


def _report(
    options: UploadOptions, path: Path, job: _Job, known: dict[str, Any]
) -> list[ClientId]:
    """Write the report before the result; return the clients that stand out.

    With --strict such clients are an error: the report exists, the result does not.
    """
    if job.privacy:  # Noise would hide the effect of an upload.
        job = job._replace(rule=partial(job.rule, noise=0.0))
    with job.uploads() as uploads:
        state = uploads.state
        found = describe(uploads, lambda some: job.apply(some, state)[0], options.rule)
    write_metrics(path, {**known, **found})
    say = console.warn if found["stands_out"] else console.info
    say(line_of(path, found))
    return found["stands_out"]


class _Uploads:
    """View of the clients for a rule; see `aggregators.uploads.Uploads`."""

    def __init__(self, files: Lockstep, job: _Job, state: OldState | None):
        """`files`: files of the clients, after the parent's file."""
        self.state = state
        self.clients = [client.facts.client or 0 for client in job.clients]
        self._shares, self._files = job.shares, files
        self.names = [entry.name for entry in job.entries]
        self.weights = {e.name: e.dtype for e in weights_of(job.entries)}
        self.parent = job.parent is not None
        entries = [client.opened.entries for client in job.clients]
        self._held = [{entry.name for entry in each} for each in entries]
        more = job.parent.entries if job.parent else []
        self._before = {e.name for e in more} | set(
            job.parent.aliases if job.parent else ()
        )
        self._entries = {e.name: e for each in (more, *entries) for e in each}
        self._read: set[str] = set()

    def shares(self, name: str) -> list[float]:
        """Weights of the uploads that contain this tensor."""
        pairs = zip(self._held, self._shares, strict=True)
        having = [share for held, share in pairs if name in held]
        return having if len(having) == len(self._shares) else shares_of(having)

    def combine(
        self, name: str, function: Combine, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """Yield `function` of each piece of a tensor, over the uploads."""

        def whole(column: Iterator[np.ndarray]) -> np.ndarray:
            if name in self._before and not parent:
                next(column)
            lacking = parent and name not in self._before
            result = function(_after_zeros(column) if lacking else column)
            # A rule may leave uploads out; their checksums need every piece, and the
            # next piece takes the place of the last one.
            result = result if result.base is None else result.copy()
            for _ in column:
                pass
            return result

        self._read.add(name)
        return self._files.combine(self._entries[name], whole)

    def stacked(
        self, name: str, function: Stacked, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """For each slice of a tensor, `function` of that slice of all uploads."""
        first = int(name in self._before and not parent)
        lacking = parent and name not in self._before
        self._read.add(name)

        def of_slice(stack: np.ndarray) -> np.ndarray:
            zeros = np.zeros((int(lacking), stack.shape[1]), stack.dtype)
            return function(
                np.concatenate([zeros, stack]) if lacking else stack[first:]
            )

        return self._files.stacked(self._entries[name], of_slice)

    def check(self) -> None:
        """Compare every file with the seal, including tensors that no rule read."""
        for name in self._entries.keys() - self._read:
            self._files.skip(self._entries[name])
        self._files.finish()
        if self.state:
            self.state.check()


def _after_zeros(column: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Zeros in place of the parent, then the uploads."""
    first = next(column)
    yield np.zeros_like(first)
    yield first
    yield from column


def _checked(
    options: UploadOptions,
    uploads: _Uploads,
    entries: list[Entry],
    result: Pieces | None,
) -> dict[str, Blocks]:
    """Tensors to write; the last tensor triggers the checks of uploads and values."""
    broken: list[str] = []

    def pieces(name: str) -> Iterator[np.ndarray]:
        for piece in result(name) if result else ():
            if piece.dtype.kind == "f" and not np.isfinite(piece).all():
                broken.append(name)
            yield piece
        if name == entries[-1].name:
            # Before the output is renamed: damaged uploads leave no file; and before
            # the values are judged: a changed file explains bad values.
            uploads.check()
            _check_finite(options, broken)

    return {e.name: Blocks(e.dtype, e.shape, pieces(e.name)) for e in entries}


def _check_finite(options: UploadOptions, broken: list[str]) -> None:
    if broken:
        raise FurlkitError(
            f"{options.output}: --rule {options.rule} gives values of {broken[0]} that "
            "are not finite"
        )


def _open_parent(
    options: UploadOptions, report: Path | None, client: Client, names: list[str]
) -> Container | None:
    """Open the model of --parent, if the rule reads weights of the parent.

    The model of round 0 has no target network. Target networks start with the weights
    of the online network, which is read instead.
    """
    rule = catalogue.rules()[options.rule]
    needed = rule.parent or options.state is not None
    if needed and options.parent is None:
        raise UsageError(
            f"--rule {options.rule}: give the global model of the clients' round, "
            "--parent CHECKPOINT"
        )
    if options.parent is None or not (needed or report):
        return None
    opened, _ = open_checkpoint(options.parent)
    for name in names:
        entry = client.opened.entry(name)
        if name not in opened and online_name(name) in opened:
            opened.aliases[name] = online_name(name)
        if name not in opened and within(part_of(name), rule.adds):
            continue
        stored = opened.aliases.get(name, name)
        if stored not in opened and rule.parent:
            raise InputError(
                f"{options.parent}: has no tensor {name}, of which --rule {rule.name} "
                f"computes the change in {client.path}; the round before had uploads "
                "without this part, as with --update astw; give --rule mean or median"
            )
        opened.expect(stored, entry.dtype.name, *entry.shape)
    return opened


def _weights(clients: list[Client], how: str, members: Members | None) -> list[float]:
    if members and members.weights:
        return [members.weights[str(client.facts.client)] for client in clients]
    untold = [client for client in clients if client.facts.examples is None]
    if how == "examples" and untold:
        console.info(
            f"{untold[0].path}: client {untold[0].facts.client} does not tell the "
            "number of examples; clients have equal weights, as with --weights uniform"
        )
    if how == "uniform" or (how == "examples" and untold):
        return [1.0] * len(clients)
    if how == "examples":
        return [float(client.facts.examples or 0) for client in clients]
    given = read_weights(Path(how))
    return [float(given[str(client.facts.client)]) for client in clients]


def _common(options: UploadOptions, client: Client) -> CheckpointFacts:
    """Common facts of the uploads; the parent, if given, knows the seed of init."""
    if options.parent is None:
        return client.facts
    _, parent = open_checkpoint(options.parent)
    return replace(client.facts, init_seed=parent.init_seed)


def _facts(clients: list[Client], first: CheckpointFacts, bn: str) -> CheckpointFacts:
    """Facts of the result; `first`: common facts of the newest uploads.

    Facts about noise and the server's memory are the server's, never a client's claim.
    """
    partitions = {client.facts.partition for client in clients}
    return replace(
        first,
        role="global",
        client=None,
        examples=_sum([client.facts.examples for client in clients]),
        classes=_class_sums([client.facts.classes for client in clients]),
        partition=partitions.pop() if len(partitions) == 1 else None,
        loss=None,
        statistics=first.statistics and bn == "average",
        privacy=None,
        next_clip=None,
        state=None,
    )


def _sum(counts: list[int | None]) -> int | None:
    """Sum, if every client discloses the count; otherwise None."""
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def _class_sums(counts: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Images by class, if every client discloses the counts; otherwise None."""
    told = [count for count in counts if count is not None]
    if len(told) < len(counts):
        return None
    names = sorted({name for count in told for name in count})
    return {name: sum(count.get(name, 0) for count in told) for name in names}


def _cluster_head(clients: list[Client], shares: list[float]) -> dict[str, Any]:
    """Cluster head with the lowest mean loss, weighted by the clients' shares."""
    columns = zip(
        *(client.facts.cluster_losses or () for client in clients), strict=True
    )
    losses = [
        sum(n * loss for n, loss in zip(shares, column, strict=True))
        for column in columns
    ]
    if not losses:
        return {"cluster_head": None, "cluster_losses": None}
    return {"cluster_head": losses.index(min(losses)), "cluster_losses": losses}
