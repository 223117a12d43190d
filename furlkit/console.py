"""Output for people: results on stdout, messages on stderr.

Progress bars appear on a terminal only; otherwise the output has plain log lines. rich
is imported only for a bar. If stderr fails, the message is dropped and a training goes
on. If stdout fails, the command ends with an error.
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
    """Settings from the command line; `warned`: the warnings given so far.

    `collected`: the list of `collected`, while warnings are not printed. `noted`: the
    lists of `noted`, which get every warning.
    """

    verbosity: int = 0
    json: bool = False
    strict: bool = False
    warned: set[str] = field(default_factory=set)
    collected: list[str] | None = None
    noted: list[list[str]] = field(default_factory=list)

    def reset(self) -> None:
        """Restore the defaults of -q, -v, --json and --strict."""
        self.verbosity, self.json, self.strict = 0, False, False
        self.warned.clear()


settings = _Settings()
LONGEST = 2000  # Characters of a message; most may be a path.
# Characters that move a terminal's cursor, reorder text, or have no UTF-8 encoding.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
# Errors of a stderr that is closed, full, or a pipe without a reader.
unwritable_ignored = suppress(OSError, ValueError, AttributeError)


def plain(text: str) -> str:
    """Escape unprintable characters: text from files is not trusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def one_line(message: str) -> str:
    """Shorten a message to one line of at most LONGEST characters, without the middle."""
    text = plain(message)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def printable(text: str) -> str:
    """Escape control characters, apart from tabs and line breaks."""
    return _CONTROL.sub(lambda found: _escaped(found[0]), text)


def result(line: str, data: dict[str, Any]) -> None:
    """Print the result of a stage: text for people, or JSON with --json.

    The text may have several lines and tabs, for example rules of make.
    """
    text = _json(data) if settings.json else printable(line)
    try:
        print(text, flush=True)
    except OSError as error:
        # Python flushes stdout at exit, which must not fail a second time.
        _discard(sys.stdout)
        # A reader that ends early, like `head`, is no failure.
        if not isinstance(error, BrokenPipeError):
            raise DiskError(
                f"stdout: cannot write the result: {error.strerror}; make room or "
                "redirect the output, then run the same command again"
            ) from error


def _json(data: dict[str, Any]) -> str:
    """JSON with sorted keys; NaN and infinity become null."""
    try:
        text = json.dumps(data, sort_keys=True, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(data), parse_constant=lambda _: None)
        text = json.dumps(finite, sort_keys=True)
    return text.replace("\x7f", "\\u007f")  # json escapes the other controls.


def escape_unprintable() -> None:
    """Let stdout accept every character, for example Chinese names in the C locale.

    A terminal shows escapes; the reader of a pipe gets UTF-8.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        in_ascii = codecs.lookup(sys.stdout.encoding).name == "ascii"
        piped = in_ascii and not sys.stdout.isatty()
        sys.stdout.reconfigure(
            encoding="utf-8" if piped else None, errors="backslashreplace"
        )


def open_missing_streams() -> None:
    """Open /dev/null for each of stdin, stdout and stderr that the caller has closed.

    Otherwise a file opened later would become stderr.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Gets the lowest free number: `number`.
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def release_streams() -> None:
    """Drop unwritten text of stderr, so Python's flush at exit cannot fail."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def clear() -> None:
    """Clear the terminal, so the next result replaces the previous result."""
    with unwritable_ignored:
        if sys.stdout.isatty():
            print("\033[H\033[J", end="", flush=True)


def info(message: str) -> None:
    """Print progress in words; silent with -q."""
    if settings.verbosity >= 0:
        _say("", message)


def detail(message: str) -> None:
    """Print details; only with -v."""
    if settings.verbosity >= 1:
        _say("", message)


def warn(message: str, passing: bool = False) -> None:
    """Print a warning, also with -q; an equal warning is printed once.

    With --strict a warning is an error, so stages warn before writing a result.
    `passing`: the warning is about this call, not about the result.
    """
    if settings.strict:
        raise InputError(f"{message} (a warning; --strict turns warnings into errors)")
    for noted_warnings in () if passing else settings.noted:
        noted_warnings.append(message)
    if settings.collected is not None:
        settings.collected.append(message)
    elif message not in settings.warned:
        settings.warned.add(message)
        _say(_coloured("warning: ", "33"), message)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Note the warnings of some work, to repeat the warnings if the work is repeated."""
    warnings: list[str] = []
    settings.noted.append(warnings)
    try:
        yield warnings
    finally:
        settings.noted.pop()


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect warnings in a list, for example for a page, instead of printing them."""
    before, settings.collected = settings.collected, []
    try:
        yield settings.collected
    finally:
        settings.collected = before


def error(message: str) -> None:
    """Print the error that ends the program."""
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
    """A progress bar; invisible without a terminal."""

    def __init__(self, task: Any = None, progress: Any = None):
        self._task, self._progress = task, progress

    def reach(self, done: int, note: str = "") -> None:
        """Show that `done` units are done."""
        if self._progress is not None:
            with unwritable_ignored:
                self._progress.update(self._task, completed=done, note=note)


@contextmanager
def bar(title: str, total: int) -> Iterator[Bar]:
    """Show a bar for `total` units of work."""
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
