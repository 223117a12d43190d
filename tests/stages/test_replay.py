"""replay: the printed commands make the same bytes; --run says whether they do."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from furlkit.files.container.read import Container
from furlkit.files.journal import Journal
from furlkit.files.metrics import write_metrics
from furlkit.stages.replay.comparison import compared
from tests.helpers import digest, furlkit


@pytest.fixture
def made(world):
    """A second generation: the mean of the clients, and features by it."""
    mean, rows = world.folder / "mean.safetensors", world.folder / "rows.safetensors"
    assert furlkit("aggregate", *world.clients, "-o", mean) == 0
    part = ("--partition", world.partition, "--part", 1)
    assert furlkit("embed", mean, "--data", "digits", *part, "-o", rows) == 0
    world.output.unlink()
    return mean, rows


def commands(text: str) -> list[list[str]]:
    return [shlex.split(x)[1:] for x in text.splitlines() if not x.startswith("#")]


def test_the_commands_make_the_same_bytes_from_the_first_file_on(made, world, run):
    into = world.folder / "again"
    outcome = run("replay", made[1], "--into", into)
    assert outcome.code == 0, outcome.err
    lines = commands(outcome.out)
    stages = [words[0] for words in lines]
    assert sorted(stages) == sorted(
        ["partition", "init", *["local-train"] * 3, "aggregate", "embed"]
    )
    assert stages[-2:] == ["aggregate", "embed"]
    for words in lines:
        assert furlkit(*words) == 0, words
    for path in (world.partition, world.model, *world.clients, *made):
        assert digest(into / path.name) == digest(path), path


@pytest.mark.parametrize("rule", ["mean", "clip", "l-dawa"])
def test_a_rule_that_reads_the_parent_is_given_it(world, run, rule):
    path, parent = world.folder / "robust", ("--parent", world.model)
    assert (
        furlkit("aggregate", "--rule", rule, *world.clients, *parent, "-o", path) == 0
    )
    (words,) = commands(run("replay", path, "--depth", 1, "--into", "again").out)
    assert ("--parent" in words) == (rule != "mean")
    assert "3 clients" in run("inspect", path).out
    assert furlkit(*words[:-1], world.output) == 0
    assert digest(world.output) == digest(path)


@pytest.mark.parametrize("rule", ["mean", "fedavgm"])
def test_only_a_rule_with_a_memory_writes_it_again(world, run, rule):
    path, state = world.folder / "next", world.folder / "memory"
    more = ("--parent", world.model, "--state-out", state) if rule != "mean" else ()
    words = ("aggregate", "--rule", rule, *world.clients, *more, "-o", path)
    assert furlkit(*words) == 0
    (words,) = commands(run("replay", path, "--depth", 1, "--into", "again").out)
    assert ("--state-out" in words) == (rule != "mean")
    assert words[words.index("-o") + 1].endswith("next")


def test_weights_of_a_file_are_not_recorded(world, run):
    (weights := world.folder / "weights.json").write_text('{"0": 1, "1": 2, "2": 3}')
    line = ("aggregate", *world.clients, "--weights", weights, "-o", world.output)
    assert furlkit(*line) == 0
    outcome = run("replay", world.output, "--depth", 1)
    assert outcome.code == 65 and "--weights" in outcome.out
    assert commands(outcome.out) == []


def test_a_site_with_a_name_is_named(world, run):
    path = world.folder / "north"
    line = ("--data", "digits", "--epochs", 1, "--batch-size", 240)
    assert furlkit("local-train", world.model, "--client", "north", *line,
                   "-o", path) == 0  # fmt: skip
    (words,) = commands(run("replay", path, "--depth", 1).out)
    assert words[words.index("--client") + 1] == "north"
    assert str(world.partition) not in words


def test_a_fast_training_on_a_gpu_is_fast_again(world, run, forge):
    client = world.clients[0]
    options = Container(client).header.options
    forge(client, options={**options, "device": "cuda", "deterministic": False})
    (words,) = commands(run("replay", client, "--depth", 1).out)
    assert "--fast" in words and words[words.index("--device") + 1] == "cuda"


def test_every_command_reads_files_that_were_found_and_replaces_none(
    made, world, run, snapshot
):
    before = snapshot(world.folder)
    text = run("replay", made[0], "--depth", 1).out
    (words,) = commands(text)
    assert words[1:4] == list(map(str, world.clients))
    assert words[-1] == "replay/mean.safetensors"
    assert snapshot(world.folder) == before


@pytest.mark.parametrize("change", ["nothing", "a tensor", "a fact"])
def test_running_says_whether_it_is_the_same(made, world, run, forge, change):
    path = made[0]
    if change == "a tensor":
        name, array = next(iter(Container(path).tensors().items()))
        forge(path, {name: np.asarray(array + array.dtype.type(1))})
    if change == "a fact":
        forge(path, facts={"examples": 7})
    outcome = run("replay", path, "--depth", 1, "--run")
    expected = {
        "nothing": "same bytes",
        "a tensor": "differs in 1 of",
        "a fact": "same tensors; its header has other facts",
    }
    assert f"{path}: {expected[change]}" in outcome.out
    assert outcome.code == (1 if change == "a tensor" else 0)
    assert not Path("replay").exists()


def children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2][1] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_replay_leaves_no_command_behind(world, forge, environment):
    """The recorded training would take hours."""
    client = world.clients[0]
    options = Container(client).header.options
    forge(client, options={**options, "epochs": 9_999})
    words = ("-m", "furlkit", "replay", client, "--depth", 1, "--run")
    process = subprocess.Popen([sys.executable, *map(str, words)], env=environment)
    try:
        while not (found := children(process.pid)):
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    (child,) = found
    deadline = time.monotonic() + 60
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left := runs(child):
        os.kill(child, signal.SIGKILL)
    assert not left


def test_an_absurd_number_of_a_header_is_named_and_not_run(world, run, forge):
    client = world.clients[0]
    options = Container(client).header.options
    forge(client, options={**options, "epochs": 10**6})
    assert "--epochs 1000000" in run("replay", client, "--depth", 1).out
    outcome = run("replay", client, "--depth", 1, "--run")
    assert outcome.code == 65 and str(client) in outcome.err
    assert "--epochs 1000000" in outcome.err and "10,000" in outcome.err


def test_weights_of_another_program_are_found_by_content(world, run, tmp_path_factory):
    tensors = Container(world.model).tensors()
    encoder = {k[8:]: v for k, v in tensors.items() if k.startswith("encoder.")}
    weights, path = world.folder / "timm.safetensors", world.folder / "adapted"
    save_file(encoder, weights)
    init = ("--data", "digits", "--width", 0.02, "--projector", "8,4")
    assert furlkit("init", *init, "--from", weights, "-o", path) == 0
    (words,) = commands(run("replay", path).out)
    assert words[words.index("--from") + 1] == str(weights)
    outcome = run("replay", path, "--run")
    assert outcome.code == 0 and f"{path}: same bytes" in outcome.out
    assert f"{weights}: not made again" in outcome.out
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    weights.rename(elsewhere / "moved.safetensors")
    assert run("replay", path).code == 65
    assert run("replay", path, "--among", elsewhere).code == 0


def test_parts_that_stay_at_the_client_get_a_private_file(world, run):
    upload, private = world.folder / "part", world.folder / "kept"
    words = ("--client", 0, "--data", "digits", "--epochs", 1, "--batch-size", 240)
    words += ("--send", "encoder", "--private-out", private, "-o", upload)
    assert furlkit("local-train", world.partition, world.model, *words) == 0
    outcome = run("replay", upload, "--depth", 1, "--run")
    assert outcome.code == 0 and f"{upload}: same bytes" in outcome.out


def test_a_command_that_fails_is_no_difference(world, run, forge):
    client = world.clients[0]
    options = Container(client).header.options
    forge(client, options={**options, "objective": "nothing"})
    outcome = run("replay", client, "--depth", 1, "--run")
    assert outcome.code == 1
    assert "failed with exit code 2" in outcome.out
    assert f"{client}: the command failed" in outcome.err
    assert "differs" not in outcome.err


def test_an_input_that_is_gone_ends_the_chain(made, world, run):
    world.clients[1].unlink()
    outcome = run("replay", made[0])
    assert outcome.code == 65 and f"{made[0]}: input client 1" in outcome.err
    assert f"# {made[0]}: input client 1" in outcome.out
    assert "aggregate" not in [words[0] for words in commands(outcome.out)]


def test_inputs_are_found_among_other_folders(made, world, run, tmp_path):
    (tmp_path / "elsewhere" / "deeper").mkdir(parents=True)
    moved = made[0].rename(tmp_path / "elsewhere" / "deeper" / "mean.safetensors")
    assert "not among the files" in run("replay", moved, "--depth", 1).out
    lost = run("replay", moved, "--among", tmp_path / "nowhere")
    assert lost.code == 65 and "nowhere: no such folder" in lost.err
    text = run("replay", moved, "--depth", 1, "--among", world.folder).out
    assert commands(text)[0][1:4] == list(map(str, world.clients))


def test_files_of_one_name_do_not_replace_each_other(made, world, run, tmp_path):
    (tmp_path / "elsewhere" / "deeper").mkdir(parents=True)
    moved = made[0].rename(tmp_path / "elsewhere" / "deeper" / world.model.name)
    text = run("replay", moved, "--among", world.folder, "--into", "again").out
    outputs = [words[-1] for words in commands(text)]
    assert len(outputs) == len(set(outputs)) == 6
    assert f"again/world/{world.model.name}" in outputs


def test_images_that_are_not_found_are_asked_for(world, run, forge):
    forge(world.partition, facts={"dataset": {"examples": 9, "labels": "0" * 64}})
    outcome = run("replay", world.partition)
    assert (
        outcome.code == 65
        and "9 images are not found; name the dataset by --data" in outcome.out
    )


@pytest.mark.parametrize(
    "inputs, reason",
    [
        ({"client 0": 5}, "not among the files"),
        ({"client 0": ["a"]}, "not among the files"),
        ({"odd": "0" * 64}, "aggregate takes no odd"),
        ({"\x1b[m": None}, "aggregate takes no"),
    ],
)
def test_headers_of_others_are_no_obstacle(world, run, forge, inputs, reason):
    forge(world.model, inputs=inputs, stage="aggregate")
    outcome = run("replay", world.model)
    assert outcome.code == 65 and reason in outcome.out
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize(
    "words",
    [
        {"inputs": {"client 0\nrm -rf x": "0" * 64}},
        {"stage": "x\nrm -rf x"},
        {"options": {"rule": "mean\nrm -rf x"}, "inputs": {}},
        {"options": {"output": "rm", "min-clients": "rm"}, "inputs": {}},
    ],
)
def test_a_forged_header_gives_no_command_of_its_own(made, world, run, forge, words):
    forge(made[0], **words)
    outcome = run("replay", made[0], "--depth", 1)
    assert outcome.code in (0, 65)
    (line,) = [x for x in outcome.out.splitlines() if not x.startswith("# ")] or [""]
    assert "rm" not in shlex.split(line) and not line.startswith("rm")


def test_a_file_without_a_known_stage(world, run, forge):
    forge(world.model, stage="conjure")
    assert "conjure does not record" in run("replay", world.model).out


def test_what_differs_between_two_machines_is_told(made, world, run, forge):
    client = world.clients[0]
    name, array = next(iter(Container(client).tensors().items()))
    forge(client, {name: array + array.dtype.type(1)})
    Journal(client).write({"event": "start", "torch": "1.0", "cpu": "NONE"})
    outcome = run("replay", client, "--depth", 1, "--run")
    assert outcome.code == 1
    assert "torch 1.0, now " in outcome.out and "cpu NONE, now " in outcome.out


@pytest.mark.parametrize("into", ["world", "world/", "link", "link/deeper"])
def test_a_folder_with_a_compared_file_is_not_written_to(
    made, world, refused, tmp_path, into
):
    (world.folder / "deeper").mkdir()
    (tmp_path / "link").symlink_to(world.folder)
    if into == "link/deeper":  # The folder of an input.
        world.clients[1].rename(world.folder / "deeper" / world.clients[1].name)
    line = ("replay", made[0], "--depth", 1, "--into", tmp_path / into)
    for run in ((), ("--run",)):
        refused(world.folder, 2, ["--into", "compared file"], *line, *run)


def test_a_folder_that_leads_to_a_compared_file_is_not_written_to(
    made, world, refused, tmp_path
):
    (world.folder / "plan").mkdir()
    (world.folder / "plan" / "recipe.json").write_text("{}")
    (world.folder / "r001").mkdir()
    mean = made[0].rename(world.folder / "r001" / made[0].name)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "r001").symlink_to(mean.parent)
    line = ("replay", mean, "--depth", 1, "--run", "--into", tmp_path / "again")
    refused(world.folder, 2, [mean, "compared file"], *line)


def test_run_replaces_no_file_of_the_user(made, tmp_path, run):
    line = ("replay", made[0], "--depth", 1, "--run", "--into", tmp_path / "again")
    assert run(*line).code == 0
    (copy,) = (tmp_path / "again").rglob(made[0].name)
    assert run(*line).code == 0  # An earlier replay.
    copy.write_text("a day's work")
    outcome = run(*line)
    assert outcome.code == 2 and "--into" in outcome.err and str(copy) in outcome.err
    assert copy.read_text() == "a day's work"


def test_names_that_look_like_options_are_paths(made, world, run, monkeypatch):
    monkeypatch.chdir(world.folder)
    folder = world.folder / f"--report={world.folder}"
    folder.mkdir(parents=True)
    for path in world.clients:
        path.rename(folder / path.name)
    (folder / world.clients[0].name).rename("--help")
    outcome = run("replay", made[0].name, "--depth", 1, "--run", "--into", "--again")
    assert outcome.code == 0, outcome.err
    assert "mean.safetensors: same bytes" in outcome.out
    (words,) = commands(run("replay", made[0].name, "--depth", 1).out)
    assert words[1] == "./--help" and words[2].startswith("./--report=/")
    assert "mean.safetensors" in {path.name for path in Path("--again").iterdir()}


def test_a_packed_file_with_the_name_of_a_dataset_is_a_path(world, run, monkeypatch):
    monkeypatch.chdir(world.folder)
    assert furlkit("pack", "digits", "--split", "test", "-o", "packed") == 0
    Path("packed").rename("digits")
    line = ("partition", "--data", "./digits", "--clients", 2, "-o", "p.safetensors")
    assert furlkit(*line) == 0
    (words,) = commands(run("replay", "p.safetensors").out)
    assert words[words.index("--data") + 1] == "./digits"
    assert run("replay", "p.safetensors", "--run").out == "p.safetensors: same bytes\n"


@pytest.mark.parametrize("role", ["partition --private", "global 2", "", " ", "--help"])
def test_a_role_that_no_stage_has_is_named(world, run, forge, role):
    path = world.clients[0]
    inputs = Container(path).header.inputs
    forge(path, inputs={**inputs, role: inputs["partition"]})
    outcome = run("replay", path, "--depth", 1)
    assert outcome.code == 65 and f"local-train takes no {role}".strip() in outcome.out
    assert commands(outcome.out) == []


def test_inputs_are_found_in_the_folder_around_the_rounds(made, world, run):
    """The layout of the README: a folder for each round, beside the partition."""
    for number, paths in enumerate(([world.model], [*world.clients, made[0]])):
        (world.folder / f"r00{number}").mkdir()
        for path in paths:
            path.rename(world.folder / f"r00{number}" / path.name)
    outcome = run("replay", world.folder / "r001" / made[0].name)
    assert outcome.code == 0, outcome.err
    lines = commands(outcome.out)
    assert [words[0] for words in lines[:2]] in (
        ["partition", "init"], ["init", "partition"],
    )  # fmt: skip
    assert lines[-1][-1] == "replay/r001/mean.safetensors" and len(lines) == 6


def test_copies_that_an_earlier_replay_wrote_are_not_read(made, world, run):
    again, own = world.folder / "again", world.folder / "r001"
    again.mkdir(), own.mkdir()
    for path in world.clients:
        shutil.copy(path, again)
        path.rename(own / path.name)
    outcome = run("replay", made[0], "--depth", 1, "--into", again)
    assert outcome.code == 0, outcome.err
    paths = commands(outcome.out)[0][1:4]
    assert paths == [str(own / path.name) for path in world.clients]


# --- scores ---------------------------------------------------------------------------


@pytest.fixture
def scores(world):
    """A linear score of the first client's model."""
    path = world.folder / "linear.json"
    words = ("linear", world.clients[0], "--data", "digits", "--epochs", 2)
    assert furlkit("evaluate", *words, "--probes", 2, "--seed", 3, "-o", path) == 0
    return path


def test_scores_are_made_again_and_their_numbers_compared(scores, world, run):
    (words,) = commands(run("replay", scores).out)
    assert words[:5] == [
        "evaluate",
        "linear",
        str(world.clients[0]),
        "--data",
        "digits",
    ]
    assert words[words.index("--epochs") + 1] == "2" and "--probes" in words
    outcome = run("replay", scores, "--run")
    assert (outcome.code, outcome.out) == (0, f"{scores}: same bytes\n")
    lines = commands(run("replay", scores, "--depth", 3).out)
    assert [line[0] for line in lines[-2:]] == ["local-train", "evaluate"]


def test_scores_that_differ_say_how_far_and_on_which_machine(scores, run):
    document = json.loads(scores.read_text())
    true = document["accuracy"]
    write_metrics(scores, {**document, "accuracy": true + 0.25})
    Journal(scores).write({"event": "start", "torch": "1.0", "cpu": "NONE"})
    outcome = run("replay", scores, "--run")
    assert outcome.code == 1 and "differs in 1 of " in outcome.out
    assert f"accuracy is {true + 0.25}, now {true}, 0.25 apart" in outcome.out
    assert "(furlkit none, now " in outcome.out
    assert "torch 1.0, now " in outcome.out and "cpu NONE, now " in outcome.out


def test_what_differs_between_two_scores_is_told(tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    known = {"accuracy": 0.5, "per_class": [0.25, 0.75], "options": {"threads": 1}}
    write_metrics(one, known)
    write_metrics(other, known)
    assert compared(one, other, scores=True) == "same bytes"
    unknown = " (the versions and the machine of the first are not recorded)"
    write_metrics(other, {**known, "options": {"threads": 2}})
    said = compared(one, other, scores=True)
    assert said == f"same numbers; it has other options{unknown}"
    for path in (one, other):
        Journal(path).write({"event": "start", "torch": "2.7", "cpu": "AVX2"})
    write_metrics(other, {**known, "per_class": [0.25, 0.5]})
    assert compared(one, other, scores=True) == (
        "differs in 1 of 4 values: per_class.1 is 0.75, now 0.5, 0.25 apart "
        "(same versions and machine)"
    )


def test_scores_that_were_changed_are_not_made_again(scores, refused):
    true = json.loads(scores.read_text())["accuracy"]
    text = scores.read_text().replace(f'"accuracy": {true}', '"accuracy": 0.979')
    scores.write_text(text)
    refused(scores.parent, 65, [scores, "was changed"], "replay", scores, "--run")


@pytest.mark.parametrize(
    "protocol, words",
    [
        ("knn", ("{client}", "--k", 5)),
        ("knn", ("--untrained", "--width", 0.02, "--k", 5)),
        ("cluster", ("{client}", "--kmeans", 3, "--repeats", 2)),
        ("angles", ("{client}", "{model}", "--split", "test")),
        ("drift", ("{client}", "{model}", "--partition", "{partition}", "--part", 1,
                   "--images", 40)),
        ("negatives", ("{partition}",)),
        ("personal", ("{partition}", "{model}", "--client", "0,2",
                      "--solver", "lbfgs")),
        ("semi", ("{client}", "--partition", "{partition}", "--fraction", 0.1,
                  "--rounds", 1, "--epochs", 1, "--hidden", 4)),
    ],
)  # fmt: skip
def test_the_command_of_every_protocol_gives_the_same_bytes(
    world, run, protocol, words
):
    path, names = world.folder / "scores.json", {"client": world.clients[0]}
    names |= {"model": world.model, "partition": world.partition}
    given = [str(word).format(**names) for word in words]
    data = () if protocol == "negatives" else ("--data", "digits")
    assert furlkit("evaluate", protocol, *given, *data, "-o", path) == 0
    outcome = run("replay", path)
    assert outcome.code == 0, outcome.err
    (line,) = commands(outcome.out)
    assert furlkit(*line[:-1], world.folder / "again.json") == 0
    assert digest(world.folder / "again.json") == digest(path)


def test_scores_on_images_of_ones_own_name_both_sets(world, run, monkeypatch):
    monkeypatch.chdir(world.folder)
    for split in ("train", "test"):
        words = ("pack", "digits", "--split", split, "-o", f"{split}.safetensors")
        assert furlkit(*words) == 0
    words = ("knn", world.clients[0].name, "--data", "train.safetensors")
    words += ("--test-data", "test.safetensors", "-o", "knn.json")
    assert furlkit("evaluate", *words) == 0
    line = " ".join(commands(run("replay", "knn.json").out)[0])
    assert "--data train.safetensors --test-data test.safetensors" in line
    Path("test.safetensors").unlink()  # Both have the images of digits.
    line = " ".join(commands(run("replay", "knn.json").out)[0])
    assert "--data train.safetensors --test-data digits" in line
