import hashlib
import zlib

import numpy as np
import pytest

from furlkit.files.container.seal import (
    PIECE,
    checksum,
    crcs_of,
    regrouped,
    starts_in,
)


def digest(data: np.ndarray) -> str:
    return checksum(b"head", crcs_of(data))


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


def test_digest_by_hand():
    data = noise(2 * PIECE + 21)
    pieces = (data[start : start + PIECE] for start in range(0, len(data), PIECE))
    crcs = [zlib.crc32(piece.tobytes()).to_bytes(4, "little") for piece in pieces]
    assert len(crcs) == 3
    assert digest(data) == hashlib.sha256(b"head" + b"".join(crcs)).hexdigest()


@pytest.mark.parametrize("size", [1, 7, 8, 9, 64, PIECE - 1, PIECE, PIECE + 1])
def test_any_flipped_bit_is_found(size):
    data = noise(size)
    before = digest(data)
    for place in {0, size // 3, size // 2, size - 1}:
        for bit in range(8):
            data[place] ^= 1 << bit
            assert digest(data) != before
            data[place] ^= 1 << bit


def difference(bit: int, size: int) -> int:
    """How a flip of one bit changes the crc32 of `size` bytes, whatever they are.

    The crc32 is linear: crc(x ^ d) = crc(x) ^ crc(d) ^ crc(0).
    """
    flipped = bytearray(size)
    flipped[bit // 8] = 1 << bit % 8
    return zlib.crc32(flipped) ^ zlib.crc32(bytes(size))


def test_crc32_is_linear_in_flips():
    data, size = noise(4096), 4096
    for bit in (0, 77, 8 * size - 1):
        changed = data.copy()
        changed[bit // 8] ^= 1 << bit % 8
        found = zlib.crc32(changed.tobytes()) ^ zlib.crc32(data.tobytes())
        assert found == difference(bit, size)


def test_random_pairs_of_flips_are_found():
    data = noise(16_384)
    before, bits = digest(data), 8 * len(data)
    pairs = np.random.default_rng(0).integers(0, bits, (60_000, 2)).tolist()
    for one, other in pairs:
        data[one // 8] ^= 1 << one % 8
        data[other // 8] ^= 1 << other % 8
        assert (digest(data) == before) == (one == other)
        data[one // 8] ^= 1 << one % 8
        data[other // 8] ^= 1 << other % 8


def test_every_pair_of_flips_in_a_block_is_found():
    """No two change the crc32 alike, so that no two cancel; none changes nothing."""
    size = 4096
    changes = {difference(bit, size) for bit in range(8 * size)}
    assert len(changes) == 8 * size and 0 not in changes


def test_every_pair_of_top_bits_of_a_full_piece_is_found():
    """The signs of its 262,144 float32 numbers: no two change the crc32 alike."""
    # Four more bytes behind a flip move its change on by one step.
    change, changes = difference(31, 4), set()
    for _ in range(PIECE // 4):
        changes.add(change)
        change = zlib.crc32(bytes(4), change) ^ zlib.crc32(bytes(4))
    assert change == difference(31, PIECE + 4)
    assert len(changes) == PIECE // 4 and 0 not in changes


def test_bursts_of_32_bits_are_found():
    data, rng = noise(PIECE), np.random.default_rng(1)
    before = digest(data)
    for place in rng.integers(0, PIECE - 4, 50):
        changed = data.copy()
        changed[place : place + 4] ^= rng.integers(1, 256, 4, dtype=np.uint8)
        assert digest(changed) != before


def test_flips_in_different_pieces_are_found():
    data = noise(3 * PIECE)
    before = digest(data)
    for one, other in ((3, PIECE + 3), (3, 2 * PIECE + 3), (PIECE, 3 * PIECE - 1)):
        changed = data.copy()
        changed[[one, other]] ^= 0x80
        assert digest(changed) != before


def test_blocks_that_changed_places_are_found():
    data = noise(4 * PIECE)
    for size in (8, 512, 4096, PIECE):
        turned = data.copy()
        turned[:size], turned[size : 2 * size] = data[size : 2 * size], data[:size]
        assert digest(turned) != digest(data)


def test_digest_depends_on_head_and_body():
    crcs = ([], crcs_of(np.ones(8, np.uint8)))
    digests = {checksum(head, each) for each in crcs for head in (b"a", b"b")}
    assert len(digests) == 4
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE - 1])
def test_pieces_cover_a_tensor(size):
    data = noise(size)
    pieces = [data[start : start + PIECE] for start in starts_in(size)]
    assert b"".join(piece.tobytes() for piece in pieces) == data.tobytes()
    assert all(len(piece) == PIECE for piece in pieces[:-1])


def test_regrouped_bytes_are_the_same_in_full_pieces():
    data = noise(3 * PIECE + 5)
    for cuts in ([], [1, 2, 3], [PIECE, PIECE + 1], [0, 5, 5, 2 * PIECE + 7]):
        pieces = list(regrouped(np.split(data, cuts)))
        assert np.concatenate(pieces).tobytes() == data.tobytes()
        assert [len(p) for p in pieces] == [PIECE, PIECE, PIECE, 5]
    assert list(regrouped([])) == []
