"""The time of a start of the program."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def run() -> Iterator[str]:
    """The best of five starts, with compiled modules, as in an installed package."""
    environment = {k: v for k, v in os.environ.items() if k != NO_BYTECODE}
    for arguments in (["--help"], ["sample", "--clients", "0-9"]):
        with tempfile.TemporaryDirectory() as folder:
            environment["PYTHONPYCACHEPREFIX"] = folder
            seconds = min(_once(arguments, environment) for _ in range(5))
        yield f"furlkit {arguments[0]}: {seconds:.2f} s (bar for --help: 0.15)"


def _once(arguments: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "furlkit", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - began
