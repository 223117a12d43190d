"""Headers of the files of runs, below folders."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import FurlkitError, InputError
from furlkit.files.clients import ClientId, is_client
from furlkit.files.container.header import Header, short
from furlkit.files.container.heads import Heads
from furlkit.files.container.read import Container
from furlkit.files.container.write import RECORD_ENDING, record_of
from furlkit.files.published import KIND as RECORD
from furlkit.files.published import completed, records_by_content
from furlkit.reports.text import lookup, plain

ENDINGS = (".safetensors", RECORD_ENDING)
# No training writes a larger number of epochs for one round.
MOST_EPOCHS = 10**9
# Required facts in files of these stages.
NEEDED = {"local-train": ("client", "round"), "aggregate": ("round",)}


@dataclass(frozen=True, kw_only=True)
class File(Header):
    """The header of a file; `payload` is the part of its `size` in tensors."""

    path: Path
    size: int
    payload: int


def planned_epochs(options: dict[str, Any]) -> int | None:
    """Number of epochs in a file's options; in a plan for format version 1."""
    epochs = lookup(options, "plan.epochs" if "plan" in options else "epochs")
    return epochs if type(epochs) is int and 0 < epochs <= MOST_EPOCHS else None


def read_files(runs: Sequence[Path]) -> list[File]:
    """Files below folders, or single files, by path.

    Broken and foreign files in a folder are left out with a warning; a broken single
    file, named by the user, is an error. Unfinished files are left out. The header of a
    published file is completed by the record.
    """
    found: dict[Path, File] = {}
    broken: dict[Path, str] = {}
    heads = Heads()
    for run in runs:
        for path in files_below(run, ENDINGS) if run.is_dir() else _with_record(run):
            try:
                found[path] = _read_file(path, heads)
            except FurlkitError as error:
                if path == run:
                    raise
                broken[Path(realpath(path))] = f"{plain(str(error))}; left out"
    for path in sorted(broken):
        console.warn(broken[path])
    records = records_by_content(found.values())
    return [
        completed(found[path], records.get(found[path].content))
        for path in sorted(found)
        if found[path].kind not in ("progress", RECORD)
    ]


def _with_record(path: Path) -> list[Path]:
    """A single file, and the record beside the file if there is one."""
    record = record_of(path)
    return [path, record] if record.is_file() else [path]


def is_of_records(path: Path) -> bool:
    """Return whether a path is a record, or a folder with records and no other files."""
    found = False
    for each in files_below(path, ENDINGS) if path.is_dir() else [path]:
        with suppress(FurlkitError):
            if Container(each).header.kind != RECORD:
                return False
            found = True
    return found


def objective_of(file: File) -> str:
    """Objective of a model of local-train."""
    return str(file.options.get("objective", ""))


def two_runs(files: Iterable[File]) -> str:
    """Name two models of one client in one round, impossible in a single run; or empty.

    Phases of a run (FedUSC) number rounds from 1 and have different objectives.
    """
    models: dict[tuple[str, ClientId, int], File] = {}
    for file in files:
        if (file.stage, file.kind) == ("local-train", "checkpoint"):
            client, round_ = file.facts["client"], file.facts["round"]
            first = models.setdefault((objective_of(file), client, round_), file)
            if first.content != file.content:
                return (
                    f"{first.path} and {file.path}: both are of client {client} in "
                    f"round {round_}; are these files of several runs? Give one run"
                )
    return ""


def files_below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Regular files by suffix, sorted, without hidden files and hidden folders."""
    found: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        found = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in sorted(found, key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(folder / entry.name, suffixes)
        elif entry.name.endswith(suffixes) and entry.is_file():
            yield folder / entry.name


def _read_file(path: Path, heads: Heads) -> File:
    header, start, payload = heads.read(path)
    kept = header.kind in ("progress", RECORD)
    for name in () if kept else NEEDED.get(header.stage, ()):
        value = header.facts.get(name)
        if not is_client(value) or (name != "client" and isinstance(value, str)):
            raise InputError(
                f"{path}: is from {header.stage}, but {name} is {short(value)}"
            )
    if not all(isinstance(content, str) for content in header.inputs.values()):
        raise InputError(f"{path}: some inputs are not named by a content hash")
    return File(**vars(header), path=path, size=start + payload, payload=payload)
