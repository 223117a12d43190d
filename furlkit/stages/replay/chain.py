"""A file and the file's ancestors, found by content."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import Any

from furlkit.catalogue import AUDITS, COMMANDS, kinds_of
from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.header import Header, check_types
from furlkit.files.container.read import Container, ForeignError
from furlkit.files.contents import content_of
from furlkit.files.metrics import read_metrics
from furlkit.files.opening import first_line
from furlkit.files.published import DATASET, completed, records_by_content
from furlkit.files.published import KIND as RECORD
from furlkit.files.secret import FINGERPRINT
from furlkit.reports.text import lookup

WEIGHTS = "weights"  # Kind of a file of another program.
PLANNED = Path("plan", "recipe.json")  # A file in the folder of a planned run.
MOST_FILES = 10_000  # Limit of the search in a folder that the user did not name.


@dataclass(frozen=True)
class Link:
    """A file of the chain and the file's parents by role; a missing parent is None.

    `kept`: facts of the record that are in no header, like fingerprints.
    """

    path: Path
    header: Header
    kept: dict[str, Any] = field(default_factory=dict)
    parents: dict[str, "Link | None"] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Roles of the missing inputs."""
        return [role for role, parent in self.parents.items() if parent is None]

    @property
    def secret(self) -> str | None:
        """Fingerprint of the secret that drew the file; None in older files."""
        known = self.kept.get(FINGERPRINT, self.header.facts.get(FINGERPRINT))
        return known if isinstance(known, str) else None

    @property
    def dataset(self) -> dict[str, Any]:
        """Fingerprint of the images of the file; empty if no header has a fingerprint."""
        recorded = self.kept.get(DATASET)
        if isinstance(recorded, dict) and recorded:
            return recorded
        parents = (link.header for link in self.parents.values() if link)
        for header in (self.header, *parents):
            images = lookup(header.facts, "data.images")  # Of scores.
            for found in (
                *(k.get("dataset") for k in (header.facts, header.options)),
                images,
            ):
                if isinstance(found, dict) and found:
                    return found
        return {}


def folders_of_run(path: Path) -> list[Path]:
    """The folder of the planned run that contains a file.

    Without a plan: the file's folder and the parent folder, which may contain the other
    rounds, unless the parent is the user's home or has more than MOST_FILES files.
    """
    folder = path.absolute().parent
    runs = (one for one in (folder, *folder.parents) if (one / PLANNED).is_file())
    run, around = next(runs, None), folder.parent
    found = [run] if run else [folder, *([around] if _is_small(around) else [])]
    return found if path.is_absolute() else [Path(os.path.relpath(f)) for f in found]


def _is_small(folder: Path) -> bool:
    if folder in (folder.parent, Path(os.path.expanduser("~"))):
        return False
    return sum(1 for _ in islice(_below([folder]), MOST_FILES + 1)) <= MOST_FILES


def tables_in(folders: Iterable[Path]) -> list[Path]:
    """The CSV files below some folders."""
    return [path for path in _below(folders) if path.suffix.lower() == ".csv"]


def found_in(folders: Iterable[Path], into: Path) -> dict[str, Link]:
    """furlkit's files below some folders, by content; the first file of several copies.

    Files below `into`, perhaps of an earlier replay, come last.
    """
    found: dict[str, Link] = {}
    foreign: list[Path] = []
    written = os.path.realpath(into) + os.sep
    paths = sorted(
        _below(folders), key=lambda path: os.path.realpath(path).startswith(written)
    )
    for path in paths:
        try:
            header = Container(path).header
        except ForeignError:
            foreign.append(path)
            continue
        except FurlkitError:
            continue  # No safetensors file, or a damaged file.
        if header.kind != "progress":
            found.setdefault(header.content, Link(path, header))
    found |= _weights_in(foreign, found)
    records = records_by_content(link.header for link in found.values())
    return {
        content: _completed(link, records.get(content))
        for content, link in found.items()
    }


def _weights_in(paths: Iterable[Path], found: dict[str, Link]) -> dict[str, Link]:
    """Weights of other programs (init --from) among safetensors files, by content."""
    headers = [link.header for link in found.values()]
    wanted = {
        str(content)
        for header in headers
        for role, content in header.inputs.items()
        if header.stage in COMMANDS and WEIGHTS in kinds_of(header.stage, role)
    } - found.keys()
    hashed = ((content_of(str(path)), path) for path in paths if wanted)
    return {
        content: Link(path, Header(WEIGHTS, "", content=content))
        for content, path in hashed
        if content in wanted
    }


def _completed(link: Link, record: Header | None) -> Link:
    kept = record.facts if record else {}
    return replace(link, header=completed(link.header, record), kept=kept)


def _below(folders: Iterable[Path]) -> Iterator[Path]:
    """Regular files in a fixed order, without hidden files and hidden folders."""
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            for name in sorted(names):
                path = Path(place, name)
                if not name.startswith(".") and path.is_file():
                    yield path


def header_of(path: Path) -> Header:
    """The header of a file, or a header made from the entries of scores."""
    if not first_line(path).lstrip().startswith(b"{"):
        header = Container(path).header
        if header.kind == RECORD:
            raise InputError(
                f"{path}: is a record; give the published file, which the record describes"
            )
        return header
    document = read_metrics(path)
    names = ("data", "clients", "untrained", "checkpoint")
    header = Header(
        kind="metrics",
        stage=_stage_of(document.get("protocol")),
        options=document.get("options", {}),
        seed=document.get("seed"),
        inputs=document.get("inputs", {}),
        facts={name: document[name] for name in names if name in document},
        content=document.get("content", ""),
    )
    check_types(path, header, "entry")
    return header


def _stage_of(protocol: Any) -> str:
    """Command that writes metrics of a protocol."""
    return f"{'audit' if protocol in AUDITS else 'evaluate'} {protocol}"


def chain(path: Path, found: dict[str, Link], depth: int | None) -> list[Link]:
    """The ancestors of a file and the file, parents first.

    `depth` is the number of generations: 1 for the file alone. Parents are always looked
    up.
    """
    header = header_of(path)
    same = found.get(header.content)  # With the entries of a record.
    first = replace(same, path=path) if same else Link(path, header)
    known = {**found, first.header.content: first}
    taken, generation = {}, [first.header.content]
    while generation and (depth is None or depth > 0):
        depth = None if depth is None else depth - 1
        for content in generation:
            taken[content] = _with_parents(known[content], known)
        wanted = [c for one in generation for c in _contents(known[one]).values()]
        generation = [c for c in dict.fromkeys(wanted) if c in known.keys() - taken]
    graph = {
        content: [c for c in _contents(link).values() if c in taken]
        for content, link in taken.items()
    }
    try:
        return [taken[content] for content in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise InputError(f"{path}: the headers form a cycle of inputs") from error


def _with_parents(link: Link, known: dict[str, Link]) -> Link:
    parents = {role: known.get(content) for role, content in _contents(link).items()}
    return replace(link, parents=parents)


def _contents(link: Link) -> dict[str, str]:
    inputs = link.header.inputs.items()
    # The hash of groups is a hash of numbers, not of a file; see `groups`.
    return {role: str(content) for role, content in inputs if role != "groups"}
