"""Files of format version 1: they open, a round goes on from them, damage is found.

The files in `version1/` were written by furlkit 0.1.0 before the format's version 2.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import Container
from furlkit.files.dataset import read_dataset
from furlkit.files.ensemble import read_ensemble
from furlkit.files.features import read_features
from furlkit.files.metrics import read_metrics
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.files.similarity import read_similarity
from furlkit.files.targets import read_targets

OLD = Path(__file__).parent / "version1"
DIGITS = ("--data", "digits")
READERS = {
    "align": read_checkpoint,
    "client_0": read_checkpoint,
    "client_1": read_checkpoint,
    "dataset": read_dataset,
    "dictionary": read_features,
    "ensemble": read_ensemble,
    "features_0": read_features,
    "features_1": read_features,
    "global": read_checkpoint,
    "global_bn_keep": read_checkpoint,
    "partition": read_partition,
    "private_0": lambda path: read_private(path, 0),
    "private_1": lambda path: read_private(path, 1),
    "public_0": read_features,
    "public_1": read_features,
    "similarity_0": read_similarity,
    "similarity_1": read_similarity,
    "targets": read_targets,
}


@pytest.fixture
def old(tmp_path) -> Path:
    """The old files in a folder that the test may change."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def place(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def test_every_old_file_is_here_and_small():
    assert {p.stem for p in OLD.glob("*.safetensors")} == set(READERS)
    assert sum(p.stat().st_size for p in OLD.iterdir()) < 300_000


@pytest.mark.parametrize("name", READERS)
def test_it_is_of_version_1_and_opens(name, run):
    path = place(OLD, name)
    assert Container(path).header.version == 1
    READERS[name](path)
    outcome = run("inspect", "--verify", "--json", path)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["verified"] is True


def test_content_is_still_the_same_sha256():
    path = place(OLD, "global")
    raw, header = path.read_bytes(), Container(path).header
    for digits in (header.content, header.check):
        raw = raw.replace(digits.encode(), b"0" * 64)
    assert hashlib.sha256(raw).hexdigest() == header.content


def test_metrics_open(run):
    assert read_metrics(OLD / "knn.json")["protocol"] == "knn"
    assert run("inspect", OLD / "knn.json").code == 0


# A dataset's images are mapped and not checked, as in version 2; see inspect --verify.
@pytest.mark.parametrize("name", sorted(READERS.keys() - {"dataset"}))
@pytest.mark.parametrize("where", [-1, -20])
def test_damage_is_found(old, refused, name, where):
    path = place(old, name)
    raw = bytearray(path.read_bytes())
    raw[where] ^= 0x80
    path.write_bytes(raw)
    with pytest.raises(Exception, match=f"{path}: the bytes do not match"):
        READERS[name](path)
    refused(old, 65, (path, "do not match"), "inspect", "--verify", path)


def test_damage_that_the_old_checksum_missed_is_found(old, refused):
    """The old sum missed a pair of top bits; the sha256 does not."""
    path = place(old, "client_0")
    opened = Container(path)
    raw, start = bytearray(path.read_bytes()), opened.body_start
    weight = opened.entry("encoder.fc.weight")
    for offset in (7, 15):
        raw[start + weight.start + offset] ^= 0x80
    path.write_bytes(raw)
    command = ("aggregate", path, place(old, "client_1"), "-o", old / "new")
    refused(old, 65, (path, "do not match"), *command)


def test_lockstep_verifies_once_and_reads(monkeypatch):
    opened = [Container(place(OLD, f"client_{k}")) for k in range(2)]
    calls, real = [], Container.verify
    monkeypatch.setattr(
        Container, "verify", lambda self: (calls.append(self.path), real(self))
    )
    with Lockstep(opened) as files:
        for entry in opened[0].entries:
            files.skip(entry)
        files.finish()
    assert calls == [one.path for one in opened]


def test_a_round_goes_on_from_old_files(old, run):
    new = old / "client_{client}_new.safetensors"
    small = ("--epochs", 1, "--batch-size", 400)
    train = ("local-train", place(old, "partition"), place(old, "global_bn_keep"))
    sharing = (
        "--dictionary", place(old, "dictionary"),
        "--private", old / "private_{client}.safetensors",
        "--private-out", old / "next_{client}.safetensors",
        "--features-out", old / "rows_{client}.safetensors",
        "--alpha", 0.5, "--dictionary-size", 32,
    )  # fmt: skip
    outcome = run(*train, *DIGITS, "--client", "0-1", *small, *sharing, "-o", new)
    assert outcome.code == 0, outcome.err
    written = [old / f"client_{k}_new.safetensors" for k in range(2)]
    assert {Container(path).header.version for path in written} == {2}
    assert run("aggregate", *written, "-o", old / "global_2").code == 0
    assert read_checkpoint(old / "global_2").facts.round == 2


def test_old_uploads_are_averaged(old, run):
    clients = [place(old, f"client_{k}") for k in range(2)]
    assert run("aggregate", *clients, "-o", old / "new").code == 0
    assert read_checkpoint(old / "new").facts.round == 1
    rows = [place(old, f"features_{k}") for k in range(2)]
    assert run("aggregate", "--rule", "dictionary", *rows, "-o", old / "d").code == 0
    for kind in ("public", "similarity"):
        rows = [place(old, f"{kind}_{k}") for k in range(2)]
        command = ("aggregate", "--rule", "ensemble", *rows, "-o", old / kind)
        assert run(*command).code == 0


def test_an_old_ensemble_is_distilled(old, run):
    outcome = run(
        "distill", place(old, "ensemble"), place(old, "global"), *DIGITS,
        "--epochs", 1, "--batch-size", 12, "-o", old / "student",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err


def test_an_old_packed_dataset_is_partitioned(old, run):
    data = ("--data", place(old, "dataset"), "--clients", 2)
    assert run("partition", *data, "-o", old / "p").code == 0
