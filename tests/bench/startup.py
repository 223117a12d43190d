"""The time of a start of the program."""

import subprocess
import sys
import time
from collections.abc import Iterator


def run() -> Iterator[str]:
    """The best of five starts."""
    for arguments in (["--help"], ["sample", "--clients", "0-9"]):
        seconds = min(_once(arguments) for _ in range(5))
        yield f"furlkit {arguments[0]}: {seconds:.2f} s (bar for --help: 0.15)"


def _once(arguments: list[str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "furlkit", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
