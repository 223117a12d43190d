"""Robust rules on files: what they read, write and refuse."""

import json

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container import lockstep
from tests.stages.aggregate.conftest import WITH_PARENT, model, words

RULES = ("median", "trimmed-mean", "geometric-median", "krum", "clip", "l-dawa")


@pytest.mark.parametrize("rule", RULES)
def test_the_result_has_the_types_and_facts_of_a_mean(folder, run, rule):
    assert run(*words(folder, rule)).code == 0
    found = read_checkpoint(folder / "out")
    parent = read_checkpoint(folder / "g").content
    assert found.facts.role == "global" and found.facts.parent == parent
    for name, array in model(0).items():
        assert found.tensors[name].dtype == array.dtype
        assert found.tensors[name].shape == array.shape
    if rule != "l-dawa":  # Angles do not see lengths.
        assert np.abs(found.tensors["encoder.w"]).max() < 20
    counter = found.tensors["encoder.bn.num_batches_tracked"]
    assert 2**40 <= counter <= 2**40 + 5
    assert found.header.options["weights"] == "uniform"


@pytest.mark.parametrize("rule", RULES)
def test_short_slices_and_the_order_of_files_change_no_byte(
    folder, run, rule, monkeypatch
):
    """Products are sums over slices, so these are cut at the same places."""
    line = words(folder, rule)
    assert run(*line).code == 0
    first = read_checkpoint(folder / "out").tensors
    raw = (folder / "out").read_bytes()
    backwards = [*line[:3], *reversed(line[3:10]), *line[10:], "--force"]
    assert run(*backwards).code == 0
    assert (folder / "out").read_bytes() == raw
    monkeypatch.setattr(lockstep, "STACK", 8 * 640)
    assert run(*line, "--force").code == 0
    for name, array in read_checkpoint(folder / "out").tensors.items():
        np.testing.assert_allclose(array, first[name], rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_a_damaged_upload_leaves_no_file(folder, rule, refused):
    raw = bytearray((folder / "c3").read_bytes())
    raw[-40] ^= 1
    (folder / "c3").write_bytes(raw)
    refused(folder, 65, (folder / "c3", "bytes"), *words(folder, rule))


def test_a_damaged_parent_leaves_no_file(folder, refused):
    raw = bytearray((folder / "g").read_bytes())
    raw[-40] ^= 1
    (folder / "g").write_bytes(raw)
    for rule in WITH_PARENT:
        refused(folder, 65, (folder / "g", "checksum"), *words(folder, rule))


def test_a_parent_that_does_not_fit(folder, refused, forge):
    line = ("aggregate", folder / "c0", folder / "c1", "-o", folder / "out")
    for rule in WITH_PARENT:
        refused(folder, 2, ("--parent",), *line, "--rule", rule)
    other = folder / "other"
    other.write_bytes((folder / "g").read_bytes())
    forge(other, {"encoder.w": np.ones((300, 7), "f4")})
    clip = (*line, "--rule", "clip")
    refused(folder, 65, (other, "trained from"), *clip, "--parent", other)
    refused(folder, 2, ("exists",), *clip[:-4], "-o", folder / "g",
            "--rule", "clip", "--parent", folder / "g")  # fmt: skip


@pytest.mark.parametrize("rule", RULES[:-1])
def test_statistics_of_one_client_change_no_weight(folder, run, forge, rule):
    """They count in no distance, and have a median of their own."""
    options = ("--assumed-hostile", 1, "--chosen", 6) if rule == "krum" else ()
    line = words(folder, rule, *options)
    assert run(*line).code == 0
    before = read_checkpoint(folder / "out").tensors
    forge(folder / "c0", {"encoder.bn.running_var": np.full(4, 1e9, "f4")})
    assert run(*line).code == 0
    after = read_checkpoint(folder / "out").tensors
    assert after["encoder.w"].tobytes() == before["encoder.w"].tobytes()
    assert after["encoder.bn.running_var"].max() < 100


def test_statistics_that_clients_keep_are_left_out(folder, run):
    for rule in ("median", "krum", "clip"):
        assert run(*words(folder, rule, "--bn", "keep")).code == 0
        assert read_checkpoint(folder / "out").tensors.keys() == {"encoder.w"}


@pytest.mark.parametrize("rule", ["clip", "l-dawa"])
def test_a_parent_without_a_target_network_has_its_net_for_it(
    tmp_path, upload_files, run, rule
):
    """Objectives start the target as a copy, so both files give the same numbers."""
    uploads = [{"encoder.w": w(k), "target.encoder.w": w(k + 50)} for k in range(5)]
    found = []
    for parent in (
        {"encoder.w": w(99)},
        {"encoder.w": w(99), "target.encoder.w": w(99)},
        {"encoder.w": w(99), "projector.unsent": w(7)},
    ):
        upload_files(uploads, parent)
        report = ("--report", tmp_path / "report.json", "--force")
        done = run(*words(tmp_path, rule, *report))
        assert done.code == 0, done.err
        said = json.loads((tmp_path / "report.json").read_text())["clients"]
        tensors = read_checkpoint(tmp_path / "out").tensors
        found.append((said, {k: v.tolist() for k, v in tensors.items()}))
    assert found[0] == found[1] == found[2]
    assert found[0][1]["target.encoder.w"] != found[0][1]["encoder.w"]


def test_a_report_against_a_parent_without_a_target_network(
    tmp_path, upload_files, run
):
    uploads = [{"encoder.w": w(k), "target.encoder.w": w(99)} for k in range(3)]
    upload_files(uploads, {"encoder.w": w(99)})
    more = ("--parent", tmp_path / "g", "--report", tmp_path / "report.json")
    assert run(*words(tmp_path, "mean", *more)).code == 0
    said = json.loads((tmp_path / "report.json").read_text())["clients"]
    for k, each in enumerate(said):
        assert each["norm"] == pytest.approx(np.linalg.norm(w(k) - w(99)), rel=1e-5)


def w(k: int) -> np.ndarray:
    return np.random.default_rng(k).normal(size=(30, 4)).astype(np.float32) + 1
