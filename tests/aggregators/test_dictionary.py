import numpy as np
import pytest

from furlkit.aggregators.dictionary import dictionary


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
