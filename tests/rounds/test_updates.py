"""What clients start rounds from: DUM, FedU and ASTW, and what journals say of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.journal import Journal
from furlkit.files.private import read_private
from furlkit.training import loop
from furlkit.weights import is_batchnorm_statistic, parts_of
from tests.helpers import furlkit, tensor_bytes

DIGITS = ("--data", "digits")
NET = ("--width", 0.02, "--projector", "8,4", "--predictor", "8,4")
FAST = (*DIGITS, "--epochs", 1, "--batch-size", 36)
STILL = ("--optimiser", "sgd", "--lr", 1e-30, "--weight-decay", 0)
OWN = ("mu", "xi", "distance")
ALWAYS, NEVER = ("--mu", 0), ("--mu", 1e30)


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("updates")
    assert furlkit("partition", *DIGITS, "--clients", 20, "-o", folder / "p") == 0
    for objective in ("simclr", "byol"):
        words = (*DIGITS, *NET, "--objective", objective)
        assert furlkit("init", *words, "-o", folder / objective) == 0
    return folder


@pytest.fixture
def rounds(round_of_files, tmp_path):
    """Two clients for some rounds, with private files; gives the folder."""

    def run(name, *how, objective="simclr", count=2, still=()):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "g0").write_bytes((round_of_files / objective).read_bytes())
        for number in range(1, count + 1):
            kept = ("--private-out", folder / f"k{number}_{{client}}")
            if number > 1:
                kept += ("--private", folder / f"k{number - 1}_{{client}}")
            out = ("-o", folder / f"c{number}_{{client}}")
            words = (
                "local-train",
                round_of_files / "p",
                folder / f"g{number - 1}",
                *FAST,
            )
            more = (*how, *(still if number == count else ()))
            choice = ("--objective", objective, "--client", "0,1")
            assert furlkit(*words, *choice, *more, *kept, *out) == 0
            uploads = [folder / f"c{number}_{k}" for k in (0, 1)]
            assert furlkit("aggregate", *uploads, "-o", folder / f"g{number}") == 0
        return folder

    return run


def decisions(folder, client=0, count=2):
    """By round, the line that the journal has of the update."""
    found = []
    for number in range(1, count + 1):
        lines = Journal(folder / f"c{number}_{client}").read()
        (line,) = [line for line in lines if line["event"] == "update"]
        found.append({k: v for k, v in line.items() if k not in ("event", "time")})
    return found


def weights(path, part):
    tensors = read_checkpoint(path).tensors.items()
    own = {k: v for k, v in tensors if k.startswith(f"{part}.")}
    return {k: v for k, v in own.items() if not is_batchnorm_statistic(k)}


def same(found, expected):
    """Up to the smallest step of SGD, which makes another number of a zero."""
    assert expected
    pairs = ((found[name], expected[name]) for name in expected)
    return all(np.allclose(*pair, rtol=0, atol=1e-20) for pair in pairs)


@pytest.mark.parametrize(
    "more",
    [(*ALWAYS, "--xi", 0), (*NEVER, "--xi", 1), (*NEVER, "--distance", "sum-squares")],
)
def test_xi_0_or_mu_without_bound_gives_the_bytes_of_the_plain_update(rounds, more):
    plain, dum = rounds("plain"), rounds("dum", "--update", "dum", *more)
    for name in ("c1_0", "c2_0", "c2_1", "g2"):
        assert tensor_bytes(plain / name) == tensor_bytes(dum / name)
    one, other = (read_checkpoint(folder / "c2_0") for folder in (plain, dum))
    # The parent's header has other inputs, so its hash is another.
    assert replace(one.facts, parent=None) == replace(other.facts, parent=None)
    options = {k: v for k, v in other.header.options.items() if k not in OWN}
    assert options == {**one.header.options, "update": "dum"}


def test_a_client_that_is_far_away_mixes_by_xi(rounds):
    folder = rounds("dum", "--update", "dum", *ALWAYS, "--xi", 0.25, still=STILL)
    own, shared = (weights(folder / name, "encoder") for name in ("c1_0", "g1"))
    for name, found in weights(folder / "c2_0", "encoder").items():
        expected = 0.25 * own[name].astype(float) + 0.75 * shared[name].astype(float)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-20)
    assert same(*(weights(folder / name, "projector") for name in ("c2_0", "g1")))
    first, second = decisions(folder)
    assert first == {"update": "dum", "decision": "took", "own": 0, "distance": None}
    assert (second["decision"], second["own"]) == ("mixed", 0.25)
    assert second["distance"] > 0


def test_what_was_decided_is_in_the_result_and_on_stderr(
    rounds, round_of_files, tmp_path, run
):
    folder = rounds("dum", "--update", "dum", count=1)
    words = (
        "local-train",
        round_of_files / "p",
        folder / "g1",
        *FAST,
        "--client",
        0,
        "--json",
    )
    files = ("--private", folder / "k1_0", "--private-out", tmp_path / "k")
    more = ("--update", "dum", *ALWAYS)
    done = run(*words, *files, *more, "-o", tmp_path / "c")
    found = json.loads(done.out)["update"]
    assert found["own"] == 0.5 and found["decision"] == "mixed"
    far = f"distance {found['distance']:.4g}"
    assert f"client 0: --update dum mixed, 0.50 of its own, {far}" in done.err


def test_fedema_notes_its_share(rounds):
    first, second = decisions(rounds("ema", "--update", "fedema", "--tau", 0.7))
    assert first["decision"] == "took"
    assert second["own"] == pytest.approx(0.7) and second["distance"] > 0


@pytest.mark.parametrize("more, kept", [(ALWAYS, "c1_0"), (NEVER, "g1")])
def test_fedu_keeps_the_predictor_of_a_client_that_is_far_away(rounds, more, kept):
    how = ("--update", "fedu", *more)
    folder = rounds("fedu", *how, objective="byol", still=STILL)
    for part, source in (("encoder", "g1"), ("projector", "g1"), ("predictor", kept)):
        found, expected = (weights(folder / k, part) for k in ("c2_0", source))
        assert same(found, expected)
    words = [line["decision"] for line in decisions(folder)]
    assert words == ["took", "kept" if kept == "c1_0" else "took"]


def test_the_heads_of_astw_travel_in_the_last_rounds_of_a_cycle(rounds):
    how = ("--update", "astw", "--cycle", 3, "--exchanges", 1)
    folder = rounds("astw", *how, count=4)
    parts = [parts_of(read_checkpoint(folder / f"c{r}_0").tensors) for r in range(1, 5)]
    both = ["encoder", "projector"]
    assert parts == [["encoder"], ["encoder"], both, ["encoder"]]
    found = [line["decision"] for line in decisions(folder, count=4)]
    # The model of round 0 has all parts, and that of round 3, an exchange.
    assert found == ["took", "kept", "kept", "took"]
    for name in ("k1_0", "k2_0"):
        assert "projector" in parts_of(
            k for k in read_private(folder / name, 0).tensors if "weight" in k
        )


def test_a_rule_that_compares_with_the_parent_names_the_heads_it_lacks(
    rounds, tmp_path, capsys
):
    how = ("--update", "astw", "--cycle", 3, "--exchanges", 1)
    folder = rounds("astw-rule", *how, count=3)
    parent = ("--parent", folder / "g2", "--state-out", tmp_path / "state")
    words = ("aggregate", "--rule", "fedadam", folder / "c3_0", *parent)
    capsys.readouterr()
    assert furlkit(*words, "-o", tmp_path / "g3") == 65
    said = capsys.readouterr().err
    assert f"{folder / 'g2'}: has no tensor projector" in said
    assert "--rule fedadam" in said and "--update astw" in said
    plain = ("aggregate", "--rule", "median", folder / "c3_0", "-o", tmp_path / "g3")
    assert furlkit(*plain) == 0


def test_a_client_that_comes_late_starts_from_the_heads_that_init_drew(
    rounds, round_of_files, tmp_path
):
    folder = rounds("astw", "--update", "astw", count=1)
    words = (
        "local-train",
        round_of_files / "p",
        folder / "g1",
        *FAST,
        "--client",
        1,
        *STILL,
    )
    more = ("--update", "astw", "--private-out", tmp_path / "k")
    assert furlkit(*words, *more, "-o", tmp_path / "c") == 0
    assert same(
        read_private(tmp_path / "k", 1).tensors, weights(folder / "g0", "projector")
    )


def test_a_training_that_is_killed_and_resumed_notes_its_decision_once(
    rounds, round_of_files, tmp_path, until_done
):
    folder = rounds("dum", "--update", "dum", count=1)
    words = ("local-train", round_of_files / "p", folder / "g1", *FAST, "--client", 0)
    files = ("--private", folder / "k1_0", "--private-out", folder / "k2_0")
    more = ("--update", "dum", *ALWAYS, "--save-every", 0, "-o", folder / "c2_0")
    assert until_done(loop, "_finish_epoch", *words, *files, *more, "--epochs", 2) > 0
    assert decisions(folder)[1]["decision"] == "mixed"


@pytest.mark.parametrize(
    "more, words",
    [
        (("--update", "fedu", "--private-out", "k"), ("fedu", "predictor", "simclr")),
        (("--update", "dum"), ("dum", "--private-out")),
        (("--update", "astw"), ("astw", "heads", "--private-out")),
        (
            ("--update", "astw", "--cycle", 3, "--private-out", "k"),
            ("--exchanges 5", "3 rounds"),
        ),
    ],
)
def test_updates_that_lack_something(round_of_files, tmp_path, refused, more, words):
    line = (
        "local-train",
        round_of_files / "p",
        round_of_files / "simclr",
        *FAST,
        "--client",
        0,
        *more,
    )
    refused(tmp_path, 2, words, *line, "-o", tmp_path / "c")


def test_weights_of_another_net_are_refused(
    rounds, round_of_files, tmp_path, forge, refused
):
    folder = rounds("dum", "--update", "dum", count=1)
    forge(folder / "k1_0", {"last.encoder.conv1.weight": np.ones((1, 2, 3, 3), "f4")})
    words = ("local-train", round_of_files / "p", folder / "g1", *FAST, "--client", 0)
    files = ("--private", folder / "k1_0", "--private-out", tmp_path / "k")
    found = (folder / "k1_0", "encoder.conv1.weight")
    more = ("--update", "dum", "-o", tmp_path / "c")
    refused(tmp_path, 65, found, *words, *files, *more)
