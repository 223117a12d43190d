"""aggregate --report: its numbers, its line, when it is written."""

import json

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from tests.stages.aggregate.conftest import WITH_PARENT, words

RULES = ("mean", "median", "trimmed-mean", "geometric-median", "krum", "clip", "l-dawa")


def reported(folder, rule, *more):
    parent = () if rule in WITH_PARENT else ("--parent", folder / "g")
    return (*words(folder, rule, *more), *parent, "--report", folder / "report.json")


@pytest.mark.parametrize("rule", RULES)
def test_moved_is_the_distance_to_the_result_without_a_client(folder, run, rule):
    options = ("--assumed-hostile", 1) if rule == "krum" else ()
    line = reported(folder, rule, *options)
    assert run(*line).code == 0
    report = json.loads((folder / "report.json").read_text())
    whole = read_checkpoint(folder / "out").tensors["encoder.w"]
    (folder / "c2").unlink()
    assert run(*words(folder, rule, *options)).code == 0
    rest = read_checkpoint(folder / "out").tensors["encoder.w"]
    moved = np.linalg.norm(whole.astype(float) - rest)
    assert report["clients"][2]["moved"] == pytest.approx(moved, rel=1e-4, abs=1e-4)


def test_the_report(folder, run):
    done = run(*reported(folder, "mean"), "--json")
    assert json.loads(done.out)["stands_out"] == [6]
    assert done.err.count("\n") == 1 and "warning" in done.err
    assert f"{folder}/report.json: of 7 uploads, stands out: client 6 (norm" in done.err
    report = json.loads((folder / "report.json").read_text())
    parent = read_checkpoint(folder / "g")
    for k, each in enumerate(report["clients"]):
        model = read_checkpoint(folder / f"c{k}").tensors["encoder.w"].astype(float)
        norm = np.linalg.norm(model - parent.tensors["encoder.w"])
        assert each["client"] == k and each["share"] == pytest.approx(1 / 7)
        assert each["norm"] == pytest.approx(norm)
    assert report["stands_out"] == [6] and report["against"] == "parent"
    assert report["round"] == 1 and report["inputs"]["parent"] == parent.content
    assert run("inspect", folder / "report.json").code == 0


def test_the_report_changes_no_byte_of_the_result(folder, run):
    for rule in RULES:
        assert run(*words(folder, rule, "--force")).code == 0
        plain = (folder / "out").read_bytes()
        assert run(*reported(folder, rule, "--force")).code == 0
        assert (folder / "out").read_bytes() == plain


def test_a_report_is_made_beside_a_result_that_is_there(folder, run):
    """And the same again where nothing has changed, with the same warning."""
    assert run(*words(folder, "mean")).code == 0
    done = run(*reported(folder, "mean"))
    assert "already there" in done.out and "client 6" in done.err
    first = (folder / "report.json").read_bytes()
    assert run(*reported(folder, "mean")).err == done.err
    assert (folder / "report.json").read_bytes() == first
    (folder / "c3").unlink()
    assert run(*reported(folder, "mean")).code == 0
    assert (folder / "report.json").read_bytes() != first


def test_a_strict_aggregate_writes_the_report_and_no_result(folder, run):
    """However often it is run; without the one that stands out there is a result."""
    for _ in range(2):
        done = run(*reported(folder, "median"), "--strict")
        assert done.code == 65 and "stands out: client 6" in done.err
        assert not (folder / "out").exists()
        assert json.loads((folder / "report.json").read_text())["stands_out"] == [6]
    (folder / "c6").unlink()
    assert run(*reported(folder, "median"), "--strict").code == 0
    assert (folder / "out").exists()
    assert run(*reported(folder, "median"), "--strict").err == ""


def test_without_a_parent_and_with_too_few_uploads(folder, run):
    line = ("aggregate", folder / "c0", folder / "c6", "-o", folder / "out")
    done = run(*line, "--report", folder / "report.json")
    assert done.code == 0 and "no upload stands out" in done.err
    report = json.loads((folder / "report.json").read_text())
    assert report["against"] == "geometric median" and report["stands_out"] == []
    assert [each["angle"] for each in report["clients"]] == [None, None]
    assert run(*line[:2], *line[3:], "--report", folder / "report.json").code == 0
    assert (
        json.loads((folder / "report.json").read_text())["clients"][0]["moved"] is None
    )


def test_krum_that_cannot_do_without_a_client_says_nothing_of_it(folder, run):
    assert run(*reported(folder, "krum")).code == 0  # 2 f + 3 = 7
    report = json.loads((folder / "report.json").read_text())
    assert [each["moved"] for each in report["clients"]] == [None] * 7


def test_what_a_report_refuses(folder, refused):
    line = ("aggregate", folder / "c0", "-o", folder / "out", "--report")
    refused(folder, 2, ("--report", "exists"), *line, folder / "c0")
    refused(folder, 2, ("--report", "uses that file"), *line, folder / "out")
    stale = (*line, folder / "r.json", "--staleness", 2)
    refused(folder, 2, ("--report", "--staleness"), *stale)
    raw = bytearray((folder / "c0").read_bytes())
    raw[-40] ^= 1
    (folder / "c0").write_bytes(raw)
    refused(folder, 65, (folder / "c0", "bytes"), *line, folder / "r.json")


@pytest.mark.parametrize("rule", RULES)
def test_tensors_of_one_number_and_of_none_name_the_right_client(
    tmp_path, run, upload_files, rule
):
    """Client 0 of five is hostile: its bias, of one number, is far from the others'."""
    models = [
        {"decoder.bias": np.array([b], "f4"), "decoder.scale": np.array(b / 9, "f4")}
        for b in (90, 1.0, 1.1, 1.2, 1.3)
    ]
    none = {"decoder.none": np.zeros((0, 3), "f4")}
    upload_files([{**each, **none} for each in models], parent=-1)
    more = ("--assumed-hostile", 1) if rule == "krum" else ()
    done = run(*reported(tmp_path, rule, *more))
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["stands_out"] == [0]
    found = read_checkpoint(tmp_path / "out").tensors
    assert found["decoder.none"].shape == (0, 3) and found["decoder.scale"].shape == ()
    if rule not in ("mean", "l-dawa"):  # Neither withstands a scaled upload.
        assert 1 <= found["decoder.bias"][0] <= 1.3
