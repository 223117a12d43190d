"""Journals: the events of a stage, one JSON object on each line.

A journal is for watching and plotting; times and throughput differ between runs. Each
start of a training is a line with the versions and the machine.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from furlkit.errors import DiskError, InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.opening import (
    LONGEST_LIST,
    open_in_place,
    open_regular,
    read_bytes,
)

# Entries of a start about versions and instruction set, which decide the rounding.
DECISIVE = ("furlkit", "torch", "numpy", "cpu", "isa")
# Below these values of an epoch the representation is nearly a point, or a line.
COLLAPSED_SPREAD, COLLAPSED_RANK = 0.1, 1.5


class Journal:
    """Journal beside an output: `client_0.safetensors` has `client_0.log.jsonl`."""

    def __init__(self, output: Path):
        name = output.name.removesuffix(".safetensors")
        self.path = output.with_name(name + ".log.jsonl")

    def check_replaceable(self) -> None:
        """Refuse to replace a file of another program."""
        if not self.path.is_file():
            return
        with open_regular(self.path) as stream:
            begin = stream.read(1)
        if begin not in (b"", b"{"):
            raise InputError(
                f"{self.path}: exists and is no journal; the journal of the output would "
                "replace the file: move the file, or choose another name"
            )

    def rewind(self, step: int) -> None:
        """Drop the lines after `step`, because these steps are about to be repeated."""
        self.check_replaceable()
        lines = self.read() if step else []
        kept = [line for line in lines if line.get("step", 0) <= step]
        text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in kept)
        # An empty journal has nothing to lose.
        write_bytes(self.path, text.encode(), flush=bool(kept))

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line with the current time."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {**entry, "time": now}
        try:
            handle = open_in_place(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(handle, "a") as stream:
                stream.write(json.dumps(entry, sort_keys=True) + "\n")
        except OSError as error:
            raise DiskError(
                f"{self.path}: cannot write: {error.strerror}; make room, then run "
                "this command again"
            ) from error

    def note_result(self, data: dict[str, Any], warnings: Iterable[str] = ()) -> None:
        """Append the result of some work and the warnings, after writing the output."""
        warned = {"warnings": said} if (said := [*dict.fromkeys(warnings)]) else {}
        with suppress(DiskError):  # Only a repeated command reads the line.
            self.write({"event": "result", **data, **warned})

    def result(self, content: str) -> dict[str, Any]:
        """Result of the work that wrote the output with this content hash.

        Empty for stages without a journal, and in journals of earlier versions.
        """
        with suppress(InputError):
            for line in self.read():
                if line.get("event") == "result" and line.get("content") == content:
                    return {k: v for k, v in line.items() if k not in ("event", "time")}
        return {}

    def machine(self) -> dict[str, Any]:
        """Versions and machine of the last start; empty without a start."""
        starts = [line for line in self.read() if line.get("event") == "start"]
        return starts[-1] if starts else {}

    def read(self) -> list[dict[str, Any]]:
        """Return the complete lines; empty without a journal."""
        try:
            raw = read_bytes(self.path, LONGEST_LIST)
        except InputError:
            if self.path.exists():
                raise
            return []
        lines = []
        for text in raw.decode(errors="replace").splitlines():
            line = parse_line(text)
            if line is None:
                break  # A line cut short by a kill ends the usable part.
            lines.append(line)
        return lines


def described(machine: dict[str, Any]) -> str:
    """Describe versions and instruction set of a start in words."""
    return ", ".join(f"{k} {machine[k]}" for k in DECISIVE if machine.get(k))


def seconds_of(lines: Iterable[dict[str, Any]]) -> float:
    """Sum of the seconds from each start in a journal to the last line before a restart."""
    total = 0.0
    start: datetime | None = None
    last: datetime | None = None
    for line in [*lines, {"event": "start"}]:
        try:
            time: datetime | None = datetime.fromisoformat(str(line.get("time")))
        except ValueError:
            time = last
        if line.get("event") == "start":
            total += (last - start).total_seconds() if start and last else 0
            start = time
        last = time
    return total


def cpu_seconds_of(lines: Iterable[dict[str, Any]]) -> float | None:
    """Sum of the CPU seconds of a journal's epochs; None if an epoch does not tell."""
    epochs = [line for line in lines if line.get("event") == "epoch"]
    seconds = [line.get("cpu_seconds") for line in epochs]
    told = [one for one in seconds if isinstance(one, int | float)]
    return sum(told) if epochs and len(told) == len(epochs) else None


def parse_line(text: str | bytes) -> dict[str, Any] | None:
    """Parse a line of a journal; None for an incomplete line."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
