import hashlib
import json
import os
import stat

import numpy as np
import pytest

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container import write as container
from furlkit.files.container.header import LIMIT, UNSEALED, Header
from furlkit.files.container.layout import DTYPES
from furlkit.files.container.read import Container, open_kind

HEADER = Header("private", "test", {"a": 1.5}, 3, {"model": "f" * 64}, {"round": 2})


def random_tensors(seed: int) -> dict[str, np.ndarray]:
    """Any number of tensors of any type and shape, empty and 0-d ones among them."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for number in range(rng.integers(0, 9)):
        dtype = list(DTYPES.values())[rng.integers(len(DTYPES))]
        shape = tuple(rng.integers(0, 5, rng.integers(0, 5)))
        size = int(np.prod(shape)) * dtype.itemsize
        data = rng.integers(0, 2 if dtype.kind == "b" else 256, size, dtype=np.uint8)
        name = f"{'abc'[number % 3]}.ünï {number}"
        tensors[name] = data.view(dtype).reshape(shape)
    return tensors


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype
        and a[k].shape == b[k].shape
        and a[k].tobytes() == b[k].tobytes()
        for k in a
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_is_read_again(tmp_path, seed):
    tensors, path = random_tensors(seed), tmp_path / "x.safetensors"
    content = container.write(path, tensors, HEADER)
    opened = Container(path)
    assert same(opened.tensors(), tensors)
    assert opened.content == content and opened.header.unsealed() == HEADER
    for name, array in tensors.items():
        assert same({"": np.asarray(opened.memmap(name))}, {"": array})
    opened.verify()


@pytest.mark.parametrize("seed", range(40))
def test_safetensors_library_reads_the_same(tmp_path, seed):
    from safetensors import safe_open
    from safetensors.numpy import load_file

    tensors, path = random_tensors(seed), tmp_path / "x.safetensors"
    container.write(path, tensors, HEADER)
    assert same(load_file(path), tensors)
    with safe_open(path, "numpy") as opened:
        assert opened.metadata().keys() == {"format", "furlkit"}
        assert opened.metadata()["format"] == "pt"


def test_safetensors_library_reads_the_same_into_torch(tmp_path):
    from safetensors.torch import load_file

    tensors = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(7)}
    container.write(tmp_path / "x.safetensors", tensors, HEADER)
    loaded = {k: v.numpy() for k, v in load_file(tmp_path / "x.safetensors").items()}
    assert same(loaded, tensors)


def test_every_length_of_header_can_be_read(tmp_path):
    """The length's first byte may be a pickle's, its first two a zip file's."""
    path, tensors = tmp_path / "x.safetensors", {"w": np.ones(2, np.float32)}
    starts = set()
    for padding in (*range(0, 1024, 8), *range(18900, 19000, 8)):
        container.write(path, tensors, Header("private", "x", {"p": "x" * padding}))
        assert same(Container(path).tensors(), tensors)
        starts.add(path.read_bytes()[:2])
    assert {b"PK", b"\x80\x02"} <= starts


def test_order_of_insertion_changes_no_byte(tmp_path):
    tensors = random_tensors(5)
    backwards = dict(reversed(tensors.items()))
    turned = Header(
        "private", "test", {"b": 1, "a": {"y": 1, "x": 2}}, facts={"q": 1, "p": 2}
    )
    straight = Header(
        "private", "test", {"a": {"x": 2, "y": 1}, "b": 1}, facts={"p": 2, "q": 1}
    )
    container.write(tmp_path / "a", tensors, turned)
    container.write(tmp_path / "b", backwards, straight)
    assert len(tensors) > 3
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_metadata_is_canonical_json(tmp_path):
    path = tmp_path / "x.safetensors"
    container.write(path, random_tensors(1), HEADER)
    raw = path.read_bytes()
    text = raw[8 : 8 + int.from_bytes(raw[:8], "little")].decode()
    canonical = {"sort_keys": True, "separators": (",", ":")}
    table = json.loads(text)
    assert text.rstrip(" ") == json.dumps(table, **canonical)
    inner = table["__metadata__"]["furlkit"]
    assert inner == json.dumps(json.loads(inner), **canonical)
    assert (8 + int.from_bytes(raw[:8], "little")) % 8 == 0


@pytest.mark.parametrize("seed", range(10))
def test_content_is_the_sha256_with_the_digits_of_both_hashes_zeroed(tmp_path, seed):
    path = tmp_path / "x.safetensors"
    container.write(path, random_tensors(seed), HEADER)
    header, raw = Container(path).header, path.read_bytes()
    for digits in (header.content, header.check):
        assert raw.count(digits.encode()) == 1
        raw = raw.replace(digits.encode(), UNSEALED.encode())
    assert hashlib.sha256(raw).hexdigest() == header.content


def test_a_name_that_looks_like_the_seal_is_no_seal(tmp_path):
    path, name = tmp_path / "x.safetensors", 'A"content":"' + "1" * 70
    container.write(path, {name: np.ones(1)}, HEADER)
    assert same(Container(path).tensors(), {name: np.ones(1)})


def test_big_endian_and_strided_arrays_keep_their_values(tmp_path):
    path, big = tmp_path / "x.safetensors", np.arange(6, dtype=">f4").reshape(2, 3)
    container.write(path, {"big": big, "strided": big.T[::2]}, HEADER)
    read = Container(path).tensors()
    assert read["big"].dtype == np.dtype("<f4")
    assert read["big"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read["strided"].tolist() == [[0, 3], [2, 5]]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_file_mode_follows_umask(tmp_path, mask):
    old = os.umask(mask)
    try:
        container.write(tmp_path / "x", {"w": np.ones(2)}, HEADER)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask


def test_every_flipped_bit_is_found(tmp_path):
    """Wherever a bit of a small file is flipped, reading it is an error, never a value."""
    path = tmp_path / "x.safetensors"
    container.write(path, {"w": np.arange(3.0), "n": np.array(1)}, HEADER)
    raw = path.read_bytes()
    for place in range(len(raw)):
        broken = bytearray(raw)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        with pytest.raises(InputError, match="x.safetensors: "):
            Container(path).tensors()


def test_pairs_of_flipped_bits_are_found(tmp_path):
    path, rng = tmp_path / "x.safetensors", np.random.default_rng(0)
    container.write(path, {"w": rng.normal(size=900), "v": rng.normal(size=5)}, HEADER)
    raw, start = path.read_bytes(), Container(path).body_start
    for _ in range(200):
        broken = bytearray(raw)
        for bit in rng.choice(8 * (len(raw) - start), 2, replace=False).tolist():
            broken[start + bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(InputError, match="do not match the checksum"):
            Container(path).tensors()


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    """The library reads one of the two; so does Python."""
    path, tensors = tmp_path / "x", {"a": np.ones(2), "b": np.ones(2)}
    container.write(path, tensors, HEADER)
    raw = path.read_bytes()
    text = raw[8 : 8 + int.from_bytes(raw[:8], "little")].rstrip(b" ")
    table = json.loads(text)
    for name in ("a", "__metadata__"):
        again = json.dumps({name: table[name]}, separators=(",", ":"))[1:-1].encode()
        twice = b"{" + again + b"," + text[1:]
        body = raw[-32:]
        path.write_bytes(len(twice).to_bytes(8, "little") + twice + body)
        with pytest.raises(InputError, match="x: .*(twice|duplicate)"):
            Container(path)


def test_every_truncation_is_found(tmp_path):
    path = tmp_path / "x.safetensors"
    container.write(path, {"w": np.arange(3.0)}, HEADER)
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(InputError, match="x.safetensors: "):
            Container(path)


def test_all_checks_find_what_tensors_finds(tmp_path):
    path = tmp_path / "x.safetensors"
    container.write(path, {"w": np.arange(3.0)}, HEADER)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    for check in (Container.tensors, Container.check_body):
        with pytest.raises(InputError, match="do not match the checksum"):
            check(Container(path))
    with pytest.raises(InputError, match="do not match the content hash"):
        Container(path).verify()


def test_file_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "x.safetensors"
    container.write(path, {"w": np.arange(300.0)}, HEADER)
    opened = Container(path)
    os.truncate(path, opened.body_start + 8)
    with pytest.raises(InputError, match="became shorter while it was read"):
        opened.tensors()


def test_blocks_must_add_up_to_the_tensor(tmp_path):
    blocks = container.Blocks(np.dtype("<f4"), (4,), [np.ones(3, np.float32)])
    with pytest.raises(ValueError, match="w: the blocks have 12 bytes, not 16"):
        container.write(tmp_path / "x", {"w": blocks}, HEADER)
    assert list(tmp_path.iterdir()) == []


def test_header_too_large_to_be_read_again_is_not_written(tmp_path):
    header = Header("private", "x", {"p": "x" * LIMIT})
    with pytest.raises(FurlkitError, match="x: the header would take 4194.* bytes"):
        container.write(tmp_path / "x", {}, header)
    assert list(tmp_path.iterdir()) == []


def test_a_tensor_that_is_not_there(tmp_path):
    container.write(tmp_path / "x", {"w": np.ones(1)}, HEADER)
    opened = Container(tmp_path / "x")
    assert "w" in opened and "v" not in opened
    with pytest.raises(InputError, match="x: has no tensor v"):
        opened.entry("v")


def test_wrong_kind(tmp_path):
    container.write(tmp_path / "x", {}, HEADER)
    with pytest.raises(InputError, match="is a private file; expected a checkpoint"):
        open_kind(tmp_path / "x", "checkpoint")


def test_another_checksum_in_the_header_is_found_by_the_content_hash_too(tmp_path):
    """The content hash does not cover the digits of the checksum."""
    path = tmp_path / "f"
    rows = {"rows": np.ones((2, 3), np.float32)}
    container.write(path, rows, Header("features", "embed"))
    check = Container(path).header.check
    other = ("0" if check[0] != "0" else "1") + check[1:]
    path.write_bytes(path.read_bytes().replace(check.encode(), other.encode()))
    opened = Container(path)
    with pytest.raises(InputError, match="checksum"):
        opened.verify()
    with pytest.raises(InputError, match="checksum"):
        opened.verified_tensors("content")


@pytest.mark.parametrize("start", [b"{", b"PK", b"\x80", b"-----BEG", b"secret!!"])
def test_no_message_prints_bytes_of_a_secret(tmp_path, start, run):
    path = tmp_path / "s.secret"
    path.write_bytes(start + bytes(range(100, 132 - len(start))))
    with pytest.raises(InputError) as caught:
        Container(path)
    message = str(caught.value)
    assert str(path) in message and "secret of a site" in message
    assert "copy it again" not in message
    assert str(int.from_bytes(path.read_bytes()[:8], "little")) not in message
    if start != b"{":  # Otherwise inspect reads JSON.
        done = run("inspect", path)
        assert done.code == 65 and message in done.err


def test_a_file_that_is_too_short_does_not_print_the_first_bytes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345678" * 5)
    with pytest.raises(InputError, match="longer than the file of 40 bytes"):
        Container(path)
