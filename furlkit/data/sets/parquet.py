"""Tables of Hugging Face `datasets`: Parquet, and Arrow files or streams.

The column `image` holds encoded images, bytes or a struct of bytes and path; the
optional column `label` holds numbers or names. Other names are possible if the schema's
entry `huggingface` declares an Image or a ClassLabel. Paths in cells are not opened.
"""

import json
import struct
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.data.sets.decode import MOST_BYTES
from furlkit.data.sets.idx import check_unpacked
from furlkit.data.sets.shard import Label, Shard
from furlkit.errors import FurlkitError, InputError
from furlkit.files.opening import open_regular

EXTRA = "read it after: pip install 'furlkit[parquet]'"
BATCH = 16  # Rows of Parquet in memory at a time, which may be large images.
KEPT = 4  # Batches: threads ask for rows nearly in order.
MUCH = 20  # Images shrink by less; a value that many rows repeat shrinks by more.
LONGEST_LABEL = 4096  # Characters.
ROW = "row "


class Table(NamedTuple):
    """A file of rows: reading can begin at the rows `starts`, the first is 0.

    `batches` reads columns from a start on, one record batch at a time.
    """

    schema: Any
    rows: int
    starts: list[int]
    batches: Callable[[int, str], Iterator[Any]]


def read_table(path: Path, labelled: bool) -> Shard:
    """Read the labels of a table; images are read on demand."""
    with _reading(path):
        table = _open(path)
        features = _features(table.schema)
        image = _image_column(path, table.schema, features)
        label = _column(table.schema, features, "label", "ClassLabel")
        labels: list[Label] = [None] * table.rows
        if labelled and label is not None:
            # Hugging Face writes -1 for a missing label.
            labels = [None if v == -1 else v for v in _values(table, label)]
    if len(labels) != table.rows:
        raise InputError(f"{path}: has {len(labels):,} labels, {table.rows:,} rows")
    names = tuple(f"{ROW}{row}" for row in range(table.rows))
    class_names = _class_names(path, features, label) if labelled else ()
    # Opened again on demand: a dataset of many shards has few open files.
    return Shard(path, names, labels, class_names, lambda: _open_images(path, image))


def _open_images(path: Path, column: str) -> Callable[[str], bytes]:
    with _reading(path):
        cells = Cells(_open(path), column)

    def read(name: str) -> bytes:
        with _reading(path):
            return cells.read(int(name.removeprefix(ROW)))

    return read


class Cells:
    """Cells of a column of images, in any order; fast if rows nearly ascend."""

    def __init__(self, table: Table, column: str):
        self._table, self._column = table, column
        self._lock = threading.Lock()
        self._kept: deque[tuple[int, Any]] = deque(maxlen=KEPT)
        self._batches: Iterator[Any] = iter(())
        self._next = table.rows  # the row that the next batch begins with

    def read(self, row: int) -> bytes:
        """Bytes of the image in a row."""
        with self._lock:
            start, cells = self._batch_of(row)
            value = cells[row - start].as_py()
        content = value.get("bytes") if isinstance(value, dict) else value
        if content is None:
            raise ValueError(
                "the cell has no bytes; paths are not opened, so embed the images"
            )
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        return content

    def _batch_of(self, row: int) -> tuple[int, Any]:
        for start, cells in self._kept:
            if start <= row < start + len(cells):
                return start, cells
        number = bisect_right(self._table.starts, row) - 1
        if not self._table.starts[number] <= self._next <= row:
            self._batches = self._table.batches(number, self._column)
            self._next = self._table.starts[number]
        for batch in self._batches:
            start, cells = self._next, batch.column(0)
            # Offsets of a hostile file may point anywhere.
            cells.validate(full=True)
            self._kept.append((start, cells))
            self._next += len(cells)
            if row < self._next:
                return start, cells
        raise ValueError(f"it ends before row {row:,}")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FurlkitError:
        raise
    except ImportError:
        raise InputError(f"{path}: is a table; {EXTRA}") from None
    except Exception as error:  # Damaged files make pyarrow raise many kinds.
        reason, *_ = str(error).splitlines() or [type(error).__name__]
        text = f"{path}: cannot be read as a table ({reason[:200]})"
        raise InputError(text) from error


def _open(path: Path) -> Table:
    with open_regular(path) as stream:  # A pipe is refused here.
        start = stream.read(6)
        size = stream.seek(0, 2)
    parquet = start[:4] == b"PAR1"
    table = _open_parquet(path, size) if parquet else _open_arrow(path, start)
    # Each row has an image, so a table with more rows than bytes is hostile.
    if table.rows > size:
        raise InputError(f"{path}: declares {table.rows:,} rows in {size:,} bytes")
    return table


def _open_parquet(path: Path, size: int) -> Table:
    from pyarrow.parquet import ParquetFile

    # Without a buffer for whole row groups, only the pages of a batch are in memory.
    file = ParquetFile(path, pre_buffer=False, buffer_size=2**16)
    groups = range(file.metadata.num_row_groups)
    _check_bound(path, file.metadata, size)
    # Rows that repeat a long value are stored once and take memory for each row.
    rows = 1 if any(_shrinks(chunk) for chunk in _chunks(file.metadata)) else BATCH
    sizes = [file.metadata.row_group(each).num_rows for each in groups]
    if min(sizes, default=0) < 0:
        raise ValueError("a group has less than 0 rows")
    starts = [0, *accumulate(sizes)][: len(sizes)] or [0]

    def batches(number: int, column: str) -> Iterator[Any]:
        chosen = list(groups[number:])
        return file.iter_batches(rows, chosen, [column], use_threads=False)

    return Table(file.schema_arrow, sum(sizes), starts, batches)


def _check_bound(path: Path, metadata: Any, size: int) -> None:
    """Refuse a compressed file that unpacks to far more bytes than images do."""
    groups = (metadata.row_group(each) for each in range(metadata.num_row_groups))
    total = sum(group.total_byte_size for group in groups)
    unpacked = sum(chunk.total_uncompressed_size for chunk in _chunks(metadata))
    check_unpacked(path, max(total, unpacked), size)


def _chunks(metadata: Any) -> Iterator[Any]:
    """Columns of all groups of rows."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield from (group.column(place) for place in range(group.num_columns))


def _shrinks(chunk: Any) -> bool:
    return chunk.total_uncompressed_size > MUCH * chunk.total_compressed_size


def _open_arrow(path: Path, start: bytes) -> Table:
    """Map a file or a stream into memory; only rows in use take memory."""
    import pyarrow

    def source() -> Any:
        stream = pyarrow.memory_map(str(path))
        # A file is a stream between 8 bytes and a footer, which is not needed here.
        stream.seek(8 if start == b"ARROW1" else 0)
        return stream

    def batches(_number: int, column: str) -> Iterator[Any]:
        reader = pyarrow.ipc.open_stream(source())
        return (batch.select([column]) for batch in reader)

    for message in pyarrow.ipc.MessageReader.open_stream(source()):
        if _is_compressed(message):
            raise InputError(
                f"{path}: is compressed; write Arrow without compression, or Parquet"
            )
    reader = pyarrow.ipc.open_stream(source())
    rows = sum(batch.num_rows for batch in reader)
    return Table(reader.schema, rows, [0], batches)


def _is_compressed(message: Any) -> bool:
    """Return True if a message of Arrow has compressed buffers, of any unpacked length.

    pyarrow unpacks without a limit and does not tell, so the header is read here: a
    table of flatbuffers, with RecordBatch.compression in the fourth field.
    """
    head = message.metadata.to_pybytes()

    def field(table: int, number: int) -> int:
        """Position of a field; 0 if the table lacks the field."""
        fields = table - _unpack("<i", head, table)
        if _unpack("<H", head, fields) <= 4 + 2 * number:
            return 0
        offset = _unpack("<H", head, fields + 4 + 2 * number)
        return table + offset if offset else 0

    def inner(table: int, number: int) -> int:
        place = field(table, number)
        return place + _unpack("<I", head, place)

    batch = inner(_unpack("<I", head, 0), 2)
    if message.type == "dictionary":
        batch = inner(batch, 1)
    return message.type != "schema" and field(batch, 3) > 0


def _unpack(form: str, content: bytes, place: int) -> int:
    return struct.unpack_from(form, content, place)[0]


def _features(schema: Any) -> dict[str, Any]:
    """Features of Hugging Face by column; {} without the entry."""
    text = (schema.metadata or {}).get(b"huggingface")
    features = json.loads(text)["info"]["features"] if text else {}
    return {name: each for name, each in features.items() if isinstance(each, dict)}


def _column(schema: Any, features: dict[str, Any], name: str, kind: str) -> str | None:
    """Column with this name, or the only column of a kind; otherwise None."""
    if name in schema.names:
        return name
    known = [each for each in features if each in schema.names]
    columns = [each for each in known if features[each].get("_type") == kind]
    return columns[0] if len(columns) == 1 else None


def _image_column(path: Path, schema: Any, features: dict[str, Any]) -> str:
    from pyarrow import types

    column = _column(schema, features, "image", "Image")
    if column is None:
        names = ", ".join(schema.names[:8])
        raise InputError(f"{path}: has columns {names}, expected a column called image")
    kind = schema.field(column).type
    if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    if not (types.is_binary(kind) or types.is_large_binary(kind)):
        raise InputError(
            f"{path}: {column} is {kind}, expected bytes or a struct of bytes and path"
        )
    return column


def _class_names(
    path: Path, features: dict[str, Any], label: str | None
) -> tuple[str, ...]:
    names = features.get(label, {}).get("names") if label else None
    if not (names is None or isinstance(names, list)):
        raise InputError(f"{path}: the names of {label} are not a list")
    return tuple(map(str, names or ()))


def _values(table: Table, column: str) -> Iterator[Any]:
    for batch in table.batches(0, column):
        batch.column(0).validate(full=True)
        for value in batch.column(0).to_pylist():
            if isinstance(value, str | bytes) and len(value) > LONGEST_LABEL:
                raise ValueError(f"a label has {len(value):,} characters")
            yield value
