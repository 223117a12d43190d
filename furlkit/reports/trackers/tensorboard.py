"""Event files of TensorBoard, without a dependency: one file per run.

A record is the length of the data (8 bytes), a checksum of the length, the data and a
checksum of the data. The data is a message of protocol buffers (tensorflow.Event):

    1 wall_time: double   2 step: varint   3 file_version: text (first record only)
    5 summary { 1 value { 1 tag: text   2 simple_value: float } }
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from furlkit.files.opening import open_in_place
from furlkit.reports.trackers.points import Point

NAME = "events.out.tfevents.0.furlkit"
VERSION = b"brain.Event:2"
LENGTH, CHECK = struct.Struct("<Q"), struct.Struct("<I")
SIZES = {1: 8, 5: 4}  # Bytes of the fixed wire types: double and float.


class Writer:
    """Appends events; a record that a kill cut short is removed first."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._streams: dict[str, BinaryIO] = {}
        self._values: dict[tuple[str, str, int], float] = {}

    def _stream(self, run: str) -> BinaryIO:
        """Open the event file of a run, and read the points in the file."""
        if run not in self._streams:
            path = self.folder / run / NAME
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = open_in_place(path, os.O_RDWR | os.O_CREAT)
            self._streams[run] = stream = os.fdopen(handle, "r+b")
            events, end = read_events(stream.read())
            for tag, step, value in events:
                self._values[run, tag, step] = value
            stream.seek(end)
            stream.truncate()
            if not end:
                stream.write(record(field(3, VERSION)))
        return self._streams[run]

    def value(self, point: Point) -> float | None:
        """Value of this point in the event file; None without the point."""
        self._stream(point.run)
        return self._values.get((point.run, point.tag, point.step))

    def add(self, point: Point) -> None:
        """Add an event."""
        self._stream(point.run).write(record(event(point)))
        self._values[point.run, point.tag, point.step] = point.value

    def flush(self) -> None:
        """Write the events to the files."""
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        """Write the events, and close the files."""
        for stream in self._streams.values():
            stream.close()


# --- records --------------------------------------------------------------------------


def _table() -> list[int]:
    """Checksums of single bytes by the polynomial of CRC-32C."""
    table = list(range(256))
    for _ in range(8):
        table = [n >> 1 ^ 0x82F63B78 * (n & 1) for n in table]
    return table


TABLE = _table()


def checksum(data: bytes) -> bytes:
    """CRC-32C, rotated by 15 bits plus a constant, as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return CHECK.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """Data with length and checksums."""
    length = LENGTH.pack(len(data))
    return length + checksum(length) + data + checksum(data)


def read_events(raw: bytes) -> tuple[list[tuple[str, int, float]], int]:
    """Tag, step and value of each event, and the end of the last complete record."""
    events, end = [], 0
    while len(raw) >= end + 12:
        (size,) = LENGTH.unpack_from(raw, end)
        data = raw[end + 12 : end + 12 + size]
        if raw[end : end + 16 + size] != record(data):
            break
        end += 16 + size
        known = dict(fields(data))
        for _, value in fields(known.get(5, b"")):
            point = dict(fields(value))
            tag, number = point[1].decode(), struct.unpack("<f", point[2])[0]
            events.append((tag, known.get(2, 0), number))
    return events, end


# --- protocol buffers -----------------------------------------------------------------


def event(point: Point) -> bytes:
    """Event with one value."""
    number = b"\x15" + struct.pack("<f", point.value)
    summary = field(1, field(1, point.tag.encode()) + number)
    time = b"\x09" + struct.pack("<d", point.seconds)
    return time + b"\x10" + varint(point.step) + field(5, summary)


def field(number: int, data: bytes) -> bytes:
    """Field with text or a message: wire type 2."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """Whole number in groups of 7 bits, the lowest group first."""
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and content of each field of a message."""
    place = 0
    while place < len(data):
        kind, size = data[place] & 7, SIZES.get(data[place] & 7, 0)
        number, place = data[place] >> 3, place + 1
        if kind in (0, 2):
            whole, place = _read_varint(data, place)
            if kind == 0:
                yield number, whole
                continue
            size = whole
        yield number, data[place : place + size]
        place += size


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while data[place] & 0x80:
        number |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | data[place] << shift, place + 1
