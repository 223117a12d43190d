import os

import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.files.private import PrivateFacts, read_private, write_private
from furlkit.files.progress import ProgressFile

FACTS = PrivateFacts(client=3, round=2, parts=["projector"], memory=["fedema"])
PROVENANCE = Provenance("local-train", {}, 0)
MEMORY = {"fedema.lambda": np.array(0.5)}


@pytest.fixture
def path(tmp_path):
    tensors = {"projector.w": np.array([1.5])}
    write_private(tmp_path / "p", tensors, MEMORY, FACTS, PROVENANCE)
    return tmp_path / "p"


def test_private_file_is_read_by_its_owner(path):
    read = read_private(path, client=3)
    assert read.facts == FACTS
    assert {k: v.tolist() for k, v in read.tensors.items()} == {"projector.w": [1.5]}
    assert {k: v.tolist() for k, v in read.memory.items()} == {"fedema.lambda": 0.5}


def test_another_client_may_not_read_it(path):
    with pytest.raises(InputError, match="p: .*client 3"):
        read_private(path, client=1)


@pytest.mark.parametrize("name", ["projector.w", "memory.fedema.lambda"])
def test_values_must_be_finite(path, forge, name):
    forge(path, {name: np.array([np.nan])})
    with pytest.raises(InputError, match=f"p: {name} has 1 values"):
        read_private(path, client=3)
    with pytest.raises(InputError, match="q: m has 1 values"):
        write_private(
            path.with_name("q"), {"m": np.array([np.inf])}, {}, FACTS, PROVENANCE
        )
    assert not path.with_name("q").exists()


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
@pytest.mark.parametrize("unnamed", [True, False])
def test_only_its_owner_may_read_it(tmp_path, monkeypatch, umask, unnamed):
    """Whatever the umask, and whatever was there before, or how the file is written."""
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    before = os.umask(umask)
    try:
        (tmp_path / "p").write_bytes(b"")
        write_private(tmp_path / "p", {}, MEMORY, FACTS, PROVENANCE)
        ProgressFile(tmp_path / "u", PROVENANCE).save(1, MEMORY, {})
        (tmp_path / "new").touch()
        facts = FeatureFacts("z", {}, "3")
        none = np.zeros((0, 4), np.float32), np.zeros(0)
        write_features(tmp_path / "f", *none, facts, PROVENANCE)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes["p"] == modes["u.progress"] == 0o600
    assert modes["f"] == modes["new"] == 0o666 & ~umask
