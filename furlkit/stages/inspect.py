"""inspect: explain any furlkit file to a person."""

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import AUDITS, COMMANDS, File
from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.layout import NAMES, Entry
from furlkit.files.container.read import Container
from furlkit.files.dataset import Packed, read_dataset
from furlkit.files.journal import DECISIVE, Journal, described, parse_line
from furlkit.files.keys import PUBLIC
from furlkit.files.metrics import is_sealed
from furlkit.files.opening import first_line, open_regular, reading
from furlkit.files.partition import Partition, read_partition
from furlkit.files.signatures import SERVER, Signers, signer_of
from furlkit.reports.explain import (
    class_names,
    client_names,
    describe_metrics,
    domains_of,
    sentence,
)
from furlkit.reports.integrity import raise_all, verify_below
from furlkit.reports.metrics import read_one
from furlkit.reports.outgoing import (
    check_may_leave,
    findings,
    measured,
    numbers_of,
    paragraphs,
    told,
)
from furlkit.reports.summary import grouped
from furlkit.reports.text import (
    WIDTH,
    byte_size,
    columns,
    flatten,
    plain,
    section,
    short_hash,
    shorten,
    word,
)

LISTED_TENSORS = 24
LISTED_CLIENTS = 20
LISTED_CLASSES = 20

Explained = tuple[str, dict[str, Any]]


def run(values: dict[str, Any]) -> Iterator[Explained]:
    """Explain files: a text for people, and the facts for programs.

    `verify` checks the content hash, in a folder of every file; `tensors` lists every
    tensor; `outgoing` explains which data leave a site with the file; `signers` checks
    the signatures first.
    """
    verify, tensors = values["verify"], values["tensors"]
    if values["signers"]:
        _check_signatures(Signers(values["signers"]), values["paths"])
    if values["outgoing"]:
        # Check every file first: print no explanation if a file must stay.
        audits = {Path(path): read_one(Path(path)) for path in values["audit"]}
        _check_audits(audits, values["paths"])
        explained = (_explain_outgoing(Path(p), audits) for p in values["paths"])
        return iter([*explained])
    return _explain_all([*map(Path, values["paths"])], verify, tensors)


def _explain_all(paths: list[Path], verify: bool, tensors: bool) -> Iterator[Explained]:
    """Explain files; with `verify`, name every broken file at the end."""
    broken = []
    for path in paths:
        try:
            yield _explain(path, verify, tensors)
        except InputError as error:
            if not verify:
                raise
            broken.append(error)
    raise_all(broken, f"{len(broken)} of {len(paths)} files are broken")


def _check_signatures(signers: Signers, paths: Sequence[str]) -> None:
    """Check signatures and every byte of the files."""
    for file in (Container(Path(path)) for path in paths):
        signers.check(file)
        file.verify()
        signer, kind = signer_of(file.path, file.header.facts), file.header.kind
        line = f"{file.path}: valid signature of {signer}"
        if signer == SERVER or kind == PUBLIC:
            console.info(line)
        else:
            use = "a global model" if kind == "checkpoint" else "a file of the server"
            console.info(f"{line}; for use as {use}, a signature of {SERVER} is needed")


def _explain(path: Path, verify: bool, tensors: bool) -> Explained:
    if path.is_dir() and verify:
        return verify_below(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; --verify checks every file of a folder")
    form = _form(path)
    if form == "container":
        return _explain_container(path, verify, tensors)
    return _explain_journal(path) if form == "journal" else _explain_metrics(path)


def _form(path: Path) -> str:
    """Return container, journal or metrics, by the first line of the file."""
    line = first_line(path)
    if not line.lstrip().startswith(b"{"):
        return "container"
    first = parse_line(line) or {}
    journal = "kind" not in first and ("event" in first or "step" in first)
    return "journal" if journal else "metrics"


Audits = dict[Path, dict[str, Any]]


def _check_audits(audits: Audits, paths: Sequence[str]) -> None:
    """Refuse other metrics, and audits of other files."""
    for audit, document in audits.items():
        if document.get("protocol") not in AUDITS:
            raise InputError(
                f"{audit}: expected the result of furlkit audit, found the protocol "
                f"{word(document.get('protocol'))}"
            )
        if not any(_is_about(document, Container(Path(p)).content) for p in paths):
            raise InputError(
                f"{audit}: audits none of the files given; the content hashes differ; "
                "audit the file that leaves the site"
            )


def _is_about(document: dict[str, Any], content: str) -> bool:
    """Return whether the file was attacked: the argument of the audit, no other input."""
    inputs = document.get("inputs")
    attacked, *_ = COMMANDS[f"audit {document['protocol']}"].arguments
    kind = attacked.kind
    roles = kind.roles if isinstance(kind, File) else ()
    # Several files of a role are numbered: "upload 3".
    return isinstance(inputs, dict) and any(
        inputs[role] == content for role in inputs if role.split(" ")[0] in roles
    )


def _explain_outgoing(path: Path, audits: Audits) -> Explained:
    """Explain which data leave a site with a file; raise if the file must stay."""
    if _form(path) != "container":
        raise InputError(
            f"{path}: is text about a training or scores, which no stage of the server "
            "reads; read the whole file before you send the file"
        )
    opened = Container(path)
    header, entries = opened.header, opened.entries
    check_may_leave(path, header)
    opened.verify()
    size = opened.body_start + sum(entry.size for entry in entries)
    lines, numbers = [plain(str(path))], numbers_of(header, entries)
    about = [each for each in audits.values() if _is_about(each, opened.content)]
    for title, text in paragraphs(header, entries, size, about):
        words = textwrap.wrap(text, WIDTH - 15)
        lines += [f"  {title:12} {words[0]}", *(f"{'':15}{line}" for line in words[1:])]
    known = [finding._asdict() for finding in findings(header, entries)]
    data: dict[str, Any] = {"path": str(path), "kind": header.kind}
    data |= {
        "content": header.content,
        "numbers": numbers.all,
        "images": numbers.images,
    }
    data |= {"numbers_per_image": numbers.each, "bytes": size}
    return "\n".join(lines), {
        **data,
        "told": told(header),
        "measured": measured(header, about),
        "audited": bool(about),
        "recoverable": known,
    }


def _explain_container(path: Path, verify: bool, every: bool) -> Explained:
    opened = Container(path)
    header, entries = opened.header, opened.entries
    if verify:
        opened.verify()
    summary = sentence(header, entries)
    checked = "yes, every byte fits the content hash" if verify else "no"
    size = opened.body_start + sum(entry.size for entry in entries)
    machine = _machine(path)
    made_with = described(machine)
    top = [
        ("stage", plain(header.stage)),
        ("seed", word(header.seed)),
        ("size", byte_size(size)),
        ("content", header.content),
        ("verified", checked),
        (
            "versions",
            shorten(plain(made_with), 80) or "not recorded: it has no journal",
        ),
    ]
    inputs = [(plain(role), short_hash(str(c))) for role, c in header.inputs.items()]
    lines = _title(path, header.kind, summary, top)
    lines += section("inputs", columns(inputs))
    lines += section("options", columns(list(flatten(header.options))))
    lines += section("facts", columns(list(flatten(header.facts))))
    tensors = [
        {"name": e.name, "dtype": NAMES[e.dtype], "shape": e.shape, "bytes": e.size}
        for e in entries
    ]
    data = {"path": str(path), "summary": summary, "verified": verify}
    data |= {**vars(header), "tensors": tensors, "machine": machine or None}
    if header.kind == "partition":
        partition = read_partition(path)
        lines += _clients(partition)
        data["public"] = len(partition.public)
        data["sizes"] = partition.sizes.tolist()
        data["histogram"] = partition.histogram.tolist()
        if partition.domains is not None:
            data["domains"] = domains_of(partition)
    if header.kind == "dataset" and "domains" in opened:
        held = _domains(read_dataset(path))
        lines += _counts("images of each domain", held)
        data["domains"] = held
    lines += _tensors(entries, every)
    return "\n".join(lines), data


def _machine(path: Path) -> dict[str, Any]:
    """Versions and instruction set from the journal beside a file."""
    try:
        known = Journal(path).machine()
    except FurlkitError:
        return {}
    return {name: known[name] for name in DECISIVE if isinstance(known.get(name), str)}


def _title(
    path: Path, kind: str, summary: str, top: Sequence[tuple[str, str]]
) -> list[str]:
    words = textwrap.wrap(
        f"{kind}: {summary}", WIDTH, initial_indent="  ", subsequent_indent="    "
    )
    lines = [f"    {line}" for line in columns(top)]
    return [plain(str(path)), *words, *([""] if lines else []), *lines]


def _tensors(entries: Sequence[Entry], every: bool) -> list[str]:
    values = sum(math.prod(e.shape) for e in entries)
    total = byte_size(sum(e.size for e in entries))
    title = f"tensors: {len(entries):,} with {values:,} values, {total}"
    if every or len(entries) <= LISTED_TENSORS:
        table = [("name", "type", "shape", "bytes")]
        for e in sorted(entries, key=lambda e: e.name):
            shape = " x ".join(map(str, e.shape)) or "scalar"
            table.append((shorten(e.name, 56), NAMES[e.dtype], shape, f"{e.size:,}"))
        return section(title, columns(table, "...r"), most=len(table))
    table = [("name", "tensors", "type", "bytes")]
    for name, group in sorted(_grouped(entries).items()):
        types = ", ".join(sorted({NAMES[e.dtype] for e in group}))
        size = sum(e.size for e in group)
        name = f"{name}.*" if len(group) > 1 else group[0].name
        table.append((shorten(name, 56), f"{len(group):,}", types, f"{size:,}"))
    return section(f"{title} (--tensors lists each)", columns(table, ".r.r"))


def _grouped(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Tensors by the first words of the names, with a readable number of groups."""

    def first(words: int) -> dict[str, list[Entry]]:
        return grouped(entries, lambda e: ".".join(e.name.split(".")[:words]))

    return next((g for g in map(first, (3, 2)) if len(g) <= LISTED_TENSORS), first(1))


def _domains(packed: Packed) -> dict[str, int]:
    """Number of images per domain, by name or by number."""
    names, held = packed.facts.domain_names, np.asarray(packed.domains)
    counts = np.bincount(held, minlength=len(names)).tolist()
    return dict(zip(names or map(str, range(len(counts))), counts, strict=True))


def _counts(title: str, counts: Mapping[str, int]) -> list[str]:
    rows = [(shorten(plain(name), 40), f"{n:,}") for name, n in counts.items()]
    return section(title, columns(rows, ".r"))


def _clients(partition: Partition) -> list[str]:
    if partition.facts.clients > LISTED_CLIENTS:
        held = Counter(filter(None, domains_of(partition)))
        spread = section("clients", _spread(partition))
        return spread + _counts("clients of each domain", held)
    classes = partition.histogram.shape[1]
    short = [shorten(name, 12) for name in class_names(partition)]
    if 0 < classes <= LISTED_CLASSES:
        for names in (short, list(map(str, range(classes)))):
            table = _histogram_table(partition, names)
            if max(map(len, table)) <= WIDTH - 4:
                return section("images of each class", table)
    return section("clients", _top_classes(partition, short))


def _histogram_table(partition: Partition, names: list[str]) -> list[str]:
    """A column per class, for few classes."""
    histogram = partition.histogram
    rows, clients = [["client", "images", *names]], client_names(partition)
    for client, held in enumerate(histogram):
        cells = [f"{number:,}" if number else "." for number in held]
        rows.append([clients[client], f"{partition.sizes[client]:,}", *cells])
    total = [f"{number:,}" for number in histogram.sum(axis=0)]
    rows.append(["all", f"{partition.sizes.sum():,}", *total])
    return columns(rows, "." + "r" * (len(names) + 1))


def _top_classes(partition: Partition, names: list[str]) -> list[str]:
    """The most frequent classes of a client, for classes that do not fit on a line."""
    table, clients = (
        [("client", "images", "classes", "most of")],
        client_names(partition),
    )
    for client, held in enumerate(partition.histogram):
        first = np.argsort(-held, kind="stable")[:4]
        most = ", ".join(f"{names[c]} {held[c]:,}" for c in first if held[c])
        classes = np.count_nonzero(held)
        most += ", ..." if classes > len(first) else ""
        size = f"{partition.sizes[client]:,}"
        table.append((clients[client], size, f"{classes:,}", most))
    return columns(table if names else [row[:2] for row in table], ".rr")


def _spread(partition: Partition) -> list[str]:
    """Least, mean and most, for too many clients to list."""
    histogram = partition.histogram
    values = {"images per client": partition.sizes}
    if histogram.shape[1]:
        values["classes per client"] = np.count_nonzero(histogram, axis=1)
        values["images per class"] = histogram.sum(axis=0)
    rows = [("", "least", "mean", "most")]
    for name, v in values.items():
        rows.append((name, f"{v.min():,}", f"{v.mean():,.1f}", f"{v.max():,}"))
    return columns(rows, ".rrr")


def _explain_metrics(path: Path) -> Explained:
    """Explain scores; a content hash is compared whenever a metrics file is read."""
    metrics = read_one(path)
    summary, sealed = describe_metrics(metrics), is_sealed(metrics)
    checked = "yes, every value fits the content hash"
    top = [("content", metrics["content"]), ("verified", checked)] if sealed else []
    top = top or [("verified", "no, an older furlkit wrote no content hash")]
    lines = _title(path, "metrics", summary, top)
    scored = metrics.get("checkpoint")
    hidden = ("checkpoint", "kind", "content")
    shown = {k: v for k, v in metrics.items() if k not in hidden}
    lines += section("values", columns(list(flatten(shown))))
    if isinstance(scored, dict):
        lines += section("checkpoint scored", columns(list(flatten(scored))))
    data = {"path": str(path), "summary": summary, "verified": sealed, **metrics}
    return "\n".join(lines), data


def _explain_journal(path: Path) -> Explained:
    with open_regular(path) as stream, reading(path):
        lines = [line for line in map(parse_line, stream) if line is not None]
    summary = f"what happened while a stage ran, {len(lines):,} lines"
    text = _title(path, "journal", summary, [])
    text += section("last line", columns(list(flatten(lines[-1]))))
    data = {"path": str(path), "kind": "journal", "verified": None, "summary": summary}
    return "\n".join(text), {**data, "lines": len(lines), "last": lines[-1]}
