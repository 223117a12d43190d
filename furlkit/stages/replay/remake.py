"""Print the commands of a chain, or run the commands and compare the outputs.

Every command reads the original files, not the outputs of earlier commands: a difference
in a file does not spread to later files.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from os.path import realpath
from pathlib import Path
from typing import Any

from furlkit import catalogue, console
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.replaceable import check_replaceable
from furlkit.files.secret import DRAWN_BY, SECRET, fingerprint_of, read_secret
from furlkit.inputs.secrets import check_fingerprint
from furlkit.inputs.settings import fill
from furlkit.runtime import end_with_parent
from furlkit.stages.replay.chain import (
    Link,
    chain,
    folders_of_run,
    found_in,
    header_of,
    tables_in,
)
from furlkit.stages.replay.comparison import compared
from furlkit.stages.replay.groups import group_words
from furlkit.stages.replay.images import finder
from furlkit.stages.replay.words import Find, path_word, reason_against, words_of

Result = tuple[str, dict[str, Any]]
# Largest values of a header that --run accepts: a foreign header can name any number.
MOST = {
    "epochs": 10_000,
    "images": 10_000_000,
    "iterations": 100_000,
    "phases": 10_000,
    "probes": 1_000,
    "repeats": 1_000,
    "rounds": 10_000,
}
NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True)
class ReplayOptions:
    """`among` are folders to search for inputs, `data` are candidates for images."""

    path: Path
    among: tuple[Path, ...]
    data: tuple[str, ...]
    data_root: Path | None
    into: Path | None
    secret: Path | None
    depth: int | None
    run: bool


@dataclass(frozen=True)
class Remake:
    """A file of the chain, and the command that writes `output`.

    `open` is the reason why replay cannot run the command. If only images are missing,
    `words` has the command too.
    """

    link: Link
    output: Path
    words: list[str]
    open: str

    @property
    def reads(self) -> list[Path]:
        """Paths of the compared file and of inputs, images and tables of the command."""
        inputs = (link.path for link in self.link.parents.values() if link)
        pairs = pairwise(self.words)
        data = (
            Path(value) for flag, value in pairs if flag.endswith(("data", "groups"))
        )
        return [self.link.path, *inputs, *(path for path in data if path.exists())]

    @property
    def line(self) -> str:
        """The command for a shell, or a comment."""
        path = self.link.path
        # A line break in a forged header would end the comment and begin a command.
        said = console.plain(f"# {path}: {self.open}" if self.open else f"# {path}")
        return f"{said}\n{shlex.join(['furlkit', *self.words])}" if self.words else said


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Print the commands, or run the commands and compare every file."""
    options = fill(ReplayOptions, values)
    catalogue.add_plugins()  # Headers may record options of plugins.
    with ExitStack() as stack:
        into = options.into or Path("replay")
        if options.run and not options.into:
            into = Path(stack.enter_context(tempfile.TemporaryDirectory(".replay")))
        remakes = _remakes(options, into)
        if options.run:
            remakes = [_bounded(remake) for remake in remakes]
            _check_replaceable(remakes)
            yield from _run_all(remakes)
        else:
            commands = [remake.words for remake in remakes if remake.words]
            text = "\n".join(remake.line for remake in remakes)
            yield text, {"commands": commands, "files": [_told(r) for r in remakes]}
        _check_complete(remakes)


def _remakes(options: ReplayOptions, into: Path) -> list[Remake]:
    if options.secret:  # Commands would write a missing secret.
        read_secret(options.secret)
    for folder in options.among:
        if not folder.is_dir():
            raise InputError(f"--among {folder}: no such folder")
    depth = options.depth
    if depth is None and header_of(options.path).kind == "metrics":
        depth = 1  # The evaluation proves a number; --depth goes on to the training.
    for top in folders_of_run(options.path):
        found = found_in((top, *options.among), into)
        links = chain(options.path, found, depth)
        if not any(link.missing for link in links):
            break
    find = finder(options.data, {"data_root": options.data_root}, found)
    root = options.data_root
    tables = tables_in((top, *options.among))
    remakes = [
        _with_groups(
            _remake(link, into / _inside(link.path, top), find, root), root, tables
        )
        for link in links
    ]
    named = remakes[-1].link
    remakes = [_with_secret(remake, options.secret, named) for remake in remakes]
    _check_into(into, remakes)
    return remakes


def _remake(link: Link, output: Path, find: Find, root: Path | None) -> Remake:
    words: list[str] = []
    lacking = reason_against(link)
    if not lacking:
        words, lacking = words_of(link, output, find)
    if root and "--data" in words:
        place = words.index("--data")
        words[place:place] = ["--data-root", path_word(root)]
    return Remake(link, output, words, lacking)


def _with_secret(remake: Remake, secret: Path | None, named: Link) -> Remake:
    """Add the site's secret to a command with draws by the secret.

    The secret is of the site that wrote the named file; files of other sites have other
    fingerprints. Without a fingerprint, the client decides.
    """
    if remake.open or remake.link.header.options.get(DRAWN_BY) != SECRET:
        return remake
    if secret is None:
        return replace(
            remake,
            words=[],
            open="a secret of the site chose the shared rows; give --secret FILE",
        )
    link = remake.link
    if link.secret and link is named:
        check_fingerprint(secret, link.secret, link.path)
    client = link.header.facts.get("client")
    fits = client == named.header.facts.get("client")
    if link.secret:
        fits = fingerprint_of(secret) == link.secret
    if fits:
        return replace(remake, words=[*remake.words, "--secret", path_word(secret)])
    lacking = f"{secret} is not known as the secret of client {client}"
    return replace(remake, words=[], open=lacking)


def _with_groups(remake: Remake, root: Path | None, tables: list[Path]) -> Remake:
    if remake.open or "groups" not in remake.link.header.inputs:
        return remake
    more, lacking = group_words(remake.link, remake.words, root, tables)
    place = remake.words.index("-o")
    words = [*remake.words[:place], *more, *remake.words[place:]]
    return replace(remake, words=words, open=lacking)


def _inside(path: Path, top: Path) -> Path:
    """Path of a file within the folder of the run; otherwise folder and name."""
    path, whole = path.absolute(), top.absolute()
    if path.is_relative_to(whole):
        return path.relative_to(whole)
    return Path(path.parent.name, path.name)


def _check_into(into: Path, remakes: list[Remake]) -> None:
    """Raise if a command would write into a folder with a file of the chain."""
    written = {realpath(into), *(realpath(each.output.parent) for each in remakes)}
    for path in (path for remake in remakes for path in remake.reads):
        whole = Path(realpath(path))
        if not written.isdisjoint(map(str, (whole, *whole.parents))):
            raise UsageError(
                f"--into {into}: contains {path}, a compared file or an input; name a new "
                "folder"
            )


def _check_replaceable(remakes: list[Remake]) -> None:
    """Refuse to replace files in --into that an earlier replay has not written."""
    for remake in remakes:
        header, output = remake.link.header, remake.output
        if not remake.open and output.exists():
            client = header.facts.get("client")
            check_replaceable(
                output, "--into", header.stage, (header.kind,), client, force=False
            )


def _check_complete(remakes: list[Remake]) -> None:
    """Raise for missing inputs or images, or if the named file has no command."""
    lost = [r for r in remakes if r.open and (r.link.missing or r.words)]
    lost += [remake for remake in remakes[-1:] if remake.open]
    if lost:
        raise InputError(f"{lost[0].link.path}: {lost[0].open}")


def _run_all(remakes: list[Remake]) -> Iterator[Result]:
    differing, failed = [], []
    for remake in remakes:
        verdict = _verdict(remake)
        if verdict.startswith("differs"):
            differing.append(remake.link.path)
        if verdict.startswith("failed"):
            failed.append(remake.link.path)
        yield f"{remake.link.path}: {verdict}", {**_told(remake), "verdict": verdict}
    if failed:
        raise FurlkitError(
            f"{failed[0]}: the command failed, so the file was not compared; of "
            f"{len(remakes)} files {len(failed)} failed and {len(differing)} differ"
        )
    if differing:
        raise FurlkitError(
            f"{differing[0]}: differs from the replayed file; of {len(remakes)} files "
            f"{len(differing)} differ"
        )


def _bounded(remake: Remake) -> Remake:
    """Refuse to run a command with a number that would take days."""
    for flag, value in [] if remake.open else pairwise(remake.words):
        most = MOST.get(flag.removeprefix("--")) if flag.startswith("--") else None
        if most is not None and _largest(value) > most:
            why = (
                f"the header has {flag} {value}, and --run accepts up to {most:,}; run "
                "the command of replay without --run yourself if the number is right"
            )
            return replace(remake, open=why)
    return remake


def _largest(value: str) -> float:
    """Largest number in a value like 100 or pretext:50,cluster:50."""
    return max(map(float, NUMBER.findall(value)), default=0)


def _verdict(remake: Remake) -> str:
    if remake.open:
        return f"not made again: {remake.open}"
    console.info(shlex.join(["furlkit", *remake.words]))
    remake.output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "furlkit", *remake.words, "--force", "--quiet"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=end_with_parent(),
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"failed with exit code {done.returncode}: {''.join(said)}"
    scores = remake.link.header.kind == "metrics"
    return compared(remake.link.path, remake.output, scores)


def _told(remake: Remake) -> dict[str, Any]:
    made = {"output": str(remake.output), "command": remake.words}
    return {"path": str(remake.link.path), **made, "open": remake.open}
