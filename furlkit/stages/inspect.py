"""inspect: explain any furlkit file to a person."""

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.files.container.layout import NAMES, Entry
from furlkit.files.container.read import Container, unreadable
from furlkit.files.metrics import read_metrics
from furlkit.files.partition import Partition, read_partition
from furlkit.inputs.settings import fill
from furlkit.reports.explain import score_words, sentence
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


@dataclass(frozen=True)
class Options:
    """`verify` checks the content hash; `tensors` lists tensors that are many."""

    paths: tuple[Path, ...]
    verify: bool
    tensors: bool


def run(values: dict[str, Any]) -> Iterator[Explained]:
    """Explain each file: a text for people and the same for programs."""
    options = fill(Options, values)
    return (_explain(Path(path), options) for path in options.paths)


def _explain(path: Path, options: Options) -> Explained:
    start = _start(path)
    # Bytes 5 to 8 of a container are zeros: no header takes 4 GB. Text has no zeros.
    if b"\0" in start or not start.lstrip().startswith(b"{"):
        return _explain_container(path, options)
    line = _first_line(path)
    if line is not None and "kind" not in line and ("event" in line or "step" in line):
        return _explain_journal(path)
    return _explain_metrics(path)


def _start(path: Path) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(8)
    except OSError as error:
        raise unreadable(path, error) from error


def _explain_container(path: Path, options: Options) -> Explained:
    opened = Container(path)
    header = opened.header
    if options.verify:
        opened.verify()
    summary = sentence(header, opened.entries)
    checked = "yes, every byte fits the content hash" if options.verify else "no"
    size = opened.body_start + sum(entry.size for entry in opened.entries)
    top = [
        ("stage", plain(header.stage)),
        ("seed", word(header.seed)),
        ("size", byte_size(size)),
        ("content", header.content),
        ("verified", checked),
    ]
    inputs = [(plain(role), short_hash(str(c))) for role, c in header.inputs.items()]
    lines = _title(path, header.kind, summary, top)
    lines += section("inputs", columns(inputs))
    lines += section("options", columns(list(flatten(header.options))))
    lines += section("facts", columns(list(flatten(header.facts))))
    data = _container_data(path, opened, summary, options.verify)
    if header.kind == "partition":
        partition = read_partition(path)
        lines += _clients(partition)
        data["public"] = len(partition.public)
        data["sizes"] = partition.sizes.tolist()
        data["histogram"] = partition.histogram.tolist()
    lines += _tensors(opened.entries, options.tensors)
    return "\n".join(lines), data


def _container_data(
    path: Path, opened: Container, summary: str, verified: bool
) -> dict[str, Any]:
    header = opened.header
    return {
        "path": str(path),
        "kind": header.kind,
        "summary": summary,
        "version": header.version,
        "stage": header.stage,
        "seed": header.seed,
        "content": header.content,
        "verified": verified,
        "inputs": header.inputs,
        "options": header.options,
        "facts": header.facts,
        "tensors": [
            {"name": e.name, "dtype": NAMES[e.dtype], "shape": e.shape, "bytes": e.size}
            for e in opened.entries
        ],
    }


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
        rows = [
            (shorten(e.name, 56), NAMES[e.dtype], _shape(e.shape), f"{e.size:,}")
            for e in sorted(entries, key=lambda e: e.name)
        ]
        table = [("name", "type", "shape", "bytes"), *rows]
        return section(title, columns(table, "...r"), most=len(table))
    groups = _grouped(entries)
    rows = [
        (
            shorten(f"{name}.*" if len(group) > 1 else name, 56),
            f"{len(group):,}",
            ", ".join(sorted({NAMES[e.dtype] for e in group})),
            f"{sum(e.size for e in group):,}",
        )
        for name, group in sorted(groups.items())
    ]
    table = [("name", "tensors", "type", "bytes"), *rows]
    return section(f"{title} (--tensors lists each)", columns(table, ".r.r"))


def _grouped(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Tensors by the start of their names, as many words of it as stay readable."""
    groups: dict[str, list[Entry]] = {}
    for words in (3, 2, 1):
        groups = {}
        for entry in entries:
            start = ".".join(entry.name.split(".")[:words])
            groups.setdefault(start, []).append(entry)
        if len(groups) <= LISTED_TENSORS:
            break
    return {(g[0].name if len(g) == 1 else name): g for name, g in groups.items()}


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) if shape else "scalar"


def _clients(partition: Partition) -> list[str]:
    if partition.facts.clients > LISTED_CLIENTS:
        return section("clients", _spread(partition))
    classes = partition.histogram.shape[1]
    if 0 < classes <= LISTED_CLASSES:
        numbers = [str(number) for number in range(classes)]
        for names in (_class_names(partition), numbers):
            table = _histogram_table(partition, names)
            if max(map(len, table)) <= WIDTH - 4:
                return section("images of each class", table)
    return section("clients", _top_classes(partition))


def _histogram_table(partition: Partition, names: list[str]) -> list[str]:
    """One column a class, where there are few."""
    histogram = partition.histogram
    rows = [["client", "images", *names]]
    for client, held in enumerate(histogram):
        cells = [f"{number:,}" if number else "." for number in held]
        rows.append([str(client), f"{partition.sizes[client]:,}", *cells])
    total = [f"{number:,}" for number in histogram.sum(axis=0)]
    rows.append(["all", f"{partition.sizes.sum():,}", *total])
    return columns(rows, "." + "r" * (len(names) + 1))


def _top_classes(partition: Partition) -> list[str]:
    """The classes a client has most of, where all would not fit on a line."""
    sizes = [f"{size:,}" for size in partition.sizes]
    if not partition.histogram.shape[1]:
        rows = [(str(client), size) for client, size in enumerate(sizes)]
        return columns([("client", "images"), *rows], ".r")
    names = _class_names(partition)
    table = [("client", "images", "classes", "most of")]
    for client, held in enumerate(partition.histogram):
        first = np.argsort(-held, kind="stable")[:4]
        most = ", ".join(f"{names[c]} {held[c]:,}" for c in first if held[c])
        classes = np.count_nonzero(held)
        most += ", ..." if classes > len(first) else ""
        table.append((str(client), sizes[client], f"{classes:,}", most))
    return columns(table, ".rr")


def _spread(partition: Partition) -> list[str]:
    """Least, mean and most, where the clients are too many to list."""
    histogram = partition.histogram
    rows = [("", "least", "mean", "most")]
    rows.append(_least_mean_most("images a client", partition.sizes))
    if histogram.shape[1]:
        held = np.count_nonzero(histogram, axis=1)
        rows.append(_least_mean_most("classes a client", held))
        rows.append(_least_mean_most("images a class", histogram.sum(axis=0)))
    return columns(rows, ".rrr")


def _least_mean_most(what: str, values: np.ndarray) -> tuple[str, str, str, str]:
    return what, f"{values.min():,}", f"{values.mean():,.1f}", f"{values.max():,}"


def _class_names(partition: Partition) -> list[str]:
    names, classes = partition.facts.class_names, partition.histogram.shape[1]
    if not isinstance(names, list) or len(names) != classes:
        return [str(number) for number in range(classes)]
    return [shorten(plain(str(name)), 12) for name in names]


def _explain_metrics(path: Path) -> Explained:
    metrics = read_metrics(path)
    summary = score_words(metrics)
    lines = _title(path, "metrics", summary, [("verified", "no, JSON has no hash")])
    scored = metrics.get("checkpoint")
    shown = {k: v for k, v in metrics.items() if k not in ("checkpoint", "kind")}
    lines += section("values", columns(list(flatten(shown))))
    if isinstance(scored, dict):
        lines += section("checkpoint scored", columns(list(flatten(scored))))
    data = {"path": str(path), "summary": summary, "verified": None, **metrics}
    return "\n".join(lines), data


def _first_line(path: Path) -> dict[str, Any] | None:
    with open(path, "rb") as stream:
        return _parsed(stream.readline(2**20))


def _explain_journal(path: Path) -> Explained:
    with open(path, "rb") as stream:
        lines = [line for line in map(_parsed, stream) if line is not None]
    last = lines[-1]
    data: dict[str, Any] = {"path": str(path), "kind": "journal", "verified": None}
    summary = f"what happened while a stage ran, {len(lines):,} lines"
    text = _title(path, "journal", summary, [])
    text += section("last line", columns(list(flatten(last))))
    data.update(summary=summary, lines=len(lines), last=last)
    return "\n".join(text), data


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A journal's line, or None for one that a kill cut short."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
