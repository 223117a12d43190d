"""Tables of Hugging Face: columns, labels, and damaged files."""

import json
import os
import random
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from furlkit.data.sets.parquet import BATCH, read_table
from furlkit.errors import InputError
from furlkit.files.dataset import read_dataset
from tests.data.sets.shard_files import (
    colour_images,
    table,
    write_arrow,
    write_parquet,
)
from tests.helpers import furlkit

IMAGES = colour_images(5)


def packed(path, *options):
    output = path.with_suffix(".st")
    assert furlkit("pack", path, *options, "-o", output) == 0
    return read_dataset(output)


@pytest.mark.parametrize("plain", [True, False])
def test_images_are_bytes_or_a_struct(tmp_path, plain):
    path = write_parquet(tmp_path / "t.parquet", table(IMAGES, plain=plain))
    found = packed(path)
    assert found.labels is None
    assert len(found.images) == 5


def test_another_column_is_taken_if_the_schema_calls_it_an_image(tmp_path):
    rows = table(IMAGES, [1, 0, 1, 1, 0], ["a", "b"], columns=("img", "fine_label"))
    found = packed(write_parquet(tmp_path / "t.parquet", rows))
    assert found.labels.tolist() == [1, 0, 1, 1, 0]
    assert found.facts.class_names == ["a", "b"]


@pytest.mark.parametrize(
    "labels, numbers, names",
    [
        ([1, 0, 2, 1, 0], [1, 0, 2, 1, 0], ["0", "1", "2"]),
        (["b", "a", "b", "b", "a"], [1, 0, 1, 1, 0], ["a", "b"]),
        ([-1] * 5, None, []),
        ([None] * 5, None, []),
    ],
)
def test_labels_without_names_in_the_schema(tmp_path, labels, numbers, names):
    found = packed(write_parquet(tmp_path / "t.parquet", table(IMAGES, labels)))
    assert (None if numbers is None else found.labels.tolist()) == numbers
    assert found.facts.class_names == names


@pytest.mark.parametrize(
    "rows, word",
    [
        (table(IMAGES, [0, 1, None, 1, 1]), "row 2 has no label"),
        (table(IMAGES, [0.5] * 5), "float"),
        (table(IMAGES, [[0]] * 5), "list"),
        (table(IMAGES, [0, 1, 2, 3, 4], ["a"]), "1 class names"),
        (table(IMAGES, columns=("picture", "label")), "expected a column called image"),
        (pa.table({"image": ["a.png"]}), "expected bytes"),
        (table([None, IMAGES[0]]), "no bytes"),
        (table([b"text"]), "row 0"),
        (table([]), "no images"),
    ],
)
@pytest.mark.parametrize("write", [write_parquet, write_arrow])
def test_tables_that_are_refused(tmp_path, rows, word, write, capsys):
    path = tmp_path / f"t.{write.__name__.removeprefix('write_')}"
    write(path, rows)
    assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
    error = capsys.readouterr().err
    assert path.name in error and word in error


def test_more_rows_than_bytes_are_refused(tmp_path, capsys):
    rows = table([IMAGES[0]] * 50_000, plain=True)
    path = write_parquet(tmp_path / "t.parquet", rows, group=50_000)
    assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
    assert "t.parquet: declares 50,000 rows" in capsys.readouterr().err


def test_a_bomb_is_refused(tmp_path, capsys):
    path = tmp_path / "t.parquet"
    pq.write_table(table([bytes(70 * 2**20)], plain=True), path, compression="zstd")
    assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
    assert "may unpack to" in capsys.readouterr().err


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_is_refused(tmp_path, stream, compression, capsys):
    rows = table(IMAGES)
    words = pa.array(["a", "b", "a", "b", "b"]).dictionary_encode()
    for number, each in enumerate((rows, rows.append_column("words", words))):
        path = tmp_path / f"{number}.arrow"
        write_arrow(path, each, stream=stream, compression=compression)
        assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
        assert f"{number}.arrow: is compressed" in capsys.readouterr().err


def test_labels_of_arrow_may_be_in_a_dictionary(tmp_path):
    words = pa.array(["b", "a", "b", "b", "a"]).dictionary_encode()
    rows = table(IMAGES).append_column("label", words)
    found = packed(write_arrow(tmp_path / "t.arrow", rows))
    assert found.labels.tolist() == [1, 0, 1, 1, 0]


def test_shards_with_other_class_names_are_refused(tmp_path, capsys):
    write_parquet(tmp_path / "a-0.parquet", table(IMAGES, [0] * 5, ["a", "b"]))
    write_parquet(tmp_path / "a-1.parquet", table(IMAGES, [0] * 5, ["b", "a"]))
    assert furlkit("pack", tmp_path, "-o", tmp_path / "x.st") == 65
    assert "a-1.parquet: has other class names" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_are_read_in_any_order(tmp_path, kind):
    contents = [str(number).encode() * 3 for number in range(10 * BATCH + 3)]
    write = {"parquet": write_parquet, "arrow": write_arrow}[kind]
    read = read_table(write(tmp_path / f"t.{kind}", table(contents), 37), True).open()
    order = list(range(len(contents)))
    random.Random(0).shuffle(order)
    for row in (*range(len(contents)), *order):
        assert read(f"row {row}") == contents[row]


def reason_to_refuse(path):
    """Read all rows of a table; None if it has no error."""
    try:
        shard = read_table(path, labelled=True)
        read = shard.open()
        for name in shard.names:
            read(name)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_damaged_tables_are_refused_or_read(tmp_path, kind):
    """No damage ends the process, and every error names the file."""
    path, rows = tmp_path / "t", table(IMAGES, [0, 1, 0, 1, 1], ["a", "b"])
    if kind == "parquet":
        write_parquet(path, rows)
    else:
        write_arrow(path, rows, stream=kind == "stream")
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for trial in range(150):
        content = bytearray(whole)
        if trial % 3 == 0:
            del content[rng.integers(len(content)) :]
        else:
            # Most of the bytes are images, metadata is at both ends.
            ends = np.r_[: min(900, len(content)), -min(900, len(content)) : 0]
            for place in rng.choice(ends, 1 + trial % 4):
                content[place] = rng.integers(256)
        path.write_bytes(content)
        reason = reason_to_refuse(path)
        assert reason is None or str(path) in reason
        refused += reason is not None
    assert refused > 50


def test_hostile_features_are_refused(tmp_path, capsys):
    for number, entry in enumerate(("[", "[]", '{"info": 1}', "{}")):
        rows = table(IMAGES).replace_schema_metadata({"huggingface": entry})
        path = write_parquet(tmp_path / f"{number}.parquet", rows)
        assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
        assert path.name in capsys.readouterr().err
    features = {"label": {"_type": "ClassLabel", "names": 7}}
    entry = json.dumps({"info": {"features": features}})
    rows = table(IMAGES, [0] * 5).replace_schema_metadata({"huggingface": entry})
    path = write_parquet(tmp_path / "names.parquet", rows)
    assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
    assert "names.parquet" in capsys.readouterr().err


def test_without_pyarrow_the_extra_is_named(tmp_path, capsys, monkeypatch):
    path = write_parquet(tmp_path / "t.parquet", table(IMAGES))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
    assert "pip install 'furlkit[parquet]'" in capsys.readouterr().err


PEAK = """
import sys
from pathlib import Path
from furlkit.data.sets.parquet import read_table
from furlkit.errors import InputError

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

before = peak()
try:
    shard = read_table(Path(sys.argv[1]), True)
    read = shard.open()
    for name in shard.names:
        read(name)
except InputError as error:
    print(error)
print(peak() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
@pytest.mark.parametrize("column", ["image", "label"])
def test_a_long_value_in_many_rows_takes_memory_once(tmp_path, python, column):
    """Parquet stores the value once: a small file would take 2,000 MB."""
    path, rows = tmp_path / "t.parquet", 200
    long = {"image": bytes(10**7), "label": "x" * 10**7}
    columns = {"image": [b"image"] * rows, "label": ["label"] * rows}
    columns[column] = pa.array([long[column]] * rows).dictionary_encode()
    # Without the schema of Arrow, a reader takes plain columns, not dictionaries.
    limit = {"compression": "zstd", "dictionary_pagesize_limit": 2**26}
    pq.write_table(pa.table(columns), path, store_schema=False, **limit)
    assert path.stat().st_size < 20_000
    told = python(PEAK, path)
    *reason, peak = told.splitlines()
    assert int(peak) < 400_000  # kB
    if column == "label":
        assert "t.parquet" in reason[0] and "label" in reason[0]
