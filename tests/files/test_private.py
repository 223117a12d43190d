import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.private import PrivateFacts, read_private, write_private

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
