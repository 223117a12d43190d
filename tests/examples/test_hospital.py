"""examples/hospital: three sites, three formats, three rounds."""

import json
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.dataset import read_dataset
from tests.conftest import ROOT

SITES = ("north", "st-mary", "lakeside")


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh")
def test_three_sites_train_three_rounds(tmp_path, fast_furlkit, environment):
    small = {
        "FURLKIT": shlex.join(fast_furlkit), "PYTHON": sys.executable, "PATIENTS": "8",
        "TRAIN": "--epochs 1 --batch-size 8", "INIT": "--width 0.02 --projector 8,4",
    }  # fmt: skip
    script = ROOT / "examples/hospital/run.sh"
    done = subprocess.run(
        ["sh", str(script), "out"], cwd=tmp_path, env={**environment, **small},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    window = {"window": "-160,240"}
    for round_ in range(4):
        model = read_checkpoint(out / f"r00{round_}/global.safetensors")
        assert model.facts.round == round_ and model.facts.reading == window
    assert json.loads((out / "encoder/config.json").read_text())["reading"] == window
    for site in SITES:
        assert (out / f"{site}.png").read_bytes().startswith(b"\x89PNG")
        scores = json.loads((out / f"r003/knn_{site}.json").read_text())
        assert 0 <= scores["accuracy"] <= 1
        train = read_dataset(out / site / "train.safetensors")
        # Soft tissue of 40 Hounsfield units is in the middle of the window.
        assert abs(float(np.median(train.images[:, 12:20, 12:20])) - 127.5) < 10
        assert np.unique(train.groups, return_counts=True)[1].tolist() == [3] * 6
    _check_no_name_left(out, done.stdout + done.stderr)


def _check_no_name_left(out, said):
    """The names of patients are in the DICOM files and nowhere else."""
    scans = out / "scans"
    assert b"Doe^patient" in next((scans / "north").rglob("IM*")).read_bytes()
    others = (p for p in out.rglob("*") if p.is_file() and scans not in p.parents)
    for content in (said.encode(), *(path.read_bytes() for path in others)):
        assert b"Doe^" not in content
