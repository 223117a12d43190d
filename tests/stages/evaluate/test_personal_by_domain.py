"""evaluate personal of clients of several styles: on their own style's images, or all."""

import json
from statistics import fmean, stdev

import numpy as np
import pytest

from furlkit.files.partition import read_partition
from tests.helpers import NET, furlkit
from tests.stages.evaluate.styles import STYLES, digits_in_styles

HEAD = ("--epochs", 20, "--lr", 0.1, "--probes", 2)


@pytest.fixture(scope="module")
def clients_of_styles(tmp_path_factory):
    """Digits in two styles, black on white and white on black; two clients of each."""
    folder = tmp_path_factory.mktemp("styles")
    for split, arrays in digits_in_styles():
        np.savez(folder / f"{split}.npz", **arrays, domain_names=np.array(STYLES))
        for number, style in enumerate(STYLES):
            mine = arrays["domains"] == number
            own = {k: arrays[k][mine] for k in ("images", "labels")}
            np.savez(folder / f"{split}_{style}.npz", **own)
    data = ("--data", folder / "train.npz")
    assert furlkit("init", *data, *NET, "-o", folder / "g") == 0
    for name, split in (
        ("p", ("--scheme", "domains", "--clients-per-domain", 2)),
        ("one", ("--scheme", "domains", "--clients-per-domain", 1, "--no-repeat")),
        ("iid", ("--clients", 2)),
    ):
        assert furlkit("partition", *data, *split, "-o", folder / name) == 0
    return folder


@pytest.fixture
def words(clients_of_styles, tmp_path):
    def line(name, *more, partition="p", test="test.npz"):
        data = (
            "--data",
            clients_of_styles / "train.npz",
            "--test-data",
            clients_of_styles / test,
        )
        given = (
            "evaluate",
            "personal",
            clients_of_styles / partition,
            clients_of_styles / "g",
            *data,
            *HEAD,
        )
        return (*given, *more, "-o", tmp_path / f"{name}.json")

    return line


@pytest.fixture
def evaluate(words):
    def run(name, *more, **how):
        line = words(name, *more, **how)
        return furlkit(*line, "-q"), line[-1]

    return run


def test_each_client_is_tested_on_its_own_style(score, clients_of_styles):
    found = score("x", "--by-domain")
    partition = read_partition(clients_of_styles / "p")
    for client in found["clients"]:
        number, style = client["client"], partition.domain_of(client["client"])
        more = ("--client", number)
        alone = score(f"y{number}", *more, test=f"test_{style}.npz")["clients"][0]
        assert client == alone and client["domain"] == style
    assert [c["test_examples"] for c in found["clients"]] == [60, 60, 30, 30]
    assert found["test_examples"] == 90 and found["options"]["by-domain"] is True
    assert score("z", "--by-domain", "--client", "2-3")["test_examples"] == 30


@pytest.mark.parametrize("flag", [(), ("--by-domain",)])
def test_the_clients_of_each_style_are_summed_up(score, flag):
    found = score("x", *flag)
    assert found["domain_names"] == list(STYLES) == sorted(found["domains"])[::-1]
    for style, numbers in zip(STYLES, ((0, 1), (2, 3)), strict=True):
        own = [found["clients"][k] for k in numbers]
        each = [client["accuracy"] for client in own]
        probes = np.mean([client["probes"] for client in own], axis=0)
        domain = found["domains"][style]
        assert domain["clients"] == 2
        assert domain["accuracy"] == pytest.approx(fmean(each))
        assert domain["clients_std"] == pytest.approx(stdev(each))
        assert domain["worst_tenth_accuracy"] == min(each)
        assert domain["probes"] == pytest.approx(probes.tolist())
        assert domain["accuracy_std"] == pytest.approx(np.std(probes, ddof=1))
    assert found["accuracy"] == pytest.approx(
        fmean(client["accuracy"] for client in found["clients"])
    )


def test_one_client_with_all_images_of_a_style_is_linear_by_domain(
    score, clients_of_styles, tmp_path, forge
):
    """The head of FedStyle's generalisation is `evaluate linear --by-domain`."""
    domains = np.arange(240) % 3 == 0
    in_order = np.concatenate([np.flatnonzero(~domains), np.flatnonzero(domains)])
    forge(
        clients_of_styles / "one",
        {"indices": in_order, "offsets": np.array([0, 160, 240])},
    )
    data = (
        "--data",
        clients_of_styles / "train.npz",
        "--test-data",
        clients_of_styles / "test.npz",
    )
    words = ("evaluate", "linear", clients_of_styles / "g", *data, *HEAD, "--by-domain")
    assert furlkit(*words, "-o", tmp_path / "linear.json") == 0
    linear = json.loads((tmp_path / "linear.json").read_text())
    own = score("x", "--by-domain", partition="one")
    assert own["probes"] == pytest.approx(linear["probes"])
    for style in STYLES:
        assert own["domains"][style]["probes"] == linear["domains"][style]["probes"]


def test_people_are_told_and_one_style_is_compared_and_drawn(words, run, tmp_path):
    done = run(*words("x", "--by-domain"))
    found = json.loads((tmp_path / "x.json").read_text())
    assert f"worst tenth {100 * found['worst_tenth_accuracy']:.2f}%" in done.out
    shown = ", ".join(
        f"{style} {100 * found['domains'][style]['accuracy']:.2f}"
        for style in sorted(STYLES)
    )
    assert done.out.endswith(f"round 0; clients by domain: {shown}\n")
    assert shown in " ".join(run("inspect", tmp_path / "x.json").out.split())
    assert "already there" in run(*words("x", "--by-domain")).out
    assert run(*words("y")).code == 0
    series = ("--series", f"a={tmp_path}/x.json", "--value", "domains.ink.accuracy")
    (row,) = json.loads(run("compare", *series, "--json").out)["rows"]
    assert row["mean"] == found["domains"]["ink"]["accuracy"]
    # Its own style's images and everyone's are two scores, which do not mix.
    both = ("--series", f"a={tmp_path}/x.json,{tmp_path}/y.json")
    mixed = run("compare", *both)
    assert mixed.code == 2 and "personal by domain" in mixed.err
    bars = ("plot", "bars", "--by-domain", "--series", f"a={tmp_path}/x.json")
    drawn = run(*bars, "-o", tmp_path / "bars.svg", "--json")
    groups = [bar["group"] for bar in json.loads(drawn.out)["bars"]]
    assert groups == [*STYLES, "mean"]


def test_a_partition_or_test_images_without_styles_are_refused(
    clients_of_styles, words, tmp_path, refused
):
    more = ("--by-domain",)
    expected = (clients_of_styles / "iid", "domain", "--scheme domains")
    refused(tmp_path, 65, expected, *words("x", *more, partition="iid"))
    for dry in ((), ("--dry-run",)):
        expected = (clients_of_styles / "test_ink.npz", "no images of the domain ink")
        refused(tmp_path, 65, expected, *words("x", *more, *dry, test="test_ink.npz"))


def test_a_partition_without_styles_scores_as_before(score):
    found = score("x", partition="iid")
    assert not {"domains", "domain_names"} & found.keys()
    assert "by-domain" not in found["options"]
    assert all("domain" not in client for client in found["clients"])
