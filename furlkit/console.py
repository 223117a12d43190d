"""What people see: results on stdout, everything else on stderr.

A progress bar is drawn on a terminal only; elsewhere there are plain log lines. rich is
imported only when a bar is drawn. A message that cannot be written to stderr is dropped:
a training does not stop for it. A result that cannot be written to stdout is an error.
"""

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import Any, TextIO

from furlkit.errors import DiskError, InputError


@dataclass
class _Settings:
    """Set once by the command line; `warned` are the warnings that it has given."""

    verbosity: int = 0
    json: bool = False
    strict: bool = False
    warned: set[str] = field(default_factory=set)

    def reset(self) -> None:
        """Back to what holds without -q, -v, --json and --strict."""
        self.verbosity, self.json, self.strict = 0, False, False
        self.warned.clear()


settings = _Settings()
LONGEST = 2000  # Characters of a message; a path may take most of them.
# What moves a terminal's cursor, reorders what is read, or cannot be written as UTF-8.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
# Errors of a stderr that is closed, full, or a pipe that nobody reads.
unwritable_ignored = suppress(OSError, ValueError, AttributeError)


def plain(text: str) -> str:
    """Escape what could move a terminal's cursor: files are not trusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def one_line(message: str) -> str:
    """A message on one line of bounded length; the middle of a longer one is cut out."""
    text = plain(message)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def printable(text: str) -> str:
    """Escape what could move a terminal's cursor, apart from tabs and line breaks."""
    return _CONTROL.sub(lambda found: _escaped(found[0]), text)


def result(line: str, data: dict[str, Any]) -> None:
    """The result of a stage: a line for people, or JSON with --json.

    It may have several lines, and tabs, as rules of make do.
    """
    text = _json(data) if settings.json else printable(line)
    try:
        print(text, flush=True)
    except OSError as error:
        # Python's own flush at the end must not fail a second time.
        _discard(sys.stdout)
        # Whoever read our output has gone, as `head` does; that is no failure.
        if not isinstance(error, BrokenPipeError):
            raise DiskError(
                f"stdout: cannot write the result: {error.strerror}; make room or "
                "redirect it, then run the same command again"
            ) from error


def _json(data: dict[str, Any]) -> str:
    """JSON with sorted keys; a number that is not finite is null."""
    try:
        text = json.dumps(data, sort_keys=True, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(data), parse_constant=lambda _: None)
        text = json.dumps(finite, sort_keys=True)
    return text.replace("\x7f", "\\u007f")  # The one control character JSON leaves.


def escape_unprintable() -> None:
    """Let stdout accept every character, such as Chinese names in the C locale.

    A terminal shows escapes; a program that reads a pipe gets UTF-8.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        in_ascii = codecs.lookup(sys.stdout.encoding).name == "ascii"
        piped = in_ascii and not sys.stdout.isatty()
        sys.stdout.reconfigure(
            encoding="utf-8" if piped else None, errors="backslashreplace"
        )


def open_missing_streams() -> None:
    """Open /dev/null as stdin, stdout and stderr where the caller has closed them.

    A file that is opened later must never become stderr.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest free number: this one.
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def release_streams() -> None:
    """Drop what stderr did not take, so that Python's flush at the end cannot fail."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def clear() -> None:
    """On a terminal, let the next result take the place of the last one."""
    with unwritable_ignored:
        if sys.stdout.isatty():
            print("\033[H\033[J", end="", flush=True)


def info(message: str) -> None:
    """Progress in words; silent with -q."""
    if settings.verbosity >= 0:
        _say("", message)


def detail(message: str) -> None:
    """Details; shown with -v."""
    if settings.verbosity >= 1:
        _say("", message)


def warn(message: str) -> None:
    """Something the user should look at; shown with -q too, and only once.

    With --strict it is an error, so whoever warns does so before it writes a result.
    """
    if settings.strict:
        raise InputError(f"{message} (a warning, which --strict makes an error)")
    if message not in settings.warned:
        settings.warned.add(message)
        _say(_coloured("warning: ", "33"), message)


def error(message: str) -> None:
    """Why the program ends."""
    _say(_coloured("error: ", "31"), message)


def _say(kind: str, message: str) -> None:
    with unwritable_ignored:
        sys.stderr.write(f"{kind}{one_line(message)}\n")
        sys.stderr.flush()


def _coloured(text: str, code: str) -> str:
    if os.environ.get("NO_COLOR") or not _on_terminal():
        return text
    return f"\033[{code}m{text}\033[0m"


def _on_terminal() -> bool:
    with unwritable_ignored:
        return sys.stderr.isatty()
    return False


class Bar:
    """A progress bar, or nothing at all where there is no terminal."""

    def __init__(self, task: Any = None, progress: Any = None):
        self._task, self._progress = task, progress

    def reach(self, done: int, note: str = "") -> None:
        """Show that `done` units are done."""
        if self._progress is not None:
            with unwritable_ignored:
                self._progress.update(self._task, completed=done, note=note)


@contextmanager
def bar(title: str, total: int) -> Iterator[Bar]:
    """A bar for `total` units of work."""
    if settings.verbosity < 0 or not _on_terminal():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.fields[note]}"),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(title, total=total, note="")
    with unwritable_ignored:
        progress.start()
    try:
        yield Bar(task, progress)
    finally:
        with unwritable_ignored:
            progress.stop()
