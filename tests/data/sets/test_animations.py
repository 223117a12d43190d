"""GIF, WebP and PNG files of several frames: refused without --pages first."""

import json

import numpy as np
import pytest
from PIL import Image

from furlkit.data.sets.decode import decode_file
from furlkit.data.sets.window import Reading
from furlkit.errors import InputError
from furlkit.files.dataset import read_dataset

FRAMES = [np.full((8, 8, 3), value, np.uint8) for value in (40, 120, 200)]
FIRST = Reading(pages="first")


def save(path, frames=FRAMES):
    path.parent.mkdir(exist_ok=True)
    first, *others = map(Image.fromarray, frames)
    how = {"lossless": True} if path.suffix == ".webp" else {}
    first.save(path, save_all=bool(others), append_images=others, **how)
    return path


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png"])
def test_frames_after_the_first_are_not_lost_in_silence(tmp_path, name):
    path = save(tmp_path / name)
    for pages in (None, "each", "channels"):
        with pytest.raises(
            InputError, match=f"{name}: .*animation; give --pages first"
        ):
            decode_file(path, 3, Reading(pages=pages))
    assert np.array_equal(decode_file(path, 3, FIRST).pixels, FRAMES[0])


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png"])
def test_a_file_of_one_frame_needs_no_option(tmp_path, name):
    path = save(tmp_path / name, FRAMES[:1])
    assert np.array_equal(decode_file(path, 3).pixels, FRAMES[0])


def test_check_and_pack_name_animations(run, refused, tmp_path):
    folder = save(tmp_path / "s" / "cat.gif").parent
    save(folder / "dog.gif", FRAMES[1:2])
    found = run("check", folder)
    assert (
        found.code == 0 and "1 file with an animation; give --pages first" in found.out
    )
    assert json.loads(run("check", folder, "--json").out)["animations"] == 1
    words = ("pack", folder, "--no-labels", "-o", tmp_path / "p")
    refused(tmp_path, 65, ["cat.gif", "animation"], *words)
    assert run(*words, "--pages", "first").code == 0
    assert read_dataset(tmp_path / "p").images[:, 0, 0, 0].tolist() == [40, 120]
