"""aggregate --state: three rounds, refusals, other commands about the file."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.checkpoint import (
    CheckpointFacts,
    open_checkpoint,
    write_checkpoint,
)
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from tests.helpers import digest, furlkit

KNOWN = {"architecture": {"encoder": "toy"}, "mean": [0.5], "std": [0.5]}


def values(*numbers: float) -> dict[str, np.ndarray]:
    return {
        "encoder.w": np.array(numbers, np.float32),
        "encoder.bn.running_var": np.array([1.0], np.float32),
        "encoder.bn.num_batches_tracked": np.array(3),
    }


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Write a model of round 0, g0; and call aggregate for a round with two clients."""
    monkeypatch.chdir(tmp_path)
    facts = CheckpointFacts(role="global", round=0, **KNOWN)
    write_checkpoint(tmp_path / "g0", values(1, 2, 4), facts, Provenance("init"))

    def upload(number: int, *numbers: float, client: int) -> None:
        parent = open_checkpoint(tmp_path / f"g{number - 1}")[0].content
        facts = CheckpointFacts(
            role="client", round=number, client=client, examples=5, parent=parent,
            partition="b" * 64, **KNOWN,
        )  # fmt: skip
        path = tmp_path / f"u{number}_{client}"
        write_checkpoint(path, values(*numbers), facts, Provenance("local-train"))

    def call(number: int, *more, rule="fedavgm", state: str | None = "") -> int:
        for client, shift in ((0, 1.0), (1, 3.0)):
            start = load_file(tmp_path / f"g{number - 1}")["encoder.w"]
            upload(number, *(start + shift), client=client)
        if state == "":
            state = f"s{number - 1}" if number > 1 else None
        old = ("--state", state) if state else ()
        return furlkit(
            "aggregate", "--rule", rule, f"u{number}_0", f"u{number}_1", "--parent",
            f"g{number - 1}", *old, "--state-out", f"s{number}", "-o", f"g{number}",
            *more,
        )  # fmt: skip

    return call


def test_three_rounds_remember_the_momentum(server):
    """Delta is 2 in every round: m is 2, 3, 3.5 and the model moves by as much."""
    for number in (1, 2, 3):
        assert server(number, "--momentum", 0.5) == 0
    assert load_file("s3")["m.encoder.w"].tolist() == [3.5, 3.5, 3.5]
    assert load_file("g3")["encoder.w"].tolist() == [9.5, 10.5, 12.5]
    assert list(load_file("s3")) == ["m.encoder.w"]
    header = Container("g3").header
    assert header.facts["state"] == Container("s3").content
    assert header.inputs["state"] == Container("s2").content
    assert Container("s3").header.inputs == header.inputs


@pytest.mark.parametrize("rule", ["fedadam", "fedyogi"])
def test_rules_with_two_slots_run_three_rounds(server, rule):
    for number in (1, 2, 3):
        assert server(number, rule=rule) == 0
    assert sorted(load_file("s3")) == ["m.encoder.w", "v.encoder.w"]
    w = load_file("g3")["encoder.w"] - load_file("g0")["encoder.w"]
    assert w.min() > 0.01 and w.max() < 0.3


def test_files_that_are_there_are_kept_and_a_lost_state_is_made_again(server, capsys):
    assert server(1) == 0
    before = digest_of("g1", "s1")
    assert server(1) == 0
    assert "already there" in capsys.readouterr().out
    Path("s1").unlink()
    assert server(1) == 0
    assert digest_of("g1", "s1") == before


def digest_of(*names: str) -> list[str]:
    return [digest(Path(name)) for name in names]


def test_killed_between_state_and_model_the_round_ends_with_the_same_bytes(server):
    assert server(1) == 0
    whole = digest_of("g1", "s1")
    Path("g1").unlink()  # As a kill after the first of the two files leaves it.
    assert server(1) == 0
    assert digest_of("g1", "s1") == whole


def test_a_state_of_another_round_rule_or_model_is_refused(server, refused, tmp_path):
    for number in (1, 2):
        assert server(number) == 0
    assert server(1, "--lr", 0.5, "-o", "other", "--state-out", "other_s") == 0
    words = ("aggregate", "u2_0", "u2_1", "--parent", "g1", "--state-out", "x_s",
             "-o", "x", "--rule")  # fmt: skip
    cases = {
        ("fedavgm", "--state", "s2"): "after round 2",
        ("fedadam", "--state", "s1"): "fedavgm",
        ("fedavgm", "--state", "other_s"): "another state",
        ("fedavgm", "--state", "g1"): "server file",
    }
    for more, word in cases.items():
        refused(tmp_path, 65, [more[-1], word], *words, *more)


def test_a_state_of_another_architecture_is_refused(server, tmp_path, forge):
    assert server(1) == 0
    forge(tmp_path / "s1", facts={"architecture": {"encoder": "other"}})
    assert server(2) == 65


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--rule", "mean", "--state", "s"), "--state "),
        (("--rule", "mean", "--state-out", "s"), "--state-out"),
        (("--rule", "dictionary", "--state-out", "s"), "--state-out"),
        (("--rule", "fedadam", "--parent", "g0"), "--state-out"),
        (("--rule", "fedadam", "--state-out", "s"), "--parent"),
        (("--rule", "fedadam", "--parent", "g0", "--state-out", "g0"), "--state-out"),
        (("--rule", "fedadam", "--parent", "g0", "--state-out", "x"), "--state-out"),
    ],
)
def test_options_that_do_not_fit_are_refused(server, refused, tmp_path, words, flag):
    assert server(1) == 0
    refused(tmp_path, 2, [flag], "aggregate", "u1_0", "u1_1", "-o", "x", *words)


def test_a_forgotten_state_is_named(server, capsys):
    assert server(1) == 0
    assert server(2, state=None) == 0
    assert "g1: was made with a state" in capsys.readouterr().err
    assert server(2, "--force", "--strict", state=None) != 0


def test_a_round_of_an_inbox_is_closed_only_with_its_state(server, tmp_path, capsys):
    assert server(1) == 0
    (tmp_path / "inbox").mkdir()
    for k in (0, 1):
        Path(f"u1_{k}").rename(tmp_path / "inbox" / f"u{k}")
    words = ("aggregate", "--rule", "fedavgm", "inbox", "--parent", "g0",
             "--state-out", "s1", "-o", "g1")  # fmt: skip
    assert furlkit(*words) == 0
    assert "this round is closed" in capsys.readouterr().out
    before = digest_of("s1")
    Path("s1").unlink()
    assert furlkit(*words) == 0
    assert digest_of("s1") == before


def test_a_damaged_state_leaves_no_output(server, tmp_path):
    assert server(1) == 0
    whole = bytearray(Path("s1").read_bytes())
    whole[-1] ^= 1
    Path("s1").write_bytes(bytes(whole))
    assert server(2) == 65
    assert not Path("g2").exists() and not Path("s2").exists()


def test_other_commands_know_the_state(server, run, refused, tmp_path):
    for number in (1, 2):
        assert server(number) == 0
    assert "the memory of the server after round 2" in run("inspect", "s2").out
    refused(tmp_path, 65, ["s2", "server"], "inspect", "--outgoing", "s2")
    for name in ("g2", "s2"):
        out = run("replay", name, "--depth", 1, "--into", "again").out
        (line,) = [x for x in out.splitlines() if not x.startswith("#")]
        words = shlex.split(line)[1:]
        assert words[words.index("--state") + 1] == "s1"
        (tmp_path / "again").mkdir(exist_ok=True)
        assert furlkit(*words) == 0
        assert digest(tmp_path / "again" / name) == digest(tmp_path / name)


def test_a_report_describes_uploads_to_a_rule_with_a_state(server):
    assert server(1) == 0
    assert server(2, "--momentum", 0.9, "--report", "r.json") == 0
    clients = json.loads(Path("r.json").read_text())["clients"]
    # Without client 0 the update is 3 and not 2; each of three numbers moves by 1 more.
    np.testing.assert_allclose([c["moved"] for c in clients], [3**0.5] * 2, rtol=1e-5)
