"""The command line: one module for each command.

Almost nothing is imported here, so that `main` soon takes over Ctrl-C.
"""

import os
import signal

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Import and run the program; Ctrl-C during the imports prints no traceback."""
    signal.signal(signal.SIGINT, _end)
    from furlkit.cli import program

    program.main(arguments)


def _end(_number: int, _frame: object) -> None:
    """End at once: nothing has begun, and an exception would get lost in an import."""
    try:
        os.write(2, b"error: interrupted; run the same command again\n")
    finally:
        os._exit(INTERRUPTED)
