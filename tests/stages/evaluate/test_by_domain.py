"""evaluate linear, knn --by-domain: a head for each style, and the mean of them."""

import json
from statistics import fmean, stdev

import numpy as np
import pytest

from tests.helpers import NET, furlkit
from tests.stages.evaluate.styles import STYLES, digits_in_styles

PROTOCOLS = {
    "linear": ("linear", "--epochs", 2, "--probes", 2),
    "one probe": ("linear", "--epochs", 2, "--probes", 1),
    "lbfgs": ("linear", "--solver", "lbfgs"),
    "knn": ("knn", "--k", 5),
}


@pytest.fixture(scope="module")
def two_styles(tmp_path_factory):
    """Digits in two styles, black on white and white on black, together and alone."""
    folder = tmp_path_factory.mktemp("styles")
    for split, arrays in digits_in_styles():
        np.savez(folder / f"{split}.npz", **arrays, domain_names=np.array(STYLES))
        for number in (0, 1):
            mine = arrays["domains"] == number
            own = {k: v[mine] for k, v in arrays.items()}
            np.savez(folder / f"{split}{number}.npz", **own)
    train = folder / "train.npz"
    assert furlkit("init", "--data", train, *NET, "-o", folder / "g.st") == 0
    return folder


@pytest.fixture
def evaluate(two_styles, tmp_path):
    def run(name, protocol, *more, parts=("", "")):
        train, test = (
            two_styles / f"{split}{part}.npz"
            for split, part in zip(("train", "test"), parts, strict=True)
        )
        words = (two_styles / "g.st", "--data", train, "--test-data", test, *more)
        output = tmp_path / f"{name}.json"
        return furlkit("evaluate", protocol, *words, "-o", output), output

    return run


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_domain_scores_as_if_it_were_alone(score, protocol):
    words = PROTOCOLS[protocol]
    found = score("both", *words, "--by-domain")
    assert list(found["domains"]) == ["Real World", "ink"]
    for number, name in enumerate(("ink", "Real World")):
        alone = score(name, *words, parts=(str(number),) * 2)
        assert {key: alone[key] for key in found["domains"][name]} == (
            found["domains"][name]
        )
    each = found["domains"].values()
    assert found["accuracy"] == pytest.approx(fmean(d["accuracy"] for d in each))
    assert (found["train_examples"], found["test_examples"]) == (240, 90)
    assert found["domain_names"] == ["ink", "Real World"]
    assert found["options"]["by-domain"] is True


def test_probes_are_means_over_the_domains(score):
    found = score("x", *PROTOCOLS["linear"], "--by-domain")
    one, other = (found["domains"][name]["probes"] for name in ("ink", "Real World"))
    expected = [(a + b) / 2 for a, b in zip(one, other, strict=True)]
    assert found["probes"] == pytest.approx(expected)
    assert found["accuracy_std"] == pytest.approx(stdev(expected))
    assert "probes" not in score("y", *PROTOCOLS["one probe"], "--by-domain")


def test_without_the_flag_all_domains_are_one_dataset(score):
    found = score("x", *PROTOCOLS["knn"])
    assert not {"domains", "domain_names"} & found.keys()
    assert "by-domain" not in found["options"]
    assert np.sum(found["confusion"]) == 90


def test_the_result_names_every_domain_and_is_found_again(run, evaluate, capsys):
    code, path = evaluate("x", "knn", "--by-domain")
    assert code == 0
    found = json.loads(path.read_text())
    shown = ", ".join(
        f"{name} {100 * found['domains'][name]['accuracy']:.2f}"
        for name in ("Real World", "ink")
    )
    line = capsys.readouterr().out
    assert line.startswith(
        f"{path}: knn accuracy {100 * found['accuracy']:.2f}% on 90 "
    )
    assert line.endswith(f"; mean of 2 domains: {shown}\n")
    assert evaluate("x", "knn", "--by-domain")[0] == 0
    assert "already there" in capsys.readouterr().out
    assert f"mean of 2 domains: {shown}" in run("inspect", path).out.replace(
        "\n    ", " "
    )


def test_one_domain_is_compared_by_its_name(run, evaluate):
    path = evaluate("x", *PROTOCOLS["linear"], "--by-domain")[1]
    found = json.loads(path.read_text())["domains"]["Real World"]
    words = ("compare", "--series", f"a={path}", "--json", "--value")
    for domain in ("ink", "Real World"):
        table = run(*words, f"domains.{domain}.accuracy")
        assert table.code == 0, table.err
    (row,) = json.loads(table.out)["rows"]
    assert row["mean"] == found["accuracy"]
    assert row["probe_std"] == pytest.approx(found["accuracy_std"])


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_data_without_the_same_domains_is_refused(two_styles, refused, tmp_path, more):
    model, output = two_styles / "g.st", tmp_path / "x.json"
    both = two_styles / "train.npz"
    # A domain of one file alone is called 0 or 1.
    for test, word in ((two_styles / "test0.npz", "domain"), ("digits", "no domains")):
        data = ("--data", both, "--test-data", test, "--by-domain", *more)
        words = ("evaluate", "knn", model, *data, "-o", output)
        refused(tmp_path, 65, [test, word], *words)


def test_domains_of_the_same_name_are_not_told_apart(two_styles, refused, tmp_path):
    with np.load(two_styles / "train.npz") as arrays:
        np.savez(tmp_path / "t.npz", **{**arrays, "domain_names": ["ink", "ink"]})
    data = ("--data", tmp_path / "t.npz", "--test-data", tmp_path / "t.npz")
    words = ("evaluate", "knn", two_styles / "g.st", *data, "--by-domain")
    refused(
        tmp_path, 65, [tmp_path / "t.npz", "ink"], *words, "-o", tmp_path / "x.json"
    )
