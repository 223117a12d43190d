import json
import re

import numpy as np
import pytest

from furlkit.files.container.layout import DTYPES, Entry, located, place, table

F4 = np.dtype("<f4")


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


def test_places_are_computed_from_types_and_shapes():
    dtypes = DTYPES.items()
    placed = place(Entry(f"t{i}", d, (i, 2)) for i, (_, d) in enumerate(dtypes))
    names = {dtype: name for name, dtype in dtypes}
    parts = [(e.name, names[e.dtype], list(e.shape)) for e in placed]
    assert located(parts) == sorted(placed, key=lambda e: (e.start, e.end))


def test_empty_tensors_are_in_one_order_whatever_the_library_gives():
    parts = [("b", "F32", [0]), ("a", "F32", [0]), ("w", "F32", [2]), ("c", "F32", [0])]
    assert [e.name for e in located(parts)] == ["a", "b", "w", "c"]


def test_table_by_hand():
    entries = place([Entry("w", F4, (2,)), Entry("a", np.dtype("int8"), ())])
    assert json.loads(table(entries, {"format": "pt"})) == {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "a": {"dtype": "I8", "shape": [], "data_offsets": [8, 9]},
    }


@pytest.mark.parametrize(
    "name, dtype, shape, message",
    [
        ("w", "F32", [1] * 9, "w has the shape"),
        ("w", "F32", [2**32, 2**32], "w has the shape"),
        ("w", "F32", [0, 2**62], "w has the shape"),
        ("w", "BF16", [2], "w has the type BF16; furlkit reads BOOL"),
        ("../w", "F32", [2], "'../w', looks like a path"),
        ("a/b", "F32", [2], "looks like a path"),
        ("a\\b", "F32", [2], "looks like a path"),
        ("", "F32", [2], "the unusable name ''"),
        ("a\x1b[31m", "F32", [2], r"the unusable name 'a\x1b[31m'"),
        ("a" * 301, "F32", [2], "the unusable name"),
    ],
)
def test_what_the_library_accepts_and_furlkit_refuses(name, dtype, shape, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        located([(name, dtype, shape)])
    if dtype in DTYPES:
        with pytest.raises(ValueError, match=re.escape(message)):
            place([Entry(name, DTYPES[dtype], tuple(shape))])
