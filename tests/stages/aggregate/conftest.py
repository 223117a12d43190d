"""A global model and uploads of clients that were trained from it, one hostile."""

import numpy as np
import pytest

from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.facts import Provenance

WITH_PARENT = ("clip", "l-dawa")


def model(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    return {
        "encoder.w": rng.normal(size=(300, 7)).astype(np.float32) + 1,
        "encoder.bn.running_var": rng.random(4).astype(np.float32),
        "encoder.bn.num_batches_tracked": np.array(2**40 + k),
    }


@pytest.fixture
def folder(tmp_path):
    """A global model g, and seven clients trained from it; 6 is hostile."""
    known = {"architecture": {"encoder": "toy"}, "mean": [0.5], "std": [0.5]}
    facts = CheckpointFacts(role="global", round=0, **known)
    parent = write_checkpoint(tmp_path / "g", model(99), facts, Provenance("init"))
    for k in range(7):
        facts = CheckpointFacts(
            role="client", round=1, client=k, examples=10, parent=parent, **known
        )
        tensors = model(k)
        if k == 6:
            tensors = {name: array * 100 for name, array in tensors.items()}
        write_checkpoint(tmp_path / f"c{k}", tensors, facts, Provenance("local-train"))
    return tmp_path


def words(folder, rule, *more):
    parent = ("--parent", folder / "g") if rule in WITH_PARENT else ()
    paths = sorted(folder.glob("c*"))
    return ("aggregate", "--rule", rule, *paths, *parent, "-o", folder / "out", *more)
