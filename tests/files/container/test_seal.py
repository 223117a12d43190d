from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from furlkit.files.container.seal import PIECE, Checksum, cut, pieces_in, regrouped


def total(data: np.ndarray) -> int:
    checksum = Checksum()
    checksum.add_tensor(data, 0)
    return checksum.total


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


def test_total_matches_loops():
    data, modulus = noise(2 * PIECE + 21), 2**64
    expected = 0
    for place, start in enumerate(range(0, len(data), PIECE)):
        piece = data[start : start + PIECE].tobytes()
        whole = len(piece) // 8
        for number in range(whole):
            word = int.from_bytes(piece[8 * number : 8 * number + 8], "little")
            expected += word * (2 * number + 1) * (2 * place + 1)
        rest = int.from_bytes(piece[8 * whole :], "little")
        expected += rest * (2 * place + 1)
    assert total(data) == expected % modulus


@pytest.mark.parametrize("size", [1, 7, 8, 9, 64, PIECE - 1, PIECE, PIECE + 1])
def test_any_changed_byte_is_found(size):
    data = noise(size)
    before = total(data)
    for place in {0, size // 3, size // 2, size - 1}:
        for bit in range(8):
            data[place] ^= 1 << bit
            assert total(data) != before
            data[place] ^= 1 << bit


def test_blocks_that_changed_places_are_found():
    data = noise(4 * PIECE)
    for size in (8, 512, 4096, PIECE):
        turned = data.copy()
        turned[:size], turned[size : 2 * size] = data[size : 2 * size], data[:size]
        assert total(turned) != total(data)


def test_order_and_threads_do_not_matter():
    data = noise(40 * PIECE)
    checksum = Checksum()

    def add(place: int) -> None:
        checksum.add(data[place * PIECE : (place + 1) * PIECE], place)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, np.random.default_rng(0).permutation(40).tolist()))
    assert checksum.total == total(data)


def test_digest_depends_on_head_and_body():
    one, other = Checksum(), Checksum()
    other.add(np.ones(8, np.uint8), 0)
    digests = {c.digest(head) for c in (one, other) for head in (b"a", b"b")}
    assert len(digests) == 4
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE - 1])
def test_pieces_cover_a_tensor(size):
    parts = list(cut(size))
    assert len(parts) == pieces_in(size)
    assert sum(count for _, count in parts) == size
    assert [start for start, _ in parts] == [k * PIECE for k in range(len(parts))]


def test_regrouped_bytes_are_the_same_in_full_pieces():
    data = noise(3 * PIECE + 5)
    for cuts in ([], [1, 2, 3], [PIECE, PIECE + 1], [0, 5, 5, 2 * PIECE + 7]):
        pieces = list(regrouped(np.split(data, cuts)))
        assert np.concatenate(pieces).tobytes() == data.tobytes()
        assert [len(p) for p in pieces] == [PIECE, PIECE, PIECE, 5]
    assert list(regrouped([])) == []
