"""WebDataset shards: samples and labels, and hostile archives."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import tracemalloc

import numpy as np
import pytest

from furlkit.data.sets.tar import read_tar
from furlkit.errors import InputError
from furlkit.files.dataset import read_dataset
from tests.data.sets.shard_files import colour_images, encoded, samples, write_tar
from tests.helpers import furlkit

IMAGES = colour_images(3)
GREY = np.arange(64, dtype=np.uint8).reshape(8, 8)


def packed(path, *options):
    output = path.with_suffix(".st")
    assert furlkit("pack", path, *options, "-o", output) == 0
    return read_dataset(output)


def test_images_have_the_order_and_labels_of_their_samples(tmp_path):
    members = [
        ("./b.jpg", encoded(GREY, "JPEG")), ("./b.json", b'{"label": 2, "x": 1}'),
        ("./a.cls", b" 0\n"), ("./a.seg.txt", b"."), ("./a.PNG", encoded(GREY)),
        ("./n/a.txt", b"no image"),
        ("./n/b.cls", b"1"), ("./n/b.img", encoded(GREY + 1)),
    ]  # fmt: skip
    found = packed(write_tar(tmp_path / "s.tar", members))
    assert found.labels.tolist() == [2, 0, 1]
    assert found.images[1:, ..., 0].tolist() == [GREY.tolist(), (GREY + 1).tolist()]
    assert found.facts.class_names == ["0", "1", "2"]


def test_labels_may_be_names(tmp_path):
    words = ("pear", "apple", "pear")
    members = []
    for number, word in enumerate(words):
        members += [(f"{number}.json", f'{{"label": "{word}"}}'.encode())]
        members += [(f"{number}.png", IMAGES[number])]
    found = packed(write_tar(tmp_path / "s.tar", members))
    assert found.labels.tolist() == [1, 0, 1]
    assert found.facts.class_names == ["apple", "pear"]


@pytest.mark.parametrize(
    "labels, word",
    [
        ((b"0", None), "1.png has no label"),
        ((b"0", b"x"), "1.cls"),
        ((b"0", b"-1"), "-1"),
        ((b"0", b"9" * 30), "64 bits"),
        ((b"0", b"9" * 9), "number the classes"),
        ((b"0", b" " * 2**21), "1.cls"),
    ],
)
def test_labels_that_are_none_are_refused(tmp_path, labels, word, capsys):
    members = []
    for number, label in enumerate(labels):
        if label is not None:
            members.append((f"{number}.cls", label))
        members.append((f"{number}.png", IMAGES[number]))
    path = write_tar(tmp_path / "s.tar", members)
    assert furlkit("pack", path, "-o", tmp_path / "x.st") == 65
    error = capsys.readouterr().err
    assert "s.tar" in error and word in error
    assert packed(path, "--no-labels").labels is None


def test_two_images_of_a_sample_are_refused(tmp_path, capsys):
    members = [("a.jpg", IMAGES[0]), ("a.mask.png", IMAGES[1])]
    assert furlkit("pack", write_tar(tmp_path / "s.tar", members), "-o", "x.st") == 65
    assert "a.jpg and a.mask.png" in capsys.readouterr().err


def header(name, size=0, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info.tobuf(tarfile.GNU_FORMAT)


def sealed(block):
    """A header with another content and the right checksum."""
    block = block[:148] + b" " * 8 + block[156:]
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def negative(name):
    """A header that declares -512 bytes, so that a reader goes back to it."""
    block = header(name)
    return sealed(block[:124] + struct.pack(">iq", -1, -512) + block[136:])


def pax_size(name, size):
    """A member with the size in an extended header."""
    info = tarfile.TarInfo(name)
    info.pax_headers = {"size": str(size)}
    return info.tobuf(tarfile.PAX_FORMAT)


def sparse(name):
    info = tarfile.TarInfo(name)
    info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "99999999999"}
    return info.tobuf(tarfile.PAX_FORMAT)


END = bytes(1024)
WHOLE = io.BytesIO()
with tarfile.open(fileobj=WHOLE, mode="w") as _tar:
    for _name, _content in samples(IMAGES):
        _info = tarfile.TarInfo(_name)
        _info.size = len(_content)
        _tar.addfile(_info, io.BytesIO(_content))
GOOD = WHOLE.getvalue()
SECOND = 512 + -(-len(IMAGES[0]) // 512) * 512  # where the second header begins

HOSTILE = {
    "symlink": (
        header("a.png", kind=tarfile.SYMTYPE, link="/etc/passwd") + END,
        "link",
    ),
    "hardlink": (header("a.png", kind=tarfile.LNKTYPE, link="b.png") + END, "link"),
    "device": (header("a.png", kind=tarfile.CHRTYPE) + END, "device"),
    "pipe": (header("a.png", kind=tarfile.FIFOTYPE) + END, "device"),
    "sparse": (sparse("a.png") + END, "sparse"),
    "absolute": (header("/etc/a.png") + END, "outside"),
    "parent": (header("x/../../a.png") + END, "outside"),
    "no name": (header(".") + END, "outside"),
    "huge": (header("a.png", 8 * 2**30) + END, "bytes"),
    "short": (header("a.png", 2**20) + END, "complete|ends"),
    "negative": (negative("a.png") + END, "bytes|complete"),
    "negative pax": (pax_size("a.png", -1024) + END, "bytes|complete"),
    "huge pax": (pax_size("a.png", 2**62) + END, "bytes|complete"),
    "long name": (header("x", 2**26, b"L") + bytes(2**26) + END, "header"),
    "long pax": (header("x", 2**26, b"x") + bytes(2**26) + END, "header"),
    "nested pax": (header("x", 0, b"x") * 5000 + END, "complete tar"),
    "cut": (GOOD[: SECOND + 700], "complete|ends"),
    "cut header": (GOOD[: SECOND + 100], "complete tar"),
    "cut end": (GOOD[:SECOND], "no end"),
    "damaged": (GOOD[:SECOND] + b"?" * 512 + GOOD[SECOND + 512 :], "no end"),
    "twice": (GOOD[:SECOND] * 2 + END, "expected one|two members"),
    "empty": (b"", "complete tar"),
    "nothing": (END, "no images"),
    "text": (b"hello " * 500, "complete tar"),
    "gzip": (gzip.compress(bytes(2**26)), "gunzip"),
    "bzip2": (bz2.compress(bytes(2**20)), "bunzip2"),
    "xz": (lzma.compress(bytes(2**20)), "unxz"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(tmp_path, name, capsys):
    content, words = HOSTILE[name]
    (tmp_path / "bad.tar").write_bytes(content)
    tracemalloc.start()
    try:
        code = furlkit("pack", tmp_path / "bad.tar", "-o", tmp_path / "x.st")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    error = capsys.readouterr().err
    assert code == 65 and "bad.tar" in error
    assert any(word in error for word in words.split("|")), error
    assert peak < 30 * 2**20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar"]


def test_a_shard_that_is_cut_after_the_listing_is_refused(tmp_path):
    path = write_tar(tmp_path / "s.tar", samples(IMAGES))
    read = read_tar(path, labelled=True).open()
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(InputError, match=r"s.tar: ends within '0001.png'"):
        read("0001.png")
