"""SCAFFOLD's server: loops, properties, known values."""

import json

import numpy as np
import pytest

from furlkit.aggregators.mean import mean
from furlkit.aggregators.scaffold import scaffold
from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from tests.helpers import furlkit

BATCHNORM = "encoder.bn.running_mean"


def model(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    return {"encoder.w": rng.normal(size=7), "control.encoder.w": rng.normal(size=7),
            BATCHNORM: rng.normal(size=2)}  # fmt: skip


def test_the_step_matches_loops(combined):
    """Lines 16 and 17, number by number."""
    models, parent = [model(k) for k in range(3)], model(9)
    shares, eta, N = [0.5, 0.3, 0.2], 0.6, 10
    found = combined(scaffold, models, shares, parent, lr=eta, clients=N)
    for i in range(7):
        x, c = parent["encoder.w"][i], parent["control.encoder.w"][i]
        delta_x = delta_c = 0.0
        for p, one in zip(shares, models, strict=True):
            delta_x += p * (one["encoder.w"][i] - x)
            delta_c += one["control.encoder.w"][i] / 3
        np.testing.assert_allclose(found["encoder.w"][i], x + eta * delta_x, rtol=1e-12)
        expected = c + 3 / N * delta_c
        np.testing.assert_allclose(found["control.encoder.w"][i], expected, rtol=1e-12)


def test_weights_with_a_step_of_1_and_statistics_are_the_mean(combined):
    models = [model(k) for k in range(4)]
    found = combined(scaffold, models, None, model(9), lr=1.0, clients=None)
    average = combined(mean, models)
    np.testing.assert_allclose(found["encoder.w"], average["encoder.w"], rtol=1e-12)
    assert found[BATCHNORM].tolist() == average[BATCHNORM].tolist()


def test_with_all_clients_c_stays_the_mean_of_the_clients_control_variates(combined):
    """c = mean_k c_k is kept by the update if every client takes part."""
    c_k = np.random.default_rng(0).normal(size=(4, 7))
    deltas = np.random.default_rng(1).normal(size=(4, 7))
    models = [{**model(k), "control.encoder.w": deltas[k]} for k in range(4)]
    parent = {**model(9), "control.encoder.w": c_k.mean(axis=0)}
    found = combined(scaffold, models, None, parent, lr=1.0, clients=4)
    expected = (c_k + deltas).mean(axis=0)
    np.testing.assert_allclose(found["control.encoder.w"], expected, rtol=1e-12)


KNOWN = {"architecture": {"encoder": "toy"}, "mean": [0.5], "std": [0.5]}


def save(path, w, control, **facts) -> str:
    tensors = {"encoder.w": np.array(w, np.float32)}
    if control is not None:
        tensors["control.encoder.w"] = np.array(control, np.float32)
    known = CheckpointFacts(**facts, **KNOWN)
    return write_checkpoint(path, tensors, known, Provenance("local-train"))


def test_two_rounds_by_the_command_line(tmp_path):
    """The model of init has no control variates: c is 0, then 2 of 4 clients move it."""
    parent, content = (
        tmp_path / "g0",
        save(tmp_path / "g0", [1, 2, 3], None, role="global", round=0),
    )
    for number, expected in ((1, [1, 0, 0.5]), (2, [2, 0, 1])):
        for k in (0, 1):
            save(tmp_path / f"u{k}", [3, 2, 3], [2 + 2 * k - 1, 0, 1], role="client",
                 round=number, client=k, examples=5 + k, parent=content)  # fmt: skip
        output = tmp_path / f"g{number}"
        words = ("--rule", "scaffold", "--clients", 4, "--parent", parent)
        uploads = (tmp_path / "u0", tmp_path / "u1")
        assert furlkit("aggregate", *words, *uploads, "-o", output) == 0
        found = Container(output)
        assert found.tensors()["control.encoder.w"].tolist() == expected
        assert found.tensors()["encoder.w"].tolist() == [3, 2, 3]
        parent, content = output, found.content


def test_a_report_measures_from_zeros_that_the_parent_lacks(tmp_path):
    content = save(tmp_path / "g", [0, 0, 0], None, role="global", round=0)
    for k in (0, 1, 2):
        save(tmp_path / f"u{k}", [3, 0, 0], [0, 4, 0], role="client", round=1, client=k,
             examples=5, parent=content)  # fmt: skip
    uploads = [tmp_path / f"u{k}" for k in (0, 1, 2)]
    report = tmp_path / "r.json"
    words = ("--rule", "scaffold", "--parent", tmp_path / "g", "--report", report)
    assert furlkit("aggregate", *words, *uploads, "-o", tmp_path / "out") == 0
    clients = json.loads(report.read_text())["clients"]
    assert [c["norm"] for c in clients] == pytest.approx([5, 5, 5])
