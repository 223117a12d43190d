import numpy as np
import pytest

from furlkit.aggregators.dictionary import dictionary, distinct_rows, unit_rows


def uploads(*counts, d=2):
    """Clients' rows, all different: 0, 1, 2, ... in the first column."""
    numbers = np.arange(sum(counts) * d, dtype=np.float32).reshape(-1, d)
    return np.split(numbers, np.cumsum(counts)[:-1])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 100])
def test_it_is_the_first_k_rows_of_all_in_client_order(size):
    rows = uploads(2, 3, 2)
    kept = dictionary(rows, size)
    everything = [row for client in rows for row in client.tolist()]
    assert np.concatenate(kept).tolist() == everything[:size]


@pytest.mark.parametrize(
    "size, counts",
    [(7, [2, 3, 2]), (9, [2, 3, 2]), (6, [2, 3, 1]), (5, [2, 3, 0]), (1, [1, 0, 0])],
)
def test_the_last_clients_rows_are_cut_off_first(size, counts):
    assert [len(rows) for rows in dictionary(uploads(2, 3, 2), size)] == counts


def test_equal_shares_rounded_up_are_cut_to_k_exactly():
    kept = dictionary(uploads(*[205] * 5), 1024)
    assert [len(rows) for rows in kept] == [205, 205, 205, 205, 204]


def test_rows_keep_their_bytes_and_type():
    rows = uploads(2, 2)
    kept = dictionary(rows, 3)
    assert kept[0].tobytes() == rows[0].tobytes() and kept[1].dtype == np.float32


def test_a_client_without_rows_has_its_place():
    assert [len(r) for r in dictionary(uploads(2, 0, 2), 9)] == [2, 0, 2]


def test_distinct_rows_by_hand():
    rows = np.array([[1, 0], [0.6, 0.8], [1, 0], [0, 1], [0.8, 0.6]], np.float32)
    assert distinct_rows(rows, 0.9).tolist() == rows[[0, 1, 3]].tolist()
    assert distinct_rows(rows, 0.97).tolist() == rows[[0, 1, 3, 4]].tolist()
    assert distinct_rows(rows, 0.5).tolist() == rows[[0, 3]].tolist()
    assert len(distinct_rows(rows[:0], 0.5)) == 0


def test_distinct_rows_in_loops():
    rows = unit_rows(np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32))
    kept = []
    for row in rows.tolist():
        if all(sum(a * b for a, b in zip(row, k, strict=True)) <= 0.8 for k in kept):
            kept.append(row)
    assert distinct_rows(rows, 0.8).tolist() == kept and 5 < len(kept) < 40
