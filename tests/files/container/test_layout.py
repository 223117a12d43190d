import re

import numpy as np
import pytest

from furlkit.files.container.layout import DTYPES, Entry, describe, place, understand

F4 = np.dtype("<f4")


def words(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def test_wide_types_come_first_and_every_tensor_is_aligned():
    entries = [
        Entry("b", np.dtype("uint8"), (3,)),
        Entry("z", np.dtype("<f8"), (2,)),
        Entry("a", F4, (3,)),
        Entry("h", np.dtype("<f2"), ()),
    ]
    placed = place(entries)
    assert [(e.name, e.start, e.end) for e in placed] == [
        ("z", 0, 16), ("a", 16, 28), ("h", 28, 30), ("b", 30, 33),
    ]  # fmt: skip
    assert all(e.start % e.dtype.itemsize == 0 for e in placed)
    assert place(reversed(entries)) == placed


def test_words_are_understood_again():
    dtypes = DTYPES.values()
    entries = place(Entry(f"t{i}", d, (i, 2)) for i, d in enumerate(dtypes))
    table = {entry.name: describe(entry) for entry in entries}
    found = understand(dict(reversed(table.items())), entries[-1].end)
    assert {e.name: e for e in found} == {e.name: e for e in entries}
    assert [e.start for e in found] == sorted(e.start for e in entries)


@pytest.mark.parametrize(
    "table, size, message",
    [
        ({"w": words()}, 7, "truncated: 8 bytes of tensors, 7 there"),
        ({"w": words()}, 9, "1 bytes follow the last tensor"),
        ({"w": words(offsets=(4, 12))}, 12, "w starts at 4, not at 0"),
        ({"w": words(), "v": words(offsets=(4, 12))}, 12, "v starts at 4, not at 8"),
        ({"w": words(), "v": words()}, 8, "w starts at 0, not at 8"),
        ({"w": words(offsets=(0, 12))}, 12, "w: its shape needs 8 bytes, its offsets"),
        ({"w": words(offsets=(8, 0))}, 8, "its offsets span -8"),
        ({"w": words(offsets=(0,))}, 8, "w: has the offsets"),
        ({"w": words(offsets=(0.0, 8.0))}, 8, "w: has the offsets"),
        ({"w": words(offsets=(0, True))}, 8, "w: has the offsets"),
        ({"w": words(shape=(-2,))}, 8, "w: has the shape"),
        ({"w": words(shape=(2.0,))}, 8, "w: has the shape"),
        ({"w": words(shape=(1,) * 9, offsets=(0, 4))}, 4, "w: has the shape"),
        ({"w": words(shape=(2**32, 2**32), offsets=(0, 0))}, 0, "w: has the shape"),
        ({"w": words(shape=(0, 2**62), offsets=(0, 0))}, 0, "w: has the shape"),
        ({"w": words(dtype="BF16")}, 8, "w: has the type BF16; furlkit knows BOOL"),
        ({"w": words(dtype=["F32"])}, 8, "w: has the type"),
        ({"w": words(more=1)}, 8, "does not give dtype, shape, data_offsets"),
        ({"w": None}, 8, "does not give dtype, shape, data_offsets"),
        ({"w": {"dtype": "F32"}}, 8, "does not give dtype, shape, data_offsets"),
        ({"../w": words()}, 8, "'../w', which looks like a path"),
        ({"a/b": words()}, 8, "'a/b', which looks like a path"),
        ({"a\\b": words()}, 8, "which looks like a path"),
        ({"": words()}, 8, "the unusable name ''"),
        ({"a\x1b[31m": words()}, 8, r"the unusable name 'a\x1b[31m'"),
        ({"a\ud800": words()}, 8, "the unusable name"),
        ({"a" * 301: words()}, 8, "the unusable name"),
    ],
)
def test_impossible_layouts(table, size, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        understand(table, size)


@pytest.mark.parametrize(
    "entry", [Entry("../w", F4, (1,)), Entry("w", F4, (1,) * 9), Entry("", F4, (1,))]
)
def test_nothing_is_described_that_could_not_be_read_again(entry):
    with pytest.raises(ValueError, match="a tensor has|has the shape"):
        describe(entry)
