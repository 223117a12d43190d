"""What people see: results on stdout, everything else on stderr.

A progress bar is drawn on a terminal only; elsewhere plain log lines stand for it.
rich is imported only when a bar is drawn.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class _Settings:
    """Set once by the command line."""

    verbosity: int = 0
    json: bool = False

    def reset(self) -> None:
        """Back to what holds without -q, -v and --json."""
        self.verbosity, self.json = 0, False


settings = _Settings()


def result(line: str, data: dict[str, Any]) -> None:
    """The result of a stage: a line for people, or JSON with --json."""
    text = json.dumps(data, sort_keys=True) if settings.json else line
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; that is no failure, and
        # Python's own flush at the end must not make one of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def info(message: str) -> None:
    """What is going on; silent under -q."""
    if settings.verbosity >= 0:
        _say(message)


def detail(message: str) -> None:
    """What only the curious want to know; needs -v."""
    if settings.verbosity >= 1:
        _say(message)


def warn(message: str) -> None:
    """Something the user should look at; said even under -q."""
    _say(_coloured("warning: ", "33") + message)


def error(message: str) -> None:
    """Why the program ends."""
    _say(_coloured("error: ", "31") + message)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _coloured(text: str, code: str) -> str:
    if os.environ.get("NO_COLOR") or not sys.stderr.isatty():
        return text
    return f"\033[{code}m{text}\033[0m"


class Bar:
    """A progress bar, or nothing at all where there is no terminal."""

    def __init__(self, task: Any = None, progress: Any = None):
        self._task, self._progress = task, progress

    def reach(self, done: int, note: str = "") -> None:
        """Show that `done` units are over."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, note=note)


@contextmanager
def bar(title: str, total: int) -> Iterator[Bar]:
    """A bar for `total` units of work."""
    if settings.verbosity < 0 or not sys.stderr.isatty():
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
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress.add_task(title, total=total, note=""), progress)
