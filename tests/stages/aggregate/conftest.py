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
def upload_files(tmp_path):
    """Write a global model g and one upload of each client from it: c0, c1, ..."""

    def write(models: list[dict], parent: dict | int) -> None:
        if isinstance(parent, int):  # Filled with this number.
            parent = {k: np.full_like(v, parent) for k, v in models[0].items()}
        known = {"architecture": {"encoder": "toy"}, "mean": [0.5], "std": [0.5]}
        facts = CheckpointFacts(role="global", round=0, **known)
        content = write_checkpoint(tmp_path / "g", parent, facts, Provenance("init"))
        for k, tensors in enumerate(models):
            facts = CheckpointFacts(
                role="client", round=1, client=k, examples=10, parent=content,
                partition="b" * 64, **known,
            )  # fmt: skip
            made = Provenance("local-train")
            write_checkpoint(tmp_path / f"c{k}", tensors, facts, made)

    return write


@pytest.fixture
def folder(tmp_path, upload_files):
    """A global model g, and seven clients trained from it; 6 is hostile."""
    models = [model(k) for k in range(7)]
    models[6] = {name: array * 100 for name, array in models[6].items()}
    upload_files(models, model(99))
    return tmp_path


def words(folder, rule, *more):
    parent = ("--parent", folder / "g") if rule in WITH_PARENT else ()
    paths = sorted(folder.glob("c*"))
    return ("aggregate", "--rule", rule, *paths, *parent, "-o", folder / "out", *more)
