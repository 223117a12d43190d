"""Receipts of a planned run: the command and the input contents behind each file.

A command with an output in the folder of a planned run adds two lines to
plan/made.jsonl: at the start, the fingerprint of the command; at the end, also the
content hashes of the written files, and the code of the plugins that the command used. A
file is finished if the last receipt has the fingerprint of the planned command, the
hashes of the present files and the present code. Fingerprints contain no paths and no
times, so a run may be copied or unpacked.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from furlkit.errors import FurlkitError, TooEarlyError
from furlkit.files.contents import Contents, content_of
from furlkit.files.opening import LONGEST_LIST, read_bytes

NOTED, MADE, CACHE = "plan/recipe.json", "plan/made.jsonl", "plan/contents.json"
# Flags and options without an effect on the bytes of an output.
SILENT = frozenset(
    ("-q", "--quiet", "-v", "--verbose", "--json", "--strict", "--force", "--download")
)
PLACES = frozenset(("--data-root", "--cache"))
LONGEST_ERROR = 500  # Characters.
MOST_WARNINGS = 20
UNRECORDED = SILENT | PLACES
OUTPUT = frozenset(("-o", "--output"))
HASH = "sha256:"  # Begin of a word instead of a file or a long text.
LONGEST_WORD = 100  # Characters of a word in a receipt.
MOST_CHANGES = 3
_FLAG = re.compile("--?[A-Za-z]")
_BETWEEN = re.compile("([=,:])")
_SUFFIX = re.compile(r"[^/]\.[A-Za-z]\w*$")
NO_CODE: Mapping[str, str] = MappingProxyType({})
Content = Callable[[str], str | None]


class Receipt(NamedTuple):
    """Fingerprint of a command, and hashes of the written files; None until the end.

    `error`: the message of a failed command. `warnings`: the command's warnings. `code`:
    version and hash of each plugin that the command used, by the plugin's entry.
    `words`: the words of the command, with beginnings of hashes instead of files.
    """

    command: str
    contents: list[str | None] | None = None
    error: str | None = None
    warnings: Sequence[str] = ()
    code: Mapping[str, str] = NO_CODE
    words: Sequence[str] = ()


class Call(NamedTuple):
    """Command for one client: words, written files, and the file of -o."""

    words: list[tuple[str, str]]  # Each with the preceding flag.
    writes: list[str]
    output: str

    def reads_within(self, folder: str) -> list[str]:
        """Return the files that the command reads in the folder of a run."""
        words = (word for _, word in self.words)
        return [w for w in words if _is_inside(w, folder) and _SUFFIX.search(w)]

    def fingerprint(self, folder: str, content: Content, preset: Content) -> str:
        """Hash a command, with the contents of input files instead of their names."""
        texts = (text for _, text in self._texts(folder, content, preset))
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]

    def shortened(self, folder: str, content: Content, preset: Content) -> list[str]:
        """Return the words behind the fingerprint, with short hashes, for people."""
        return [
            f"{HASH}{text if is_content else _hash(text):.12}"
            if is_content or len(text) > LONGEST_WORD
            else text
            for is_content, text in self._texts(folder, content, preset)
        ]

    def _texts(
        self, folder: str, content: Content, preset: Content
    ) -> Iterator[tuple[bool, str]]:
        """Yield the texts that decide the output; True for the content of a file."""
        for flag, word in self.words:
            if flag == "--preset":
                yield False, preset(word) or word
            elif known := content(word):
                yield True, known
            else:
                yield False, _text(word, folder, content)

    def change(self, before: Sequence[str], now: Sequence[str]) -> str:
        """Describe how a command differs from the command of a receipt."""
        if not before:
            return "the command or an input has changed"
        if len(before) != len(now):
            old, new = _by_flag(before), _by_flag(now)
            keys = [k for k in {**old, **new} if old.get(k) != new.get(k)]
            changes = [
                f"{k} {old.get(k, 'none')} -> {new.get(k, 'none')}" for k in keys
            ]
            return "; ".join(changes[:MOST_CHANGES]) or "the order of the options"
        changes = [
            f"{word}: content is {new}, the receipt says {old}"
            if new.startswith(HASH)
            else f"{flag} {old} -> {new}".lstrip()
            for (flag, word), old, new in zip(self.words, before, now, strict=True)
            if old != new
        ]
        return "; ".join(changes[:MOST_CHANGES]) or "a long text has changed"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _by_flag(words: Sequence[str]) -> dict[str, str]:
    """Values of a command by flag; `inputs` are the words before the first flag."""
    found: dict[str, list[str]] = {}
    flag = "inputs"
    for word in words:
        if _FLAG.match(word):
            flag = word
            found.setdefault(flag, [])
        else:
            found.setdefault(flag, []).append(word)
    return {flag: " ".join(values) or "on" for flag, values in found.items()}


def call_of(words: Sequence[str], client: Any, writing: Collection[str]) -> "Call":
    """Parse a command line for a client; a file after a `writing` flag is written."""
    found, writes, output, flag = [], [], "", ""
    for word in _apart(words):
        filled = word.replace("{client}", str(client))
        if flag in writing or flag in OUTPUT:
            writes.append(filled)
            output = filled if flag in OUTPUT else output
        elif flag == "--client" and client is not None:
            found.append((flag, str(client)))
        elif flag not in PLACES and word not in UNRECORDED:
            found.append((flag, filled))
        flag = word if word.startswith("-") else ""
    return Call(found, writes, output)


def _apart(words: Sequence[str]) -> Iterator[str]:
    """Split --flag=value into two words."""
    for word in words:
        flag, equals, value = word.partition("=")
        if equals and flag.startswith("--"):
            yield from (flag, value)
        else:
            yield word


def _text(word: str, folder: str, content: Content) -> str:
    """Return a word with contents instead of file names, also in LABEL=FILE,FILE."""
    parts = _BETWEEN.split(word)
    if len(parts) > 1:
        return "".join(content(part) or part for part in parts)
    inside = bool(folder) and _is_inside(word, folder)
    return f"{{out}}{word[len(folder) :]}" if inside else word


def _is_inside(word: str, folder: str) -> bool:
    return not folder or word == folder or word.startswith(f"{folder}/")


def run_folder(output: str) -> str | None:
    """Return the planned run's folder around a file; "" is the current folder."""
    for folder in Path(output).parents:
        if (folder / NOTED).is_file():
            return "" if folder == Path() else str(folder)
    return None


def stamp(folder: Path) -> tuple[int, int] | None:
    """State of a run's receipts, which changes with each finished step."""
    try:
        known = os.stat(folder / MADE)
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size


@contextmanager
def noting(
    folder: str,
    calls: Sequence[Call],
    preset: Content,
    warned: Collection[str] = (),
    code: Mapping[str, str] = NO_CODE,
) -> Iterator[None]:
    """Note the start of commands, and at the end the contents of written files.

    Inputs are hashed first: replacing an input during the command makes outputs stale.
    `warned` and `code` contain the warnings and the plugins at the end of the command.
    """
    contents = Contents(Path(folder) / CACHE)
    made = {c.output: c.fingerprint(folder, contents.of, preset) for c in calls}
    words = {c.output: c.shortened(folder, contents.of, preset) for c in calls}
    append(folder, {path: Receipt(command) for path, command in made.items()})
    try:
        yield
    except TooEarlyError:
        raise
    except Exception as error:
        said = str(error)[:LONGEST_ERROR]
        found = _shortened(warned)
        append(folder, {p: Receipt(made[p], None, said, found) for p in made})
        raise
    written = {c.output: [content_of(path) for path in c.writes] for c in calls}
    found, used = _shortened(warned), dict(code)
    append(
        folder,
        {p: Receipt(made[p], written[p], None, found, used, words[p]) for p in made},
    )


def _shortened(warned: Collection[str]) -> list[str]:
    return [text[:LONGEST_ERROR] for text in sorted(warned)[:MOST_WARNINGS]]


def append(folder: str, receipts: dict[str, Receipt]) -> None:
    """Add receipts, by output file, in the order of the commands.

    A folder without write permission gets no receipts.
    """
    lines = [
        [os.path.relpath(path, folder or "."), *_without_empty(receipt)]
        for path, receipt in receipts.items()
    ]
    text = "".join(f"\n{json.dumps(line)}" for line in lines) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        handle = os.open(Path(folder) / MADE, flags, 0o666)
        try:
            with suppress(OSError):  # A file system without locks.
                fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, text.encode())
        finally:
            os.close(handle)


def _without_empty(receipt: Receipt) -> list[Any]:
    """Values of a receipt, without empty values after the contents."""
    values = [*receipt]
    values[-2] = dict(receipt.code)
    while len(values) > 3 and not values[-1]:
        values.pop()
    return values


def read(folder: str) -> dict[str, Receipt]:
    """Read the last receipt of each file of a run, by path relative to the folder."""
    try:
        raw = read_bytes(Path(folder) / MADE, LONGEST_LIST)
    except FurlkitError:
        return {}
    found: dict[str, Receipt] = {}
    for line in raw.split(b"\n"):
        with suppress(ValueError, TypeError):  # An incomplete line of a killed process.
            path, *values = json.loads(line)
            receipt = Receipt(*values)
            typed = isinstance(receipt.warnings, list | tuple)
            typed &= isinstance(receipt.code, Mapping)
            typed &= all(isinstance(word, str) for word in receipt.words)
            if typed and isinstance(receipt.contents, list | None):
                found[str(path)] = receipt
    return found
