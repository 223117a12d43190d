"""Two whole rounds of FLESD on digits: the contents of every file."""

import shutil

import pytest
from safetensors.numpy import load_file

from furlkit.files.container import atomic
from furlkit.files.container.read import Container
from furlkit.files.ensemble import read_ensemble
from furlkit.files.features import read_features
from furlkit.files.partition import read_partition
from furlkit.files.progress import ProgressFile
from furlkit.objectives.similarity import Distiller
from furlkit.training import loop
from tests.helpers import contents, epoch_losses, furlkit

DIGITS = ("--data", "digits")
CLIENTS = (1, 2, 3)  # Client 0's images are public.


def local_train(folder, number):
    here, before = folder / f"r{number}", folder / f"r{number - 1}"
    words = ["local-train", folder / "partition", before / "global", *DIGITS]
    words += ["--client", "1-3", "--epochs", 1, "--batch-size", 180, "-q"]
    return [*words, "-o", here / "client_{client}"]


def embed(folder, number, client):
    here = folder / f"r{number}"
    part = ("--partition", folder / "partition", "--part", "public", "--layer", "z")
    words = ("embed", here / f"client_{client}", *DIGITS, *part)
    return [*words, "-o", here / f"public_{client}"]


def aggregate(folder, number, order=CLIENTS):
    here = folder / f"r{number}"
    given = [here / f"public_{client}" for client in order]
    return ["aggregate", "--rule", "ensemble", *given, "-o", here / "ensemble"]


def distill(folder, number):
    here, before = folder / f"r{number}", folder / f"r{number - 1}"
    words = ["distill", here / "ensemble", before / "global", *DIGITS, "--epochs", 2]
    words += ["--batch-size", 120, "--anchors", 200, "--save-every", 0, "-q"]
    return [*words, "-o", here / "global"]


def a_round(folder, number):
    embeds = [embed(folder, number, client) for client in CLIENTS]
    ends = [aggregate(folder, number), distill(folder, number)]
    return [local_train(folder, number), *embeds, *ends]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with everything that two undisturbed rounds leave."""
    folder = tmp_path_factory.mktemp("flesd")
    net = ("--width", 0.02, "--projector", "8,4")
    split = ("--clients", 4, "--public-client", 0)
    start = [
        ["partition", *DIGITS, *split, "-o", folder / "partition"],
        ["init", *DIGITS, *net, "-o", folder / "r0" / "global"],
    ]
    commands = [*start, *a_round(folder, 1), *a_round(folder, 2)]
    assert [furlkit(*command) for command in commands] == [0] * 14
    return folder


def losses(path):
    return [epoch["distillation"] for epoch in epoch_losses(path)]


@pytest.mark.parametrize("number", [1, 2])
def test_weights_never_leave_a_client_and_rows_say_what_they_are_of(whole, number):
    partition = read_partition(whole / "partition")
    for client in CLIENTS:
        found = read_features(whole / f"r{number}" / f"public_{client}")
        assert found.rows.shape == (len(partition.public), 4)
        assert found.index.tolist() == partition.public.tolist()
        assert (found.facts.client, found.facts.round) == (client, number)
        assert (found.facts.layer, found.facts.part) == ("z", "public")
        assert found.facts.dataset == partition.facts.dataset
    header = Container(whole / f"r{number}" / "ensemble").header
    assert header.facts["clients"] == list(CLIENTS) and header.facts["round"] == number


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_distilled_is_the_student_alone_as_the_round_s_global_model(
    whole, number
):
    header = Container(whole / f"r{number}" / "global").header
    here, start = whole / f"r{number}", whole / f"r{number - 1}" / "global"
    facts, before = header.facts, Container(start).header.facts
    assert (facts["role"], facts["round"]) == ("global", number)
    assert facts["architecture"] == before["architecture"]
    assert facts["parent"] == Container(start).content
    assert "client" not in facts and "partition" not in facts
    ensemble = Container(here / "ensemble").content
    assert header.inputs == {"ensemble": ensemble, "start": Container(start).content}
    found, expected = load_file(here / "global"), load_file(start)
    assert found.keys() == expected.keys()
    assert {k: v.dtype for k, v in found.items()} == {k: v.dtype for k, v in expected.items()}  # fmt: skip
    moved = [k for k in found if found[k].tobytes() != expected[k].tobytes()]
    assert set(moved) == set(found)
    own = Container(here / "client_1").header.facts
    assert own["parent"] == Container(start).content and own["round"] == number


def test_the_same_commands_and_another_order_of_files_give_the_same_bytes(
    whole, tmp_path
):
    folder = tmp_path / "flesd"
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "r2")
    commands = a_round(folder, 2)
    commands[-2] = aggregate(folder, 2, order=(3, 1, 2, 1))
    commands[1:4] = commands[3:0:-1]
    assert [furlkit(*command) for command in commands] == [0] * 6
    assert contents(folder) == contents(whole)


@pytest.fixture
def copied(whole, tmp_path):
    """A copy without the output of the last distillation."""
    folder = tmp_path / "flesd"
    shutil.copytree(whole, folder)
    (folder / "r2" / "global").unlink()
    return folder


def test_clients_of_all_architectures_distilled_into_another(whole, tmp_path):
    """Other widths, other projectors, each from its own start; then a round more."""
    run = (*DIGITS, "--run-name", "mixed")
    nets = {1: (0.02, "8,4"), 2: (0.03, "6"), 3: (0.02, "16,8,5")}
    (tmp_path / "r1").mkdir()
    shutil.copy(whole / "partition", tmp_path / "partition")
    for client, (width, heads) in nets.items():
        own = tmp_path / f"own_{client}"
        net = ("--width", width, "--projector", heads, "--seed", client)
        assert furlkit("init", *run, *net, "-o", own) == 0
        train = ["local-train", tmp_path / "partition", own, *DIGITS, "-q"]
        train += ["--epochs", 1, "--client", client, "--batch-size", 180]
        assert furlkit(*train, "-o", tmp_path / "r1" / f"client_{client}") == 0
        assert furlkit(*embed(tmp_path, 1, client)) == 0
    assert furlkit(*aggregate(tmp_path, 1)) == 0
    parts = read_ensemble(tmp_path / "r1" / "ensemble").parts
    assert [rows.shape[1] for rows in parts.values()] == [4, 6, 5]
    net = ("--width", 0.04, "--projector", "12,7")
    assert furlkit("init", *run, *net, "-o", tmp_path / "r0" / "global") == 0
    assert furlkit(*distill(tmp_path, 1)) == 0
    facts = Container(tmp_path / "r1" / "global").header.facts
    assert facts["round"] == 1 and facts["architecture"]["heads"]["projector"] == [
        12,
        7,
    ]
    first, last = losses(tmp_path / "r1" / "global")
    assert last < first
    assert furlkit(*local_train(tmp_path, 2)) == 0


def test_clients_of_fedca_s_dictionary_distilled_as_flesd_does(whole, tmp_path):
    """A round whose clients share rows for a dictionary, then one that uses it."""
    folder = tmp_path / "mixed"
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "r2")
    shutil.rmtree(folder / "r1")
    share = ["--dictionary-size", 30, "--alpha", 0]
    for number in (1, 2):
        here = folder / f"r{number}"
        more = [*share, "--features-out", here / "features_{client}"]
        if number == 2:
            more += ["--dictionary", folder / "r1" / "dictionary"]
        train, *rest = a_round(folder, number)
        rows = [here / f"features_{client}" for client in CLIENTS]
        output = ("-o", here / "dictionary")
        concatenate = ("aggregate", "--rule", "dictionary", *rows, *output)
        commands = [[*train[:-2], *more, *train[-2:]], *rest, concatenate]
        assert [furlkit(*command) for command in commands] == [0] * 7
    one, other = (
        Container(f / "r2" / "client_1").header.inputs for f in (folder, whole)
    )
    assert one.keys() - other.keys() == {"dictionary"}
    assert Container(folder / "r2" / "global").header.facts["round"] == 2


KILLS = {
    "before a step": (loop.Trainer, "step"),
    "while the queue is filled": (Distiller, "represent"),
    "before a file is there": (atomic.os, "replace"),
    "after a file is there": (atomic, "_sync_folder"),
    "before progress is deleted": (ProgressFile, "discard"),
}
STAGES = {
    "embed": (lambda f: embed(f, 2, 1), "public_1"),
    "aggregate": (lambda f: aggregate(f, 2), "ensemble"),
    "distill": (lambda f: distill(f, 2), "global"),
}
HAPPENS = [(s, kill) for s in STAGES for kill in KILLS if s == "distill" or "file" in kill]  # fmt: skip


@pytest.mark.parametrize("stage, kill", HAPPENS)
def test_killed_at_every_such_moment_it_ends_with_the_same_bytes(
    whole, tmp_path, until_done, stage, kill
):
    """The stage dies one call later each time, until it completes."""
    folder = tmp_path / "flesd"
    shutil.copytree(whole, folder)
    command, output = STAGES[stage]
    (folder / "r2" / output).unlink()
    assert until_done(*KILLS[kill], *command(folder)) >= 1
    assert contents(folder) == contents(whole)


def test_a_resumed_distillation_keeps_its_queue(whole, copied, monkeypatch, dies_at):
    with dies_at(loop.Trainer, "step", 4):
        furlkit(*distill(copied, 2))

    def filling(*_):
        raise AssertionError("the queue is filled again")

    monkeypatch.setattr(Distiller, "fill", filling)
    assert furlkit(*distill(copied, 2)) == 0
    assert contents(copied) == contents(whole)
