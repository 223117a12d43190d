import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.private import PrivateFacts, read_private, write_private

FACTS = PrivateFacts(client=3, round=2, holds=["BatchNorm statistics"])
PROVENANCE = Provenance("local-train", {}, 0)


@pytest.fixture
def path(tmp_path):
    write_private(tmp_path / "p", {"m": np.array([1.5])}, FACTS, PROVENANCE)
    return tmp_path / "p"


def test_private_file_is_read_by_its_owner(path):
    read = read_private(path, client=3)
    assert read.facts == FACTS
    assert read.tensors["m"].tolist() == [1.5]


def test_another_client_may_not_read_it(path):
    with pytest.raises(InputError, match="p: is private to client 3"):
        read_private(path, client=1)


def test_values_must_be_finite(path, forge):
    forge(path, {"m": np.array([np.nan])})
    with pytest.raises(InputError, match="p: m has 1 values that are NaN or infinite"):
        read_private(path, client=3)
    with pytest.raises(InputError, match="q: m has 1 values"):
        write_private(path.with_name("q"), {"m": np.array([np.inf])}, FACTS, PROVENANCE)
    assert not path.with_name("q").exists()
