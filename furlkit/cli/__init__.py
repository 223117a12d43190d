"""The command line: a module for every command.

Python has loaded both modules below before the first line of furlkit, so `main` takes
over Ctrl-C at once. `signal` itself would first import enum, functools and more.
"""

import _signal
import os

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Import and run the program; Ctrl-C during the imports prints no traceback."""
    _signal.signal(_signal.SIGINT, _end)
    from furlkit.cli import program

    program.main(arguments)


def _end(_number: int, _frame: object) -> None:
    """Exit at once: no work has begun, and imports may swallow an exception."""
    try:
        os.write(2, b"error: interrupted; run the same command again\n")
    finally:
        os._exit(INTERRUPTED)
