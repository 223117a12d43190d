"""FedMKD: clients of two architectures teach the server, and align with its model."""

import json

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.reports.ledger import read_ledger
from furlkit.training import loop
from tests.helpers import digest, epochs, furlkit

DIGITS = ("--data", "digits")
PRESET = ("--preset", "fedmkd")
HEADS = ("--projector", "16,8", "--predictor", "16,8")
FAST = ("--epochs", 1, "--lr", 0.01, "-q")
PUBLIC = ("--partition", "p.safetensors", "--batch-size", 20)


def clients(round_=1):
    return [f"c{round_}_{client}.safetensors" for client in (0, 1)]


def distil(output, *more, teachers=None, start="g0.safetensors"):
    words = ("distill", *(teachers or clients()), start, *DIGITS, *PRESET, *PUBLIC)
    return furlkit(*words, *FAST, *more, "-o", output)


def align(client, output, anchor="g1.safetensors"):
    words = ("distill", anchor, f"c1_{client}.safetensors", *DIGITS, *PRESET, *PUBLIC)
    return furlkit(*words, *FAST, "--teacher", "anchor", "-o", output)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two rounds: two clients with nets of different widths, the server, alignment."""
    folder = tmp_path_factory.mktemp("fedmkd")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        split = ("--clients", 2, "--public-count", 60, "-o", "p.safetensors")
        assert furlkit("partition", *DIGITS, *PRESET, *split) == 0
        for name, width in {"g0": 0.05, "wide": 0.08}.items():
            net = ("--width", width, *HEADS, "-o", f"{name}.safetensors")
            assert furlkit("init", *DIGITS, *PRESET, *net) == 0
        for client, start in enumerate(("g0", "wide")):
            train(client, f"{start}.safetensors", 1)
        assert distil("g1.safetensors") == 0
        for client in (0, 1):
            assert align(client, f"a1_{client}.safetensors") == 0
            train(client, f"a1_{client}.safetensors", 2)
    return folder


def train(client, start, round_):
    words = ("local-train", "p.safetensors", start, *DIGITS, *PRESET, *FAST)
    output = ("--client", client, "-o", clients(round_)[client])
    assert furlkit(*words, *output) == 0


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def test_the_server_learns_and_clients_keep_their_architectures(here):
    start, model = (read_checkpoint(here / f"g{n}.safetensors") for n in (0, 1))
    assert model.facts.role == "global" and model.facts.round == 1
    assert model.facts.architecture == start.facts.architecture
    assert any(
        not np.array_equal(v, start.tensors[k]) for k, v in model.tensors.items()
    )
    for client, width in enumerate((0.05, 0.08)):
        aligned = read_checkpoint(here / f"a1_{client}.safetensors").facts
        assert (aligned.role, aligned.client, aligned.round) == ("client", client, 1)
        upload = read_checkpoint(here / clients(2)[client]).facts
        assert upload.architecture["width"] == width and upload.round == 2


def test_the_journal_has_losses_and_weights_of_the_teachers(here):
    (line,) = epochs(here / "g1.safetensors")
    assert {*line["losses"]} == {"distillation", "byol"}
    assert sum(line["teacher_weights"]) == pytest.approx(1)
    assert line["alignment"] > 0 > line["uniformity"]


def test_the_order_of_the_models_does_not_matter(here, tmp_path):
    assert distil(tmp_path / "g", teachers=clients()[::-1]) == 0
    assert digest(tmp_path / "g") == digest(here / "g1.safetensors")


def test_a_killed_training_ends_with_the_same_bytes(here, tmp_path, dies_at):
    with dies_at(loop.Trainer, "step", 2):
        distil(tmp_path / "g", "--save-every", 0)
    assert distil(tmp_path / "g", "--save-every", 0) == 0
    assert digest(tmp_path / "g") == digest(here / "g1.safetensors")


def test_headers_replay_inspect_and_ledger_name_the_clients(here, run, tmp_path):
    inputs = {*Container(here / "g1.safetensors").header.inputs}
    assert inputs == {"client 0", "client 1", "partition", "start"}
    aligned = {*Container(here / "a1_0.safetensors").header.inputs}
    assert aligned == {"global", "partition", "start"}
    for name in ("g1", "a1_1"):
        words = ("replay", f"{name}.safetensors", "--depth", 1, "--run")
        outcome = run(*words, "--into", tmp_path / name, "--json")
        assert outcome.code == 0 and "same bytes" in outcome.out, outcome.err
    assert "distilled on 60 public images" in run("inspect", "g1.safetensors").out
    sent = {
        (t.client, t.round, t.direction, t.role) for t in read_ledger([here]).transfers
    }
    for client in (0, 1):
        assert (client, 1, "sent", "upload") in sent
        assert (client, 1, "received", "global") in sent


def test_an_upload_says_what_leaves_the_client(here, run):
    outcome = run("inspect", clients()[0], "--outgoing", "--json")
    assert outcome.code == 0 and json.loads(outcome.out)


@pytest.mark.parametrize("words, found", [
    (("g0.safetensors", "g0.safetensors"), "global model"),
    ((*clients(), "c1_0.safetensors"), "every client once"),
    ((clients()[0], clients(2)[1]), "one round"),
])  # fmt: skip
def test_teachers_that_do_not_fit_are_refused(here, run, tmp_path, words, found):
    command = ("distill", *words, "g0.safetensors", *DIGITS, *PRESET, *PUBLIC)
    outcome = run(*command, "-o", tmp_path / "g")
    assert outcome.code == 65 and found in outcome.err
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("more, found", [
    (("--projector", "16,4", "--predictor", "16,4"), "z of 8"),
    ((*HEADS, "--image-size", 16), "image size 8"),
    ((*HEADS, "--mean", 0.1), "mean"),
    (("--objective", "simclr"), "no predictor"),
])  # fmt: skip
def test_a_student_that_does_not_fit_is_refused(here, run, tmp_path, more, found):
    net = ("--width", 0.05, *more, "-o", tmp_path / "s")
    assert (
        furlkit("init", *DIGITS, *net, *({} if "--objective" in more else PRESET)) == 0
    )
    command = ("distill", *clients(), tmp_path / "s", *DIGITS, *PRESET, *PUBLIC)
    outcome = run(*command, "-o", tmp_path / "g")
    assert outcome.code == 65 and found in outcome.err, outcome.err


def test_an_anchor_is_a_global_model_and_models_are_needed(here, run, tmp_path):
    words = ("distill", "c1_1.safetensors", "c1_0.safetensors", *DIGITS, *PRESET)
    outcome = run(*words, "--teacher", "anchor", *PUBLIC, "-o", tmp_path / "g")
    assert outcome.code == 65 and "global" in outcome.err
    alone = run("distill", "g0.safetensors", *DIGITS, *PRESET, "-o", tmp_path / "g")
    assert alone.code == 2 and "MODEL... START" in alone.err
