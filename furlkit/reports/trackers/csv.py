"""One tidy table, points.csv: a row for each point."""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from furlkit.errors import InputError
from furlkit.files.opening import open_in_place
from furlkit.reports.trackers.points import Point

COLUMNS = Point._fields[:-1]  # Without the step: round and epoch determine the step.
VALUE = COLUMNS.index("value")
KEY = tuple(COLUMNS.index(k) for k in ("run", "round", "client", "epoch", "name"))


class Writer:
    """Appends rows; a row that a kill cut short is removed first."""

    def __init__(self, folder: Path):
        self.path = folder / "points.csv"
        folder.mkdir(parents=True, exist_ok=True)
        handle = open_in_place(self.path, os.O_RDWR | os.O_CREAT)
        self._stream = os.fdopen(handle, "r+b")
        try:
            self._values = self._read()
        except (ValueError, IndexError, csv.Error) as error:
            raise InputError(
                f"{self.path}: is not a table of furlkit log: {error}; choose another -o"
            ) from error

    def _read(self) -> dict[tuple[str, ...], float]:
        raw = self._stream.read()
        raw = raw[: raw.rfind(b"\n") + 1]
        rows = list(csv.reader(io.StringIO(raw.decode(), newline="")))
        if rows and tuple(rows[0]) != COLUMNS:
            raise ValueError(f"has other columns than {','.join(COLUMNS)}")
        self._stream.seek(len(raw))
        self._stream.truncate()
        if not rows:
            self._stream.write(_line(COLUMNS))
        return {tuple(row[k] for k in KEY): float(row[VALUE]) for row in rows[1:]}

    def value(self, point: Point) -> float | None:
        """Value of this point in the table; None without the point."""
        row = _row(point)
        return self._values.get(tuple(row[k] for k in KEY))

    def add(self, point: Point) -> None:
        """Add a row."""
        row = _row(point)
        self._stream.write(_line(row))
        self._values[tuple(row[k] for k in KEY)] = point.value

    def flush(self) -> None:
        """Write the rows to the file."""
        self._stream.flush()

    def close(self) -> None:
        """Write the rows, and close the file."""
        self._stream.close()


def _line(row: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue().encode()


def _row(point: Point) -> list[str]:
    return ["" if cell is None else str(cell) for cell in point[:-1]]
