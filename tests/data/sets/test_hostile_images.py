"""Hostile image files are refused quickly, with little memory, by every option."""

import gzip
import json
import struct
import zlib

import nibabel
import numpy as np
import pytest
import tifffile
from PIL import Image
from pydicom.uid import JPEG2000Lossless

from tests.data.sets.dicom_files import save_dicom
from tests.helpers import furlkit

MOST_SECONDS, MOST_BYTES = 20, 300 * 2**20  # 0.5 s as a rule.
SMALL = np.arange(64, dtype=np.uint16).reshape(8, 8)

# Decodes every file of a folder in a process of its own; prints reason, CPU time and the
# greatest memory so far.
MEASURE = """
import json, sys, time
from pathlib import Path
import nibabel, pydicom.pixels, tifffile
import furlkit.data.sets.decode
from furlkit.data.sets.window import Reading
from tests.helpers import decoded_or_reason

def memory():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10

start, found = memory(), {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    for pages in (None, "channels"):
        began, how = time.process_time(), Reading("0,1", pages, "axial")
        image = decoded_or_reason(path, 1, how)
        reason = image if isinstance(image, str) else "read"
        took = time.process_time() - began
        found[f"{path.name} {pages}"] = reason, took, memory() - start
print(json.dumps(found))
"""


def tiff(width, height, data, *, compression=1, samples=1, next_page=0, pad=122):
    """A TIFF file of 16 bits with any claims; `data` begins at byte `pad`."""
    claims = [
        (256, width), (257, height), (258, 16), (259, compression), (262, 1), (273, pad),
        (277, samples), (278, height), (279, len(data)),
    ]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in claims)
    head = b"II*\0" + struct.pack("<IH", 8, len(claims))
    return (head + entries + struct.pack("<I", next_page)).ljust(pad, b"\0") + data


def million_pages():
    """A chain of 10^6 pages of no tags."""
    pages = np.zeros(10**6, np.dtype([("entries", "<u2"), ("next", "<u4")]))
    pages["next"][:-1] = 8 + 6 * np.arange(1, 10**6)
    return b"II*\0" + struct.pack("<I", 8) + pages.tobytes()


def write_all(folder):
    """Write the files, with a word of the reason to refuse each."""
    bomb = zlib.compress(bytes(320 * 2**20), 1)
    good = tifffile.imwrite  # known values
    good(folder / "good.tif", SMALL)
    whole = (folder / "good.tif").read_bytes()
    (folder / "good.tif").unlink()
    contents = {
        "absurd.tif": (tiff(60000, 60000, b""), "pixels"),
        "short.tif": (tiff(9000, 9000, bytes(100)), "truncated"),
        "bomb.tif": (tiff(64, 64, bomb, compression=8), "longer"),
        "samples.tif": (tiff(2000, 2000, b"", samples=60000), ""),
        "pages.tif": (million_pages(), ""),
        "cycle.tif": (tiff(8, 8, bytes(128), next_page=8), ""),
        "cut.tif": (whole[:-40], ""),
        "start.tif": (whole[:20], "truncated"),
        "swapped.tif": (b"MM\0*" + whole[4:], "truncated"),
        "bomb.nii.gz": (nifti_bomb(folder), "pixels"),
    }
    good(folder / "nan.tif", np.full((8, 8), np.nan, np.float32))
    good(folder / "inf.tif", np.full((8, 8), np.inf, np.float32))
    Image.new("1", (20_000, 20_000)).save(folder / "bomb.png")
    save_dicom(folder / "absurd.dcm", SMALL, Rows=65535, Columns=65535)
    save_dicom(folder / "frames.dcm", SMALL, NumberOfFrames=10**6)
    codestream(folder / "codestream.dcm")
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    reasons = {name: reason for name, (_, reason) in contents.items()}
    nan = {"nan.tif": "NaN", "inf.tif": "infinite", "bomb.png": "pixels"}
    dicom = {"absurd.dcm": "pixels", "frames.dcm": "", "codestream.dcm": "header says"}
    return {**reasons, **nan, **dicom}


def nifti_bomb(folder):
    path = folder / "x.nii"
    nibabel.save(nibabel.Nifti1Image(np.zeros((8, 8, 8), np.int16), np.eye(4)), path)
    content = bytearray(path.read_bytes())
    path.unlink()
    content[42:48] = np.array([2000, 2000, 2000], "<i2").tobytes()
    return gzip.compress(content)


def codestream(path):
    """A header of 64 x 64 pixels, and a JPEG 2000 frame that claims 60,000 x 60,000."""
    values = np.zeros((64, 64), np.uint16)
    content = save_dicom(path, values, JPEG2000Lossless).read_bytes()
    at = content.index(b"\xff\x4f\xff\x51") + 8
    claim = struct.pack(">II", 60000, 60000)
    path.write_bytes(content[:at] + claim + content[at + 8 :])


@pytest.fixture(scope="module")
def measured(tmp_path_factory, environment):
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("hostile")
    reasons = write_all(folder)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)], env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return reasons, json.loads(done.stdout)


def test_hostile_files_are_refused(measured):
    reasons, found = measured
    assert {name.split()[0] for name in found} == reasons.keys()
    for name, (reason, _, _) in found.items():
        assert reason != "read" and reasons[name.split()[0]] in reason, (name, reason)


def test_hostile_files_cost_little_time_and_memory(measured):
    _, found = measured
    assert max(took for _, took, _ in found.values()) < MOST_SECONDS
    assert max(memory for _, _, memory in found.values()) < MOST_BYTES


@pytest.mark.parametrize("window", ["9,1", "nan,1", "0,inf", "percentile 60,40"])
def test_windows_without_extent_are_refused(tmp_path, refused, window):
    words = ["--window", window]
    refused(tmp_path, 2, words, "pack", "digits", *words, "-o", tmp_path / "o")


def test_a_negative_window_is_given_on_the_command_line(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", SMALL.astype(np.int16) - 64)
    pack = ("pack", tmp_path / "a.tif", "--window", "-64,-1")
    assert furlkit(*pack, "-o", tmp_path / "o") == 2  # A file is no folder.
    (tmp_path / "d").mkdir()
    (tmp_path / "a.tif").rename(tmp_path / "d/a.tif")
    assert furlkit("pack", tmp_path / "d", *pack[2:], "-o", tmp_path / "o") == 0
