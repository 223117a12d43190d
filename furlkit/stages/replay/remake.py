"""Printing the commands of a chain, or running them and comparing what they make.

Every command reads the files that were found, not those that another has made again, so
each file is judged for itself: one that differs does not make all later ones differ.

What counts is the file's bytes. Where they differ the tensors are compared: a header may
differ because another version of furlkit wrote it, and the numbers be the same.
"""

import filecmp
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.container.read import Container
from furlkit.files.journal import DECISIVE, Journal
from furlkit.inputs.settings import fill
from furlkit.stages.replay.chain import Link, chain, folder_of_run, found_in
from furlkit.stages.replay.images import finder
from furlkit.stages.replay.words import reason_against, words_of

Result = tuple[str, dict[str, Any]]
SAME = "same bytes"


@dataclass(frozen=True)
class Options:
    """`among` are folders where inputs are looked for, `data` candidates for images."""

    path: Path
    among: tuple[Path, ...]
    data: tuple[str, ...]
    data_root: Path | None
    into: Path | None
    depth: int | None
    run: bool


@dataclass(frozen=True)
class Remake:
    """A file of the chain, the command that makes it as `output`, or why there is none."""

    link: Link
    output: Path
    words: list[str]
    open: str

    @property
    def reads(self) -> list[Path]:
        """The compared file, the inputs of its command, and images that have a path."""
        inputs = (link.path for link in self.link.parents.values() if link)
        pairs = pairwise(self.words)
        data = (Path(value) for flag, value in pairs if flag.endswith("data"))
        return [self.link.path, *inputs, *(path for path in data if path.exists())]

    @property
    def line(self) -> str:
        """The command for a shell, or a comment."""
        path = self.link.path
        # A line break in a forged header would end the comment, and begin a command.
        said = console.plain(f"# {path}: {self.open}" if self.open else f"# {path}")
        return f"{said}\n{shlex.join(['furlkit', *self.words])}" if self.words else said


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Print the commands, or run them and say of each file whether it is the same."""
    options = fill(Options, values)
    with ExitStack() as stack:
        into = options.into or Path("replay")
        if options.run and not options.into:
            into = Path(stack.enter_context(tempfile.TemporaryDirectory(".replay")))
        remakes = _remakes(options, into)
        if options.run:
            yield from _run_all(remakes)
        else:
            commands = [remake.words for remake in remakes if remake.words]
            text = "\n".join(remake.line for remake in remakes)
            yield text, {"commands": commands, "files": [_told(r) for r in remakes]}


def _remakes(options: Options, into: Path) -> list[Remake]:
    for folder in options.among:
        if not folder.is_dir():
            raise InputError(f"--among {folder}: no such folder")
    top = folder_of_run(options.path)
    found = found_in((top, *options.among))
    find = finder(options.data, {"data_root": options.data_root}, found)
    remakes = []
    for link in chain(options.path, found, options.depth):
        path, whole = link.path.absolute(), top.absolute()
        inside = path.relative_to(whole) if path.is_relative_to(whole) else path.name
        words: list[str] = []
        lacking = reason_against(link)
        if not lacking:
            words, lacking = words_of(link, into / inside, find)
        remakes.append(Remake(link, into / inside, words, lacking))
    _check_into(into, remakes)
    return remakes


def _check_into(into: Path, remakes: list[Remake]) -> None:
    """No command may write into a folder that has a file of the chain."""
    written = {realpath(into), *(realpath(each.output.parent) for each in remakes)}
    for path in (path for remake in remakes for path in remake.reads):
        whole = Path(realpath(path))
        if not written.isdisjoint(map(str, (whole, *whole.parents))):
            raise UsageError(
                f"--into {into}: has {path}, which is compared or read; name a folder "
                "that does not exist yet"
            )


def _run_all(remakes: list[Remake]) -> Iterator[Result]:
    differing = []
    for remake in remakes:
        verdict = _verdict(remake)
        if verdict.startswith(("differs", "failed")):
            differing.append(remake.link.path)
        yield f"{remake.link.path}: {verdict}", {**_told(remake), "verdict": verdict}
    if differing:
        raise FurlkitError(
            f"{differing[0]}: is not what its command makes here; of {len(remakes)} "
            f"files {len(differing)} differ"
        )


def _verdict(remake: Remake) -> str:
    if remake.open:
        return f"not made again: {remake.open}"
    console.info(shlex.join(["furlkit", *remake.words]))
    remake.output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "furlkit", *remake.words, "--force", "--quiet"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"failed with exit code {done.returncode}: {''.join(said)}"
    found = _comparison(remake.link.path, remake.output)
    return found if found == SAME else f"{found}{_versions(remake)}"


def _comparison(old: Path, new: Path) -> str:
    """In which way two files are the same."""
    if filecmp.cmp(old, new, shallow=False):
        return SAME
    one, other = Container(old), Container(new)
    theirs, ours = one.tensors(), other.tensors()
    names = sorted(theirs.keys() | ours.keys())
    unlike = [name for name in names if not _same(theirs.get(name), ours.get(name))]
    if unlike:
        return f"differs in {len(unlike)} of {len(names)} tensors, {unlike[0]} first"
    entries = vars(one.header), vars(other.header)
    keys = [k for k in entries[0] if k not in ("content", "check")]
    keys = [key for key in keys if entries[0][key] != entries[1][key]]
    return f"same tensors; its header has other {', '.join(keys)}"


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return False
    alike = (one.dtype, one.shape) == (other.dtype, other.shape)
    return alike and one.tobytes() == other.tobytes()


def _versions(remake: Remake) -> str:
    """What the journals of the two say of the machine, where it is not the same."""
    then, now = (Journal(p).machine() for p in (remake.link.path, remake.output))
    if not then or not now:
        return ""
    changed = [
        f"{name} {then.get(name, 'none')}, now {now.get(name, 'none')}"
        for name in DECISIVE
        if name in then.keys() | now.keys() and then.get(name) != now.get(name)
    ]
    return f" ({'; '.join(changed)})" if changed else ""


def _told(remake: Remake) -> dict[str, Any]:
    made = {"output": str(remake.output), "command": remake.words}
    return {"path": str(remake.link.path), **made, "open": remake.open}
