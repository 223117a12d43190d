"""Robust rules on files: what they read, write and refuse."""

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
    refused(folder, 2, ("uses that file",), *clip[:-4], "-o", folder / "g",
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
