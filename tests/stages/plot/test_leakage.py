"""plot leakage: scores over the success of attacks."""

import json

import pytest


@pytest.fixture
def audit(metrics, tmp_path):
    """Write a file of audit rows: audit("a", 0.9, seed=1)."""

    def write(name, auc, seed=0):
        more = {"protocol": "rows", "auc": auc, "role": "client"}
        return metrics(tmp_path, name, seed=seed, **more)

    return write


@pytest.fixture
def point(metrics, audit, tmp_path):
    """Words of a point with two seeds."""

    def words(label, aucs, accuracies):
        files = [audit(f"{label}{k}a", v, seed=k) for k, v in enumerate(aucs)]
        files += [
            metrics(tmp_path, f"{label}{k}l", v, seed=k)
            for k, v in enumerate(accuracies)
        ]
        return "--series", f"{label}={','.join(map(str, files))}"

    return words


def test_a_point_has_the_means_of_audits_and_scores(run, point, tmp_path):
    words = (
        *point("rows:0", (1.0, 0.9), (0.8, 0.9)),
        *point("rows:0.1", (0.6,), (0.7,)),
    )
    done = run("plot", "leakage", *words, "-o", tmp_path / "x.svg", "--json")
    assert done.code == 0, done.err
    (line,) = json.loads(done.out)["lines"]
    first, second = line["points"]
    assert line["label"] == "rows" and [first["label"], second["label"]] == ["0", "0.1"]
    assert first["x"]["mean"] == pytest.approx(0.95) and first["x"]["n"] == 2
    assert first["y"]["mean"] == pytest.approx(0.85)
    assert first["y"]["std"] == pytest.approx(0.1 / 2**0.5)
    assert second["x"] == {"mean": 0.6, "std": None, "n": 1}
    assert "AUC of the attack" in (tmp_path / "x.svg").read_text()


def test_marks_are_at_the_means_and_have_names(run, point, drawn, tmp_path):
    words = (*point("a:0", (1.0,), (0.8,)), *point("b:0", (0.75,), (0.5,)))
    assert run("plot", "leakage", *words, "-o", tmp_path / "x.png").code == 0
    (axes,) = drawn[-1].axes
    marks = [line.get_xydata().tolist() for line in axes.lines[:1]]
    assert marks == [[[1.0, 80.0]]]
    assert [text.get_text() for text in axes.texts] == ["0", "0"]
    assert axes.get_ylabel() == "linear accuracy (%)"
    left, right = axes.get_xlim()
    assert left < 0.5 and right > 1


@pytest.mark.parametrize("kind", ["audit", "score"])
def test_a_point_needs_audits_and_scores(refused, audit, metrics, tmp_path, kind):
    only = metrics(tmp_path, "l") if kind == "audit" else audit("a", 0.9)
    words = ("--series", f"rows:0={only}", "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ("--series rows:0", f"no {kind}"), "plot", "leakage", *words)
