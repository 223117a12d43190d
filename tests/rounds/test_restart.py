"""A training that is stopped and started again ends with the same bytes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.stages.local_train import results
from furlkit.stages.local_train import train as local_train
from furlkit.training import loop
from tests.helpers import (
    digest,
    epochs,
    furlkit,
    progress_of,
    round_0,
    step_of,
)

EPOCHS = 15
STEPS = EPOCHS * 9  # Each client has 287 or 288 images.


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    return round_0(tmp_path_factory.mktemp("round_of_files"))


def command(round_of_files, output, *more, clients=0, epochs=EPOCHS, every=0.01):
    words = [
        "local-train",
        round_of_files / "p.st",
        round_of_files / "g.st",
        "--data",
        "digits",
    ]
    words += ["--client", clients, "--epochs", epochs, "--batch-size", 32]
    words += ["--save-every", every, "--schedule", "cosine", *more, "-o", output]
    return [str(word) for word in words]


@pytest.fixture(scope="module")
def undisturbed(round_of_files):
    """Digests of clients 0 to 2, each trained without a stop by its own command."""
    digests = []
    for client in range(3):
        path = round_of_files / f"c{client}.safetensors"
        assert furlkit(*command(round_of_files, path, clients=client, every=1000)) == 0
        digests.append(digest(path))
    return digests


def kill_at(start, words, output, step):
    """Kill a training within 20 steps after a step; return the exit code."""
    process = start(words, hold=(output, step + 20))
    while step_of(output) < step:
        assert process.is_alive()
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    return process.exitcode


def test_killed_at_ten_random_moments_it_ends_with_the_same_bytes(
    round_of_files, start, undisturbed, tmp_path
):
    output, rng = tmp_path / "c0.safetensors", random.Random(0)
    words = command(round_of_files, output, every=0)
    for step in sorted(rng.sample(range(STEPS * 6 // 10), 10)):
        code = kill_at(start, words, output, step)
        assert code == -signal.SIGKILL and not output.exists()
    last = start(words)
    last.join(60)
    assert last.exitcode == 0 and digest(output) == undisturbed[0]
    # No progress file is left, no part file, nothing but output and journal.
    assert {p.name for p in tmp_path.iterdir()} == {output.name, "c0.log.jsonl"}
    assert len(epochs(output)) == EPOCHS


def test_signals_save_and_the_next_start_resumes(
    round_of_files, start, undisturbed, tmp_path
):
    output = tmp_path / "c0.safetensors"
    words = command(round_of_files, output, every=1000)
    seen = 0
    signals = ((signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130))
    for number, expected in signals:
        before = seen // 9 + 1  # The journal shows that this start trains.
        process = start(words, hold=(output, 9 * (before + 1)))
        while len(epochs(output)) <= before:
            assert process.is_alive()
            time.sleep(0.005)
        os.kill(process.pid, number)
        process.join(60)
        assert process.exitcode == expected and not output.exists()
        assert step_of(output) > seen
        seen = step_of(output)
    last = start(words)
    last.join(60)
    assert last.exitcode == 0 and digest(output) == undisturbed[0]
    assert not progress_of(output).exists()


def test_what_a_stopped_program_says(
    round_of_files, tmp_path, undisturbed, environment
):
    output = tmp_path / "c0.safetensors"
    train = command(round_of_files, output, every=0)
    code = (
        "import sys, tests.helpers as h; h.hold_training(sys.argv[1], 12, sys.argv[2:])"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", code, output, *train], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while step_of(output) < 12:
        assert first.poll() is None
        time.sleep(0.005)
    first.terminate()
    out, err = first.communicate(timeout=60)
    assert first.returncode == 75 and out == b""
    assert b"error: stopped by SIGTERM" in err
    step = step_of(output)
    words = [sys.executable, "-m", "furlkit", *train]
    again = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert again.returncode == 0 and again.stdout.count(b"\n") == 1
    assert b"step %d\n" % step in again.stderr.splitlines(keepends=True)[0]
    assert digest(output) == undisturbed[0]


def test_several_clients_killed_in_the_middle(
    round_of_files, start, undisturbed, tmp_path
):
    pattern = tmp_path / "c{client}.safetensors"
    outputs = [tmp_path / f"c{client}.safetensors" for client in range(3)]
    words = command(round_of_files, pattern, clients="0-2", every=0)
    code = kill_at(start, words, outputs[1], STEPS // 2)
    assert code == -signal.SIGKILL
    assert outputs[0].exists() and not outputs[1].exists()
    journal = (tmp_path / "c0.log.jsonl").read_bytes()
    last = start(words)
    last.join(60)
    assert last.exitcode == 0
    assert [digest(path) for path in outputs] == undisturbed
    # The journal holds throughput: were client 0 trained again, it would differ.
    assert (tmp_path / "c0.log.jsonl").read_bytes() == journal
    assert not list(tmp_path.glob("*.progress")) and not list(tmp_path.glob(".*"))


SHORT = {"epochs": 2, "every": 0}


@pytest.fixture(scope="module")
def short(round_of_files):
    path = round_of_files / "short.safetensors"
    assert furlkit(*command(round_of_files, path, **SHORT)) == 0
    return digest(path)


@pytest.fixture
def interrupted(round_of_files, tmp_path, dies_at, capsys):
    """Three clients of 2 x 9 steps, of which the second dies in its last step."""
    words = command(
        round_of_files, tmp_path / "c{client}.st", "--private-out", tmp_path / "p{client}.st",
        "--json", clients="0-2", **SHORT,
    )  # fmt: skip
    with dies_at(loop.Trainer, "step", 36):
        furlkit(*words)
    return words, json.loads(capsys.readouterr().out)


def test_a_client_is_over_as_soon_as_its_output_is_there(interrupted, tmp_path, capsys):
    words, first = interrupted
    assert first["client"] == 0 and (tmp_path / "c0.st").exists()
    assert {path.name for path in tmp_path.glob("*.progress")} == {"c1.st.progress"}
    journal = (tmp_path / "c0.st.log.jsonl").read_bytes()
    assert furlkit(*words) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["client"] for line in again] == [0, 1, 2]
    assert again[0]["unchanged"] and "unchanged" not in again[1]
    assert again[0]["content"] == first["content"]
    assert (tmp_path / "c0.st.log.jsonl").read_bytes() == journal
    assert not list(tmp_path.glob("*.progress"))
    # With --force all of them are trained again.
    assert furlkit(*words, "--force") == 0
    assert (tmp_path / "c0.st.log.jsonl").read_bytes() != journal


@pytest.mark.parametrize("what", ["private", "other", "damage", "seed"])
def test_a_client_is_trained_again_unless_all_its_files_are_the_commands(
    interrupted, round_of_files, tmp_path, what
):
    words, _ = interrupted
    output, private = tmp_path / "c0.st", tmp_path / "p0.st"
    whole = digest(output), digest(private)
    journal = (tmp_path / "c0.st.log.jsonl").read_bytes()
    if what == "private":
        private.unlink()
    elif what == "other":
        output.write_bytes((round_of_files / "g.st").read_bytes())
    elif what == "damage":
        content = output.read_bytes()
        output.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        words = [*words, "--seed", "1"]
    # A file of another command is the user's, and replaced with --force only.
    assert furlkit(*words) == (2 if what == "other" else 0)
    assert furlkit(*words, *(["--force"] if what == "other" else [])) == 0
    assert (tmp_path / "c0.st.log.jsonl").read_bytes() != journal
    assert ((digest(output), digest(private)) == whole) == (what != "seed")


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "kind", "options", "empty"])
def test_an_unusable_progress_file_is_named_and_training_starts_over(
    round_of_files, short, tmp_path, dies_at, capsys, damage
):
    output = tmp_path / "short.safetensors"
    other = ["--seed", 1] if damage == "options" else []
    with dies_at(loop.Trainer, "step", 8):
        furlkit(*command(round_of_files, output, *other, **SHORT))
    path = progress_of(output)
    content = path.read_bytes()
    changed = {
        "cut": content[:-1],
        "flip": content[:-1] + bytes([content[-1] ^ 1]),
        "text": b"not a progress file at all",
        "kind": (round_of_files / "g.st").read_bytes(),
        "options": content,
        "empty": b"",
    }
    path.write_bytes(changed[damage])
    capsys.readouterr()
    assert furlkit(*command(round_of_files, output, **SHORT)) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"warning: {path}: ")
    assert digest(output) == short and not path.exists()


FORGERIES = {
    "a tensor that lacks": lambda t, v: (t, t.pop(min(t)) is None or v),
    "a tensor of another shape": lambda t, v: (
        {k: np.zeros((2, 2), a.dtype) if "conv" in k else a for k, a in t.items()}, v
    ),
    "no slots of the optimiser": lambda t, v: (
        {k: a for k, a in t.items() if ".optimiser." not in k}, v
    ),
    "a tensor of nobody": lambda t, v: ({**t, "inner.learner.odd.x": np.zeros(3)}, v),
    "no values": lambda t, v: (t, {}),
    "another turn": lambda t, v: (t, {**v, "turn": 7}),
    "a later step": lambda t, v: (t, {**v, "step": 10**9}),
    "text for a number": lambda t, v: (
        t, {**v, "inner": {**v["inner"], "seconds": "long"}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_progress_file_that_fits_and_cannot_be_restored_starts_over(
    round_of_files, short, tmp_path, dies_at, capsys, forgery
):
    output = tmp_path / "short.safetensors"
    with dies_at(loop.Trainer, "step", 8):
        furlkit(*command(round_of_files, output, **SHORT))
    opened = Container(path := progress_of(output))
    values = opened.header.facts["values"]
    tensors, values = FORGERIES[forgery](opened.tensors(), values)
    facts = {**opened.header.facts, "values": values}
    write(path, tensors, replace(opened.header.unsealed(), facts=facts))
    capsys.readouterr()
    assert furlkit(*command(round_of_files, output, **SHORT)) == 0
    err = capsys.readouterr().err
    assert f"warning: {path}: cannot be resumed" in err and "starting over" in err
    assert digest(output) == short and not path.exists()
    steps = [line["step"] for line in epochs(output)]
    assert steps == sorted(set(steps))


def test_killed_between_the_private_file_and_the_output(
    round_of_files, tmp_path, dies_at
):
    def once(folder, die):
        files = folder / "c.safetensors", folder / "kept.safetensors"
        words = command(round_of_files, files[0], "--private-out", files[1], **SHORT)
        if die:
            with dies_at(results, "write_checkpoint"):
                furlkit(*words)
            assert files[1].exists() and not files[0].exists()
        assert furlkit(*words) == 0
        return [digest(path) for path in files]

    assert once(tmp_path / "a", die=False) == once(tmp_path / "b", die=True)


def test_killed_after_the_output_was_written(round_of_files, short, tmp_path, dies_at):
    output = tmp_path / "short.safetensors"
    with dies_at(local_train.ProgressFile, "discard"):
        furlkit(*command(round_of_files, output, **SHORT))
    assert digest(output) == short and progress_of(output).exists()
    assert furlkit(*command(round_of_files, output, **SHORT)) == 0
    assert digest(output) == short and not progress_of(output).exists()


@pytest.mark.parametrize(
    "more",
    [
        ("--optimiser", "sgd", "--proximal", 0.1),
        ("--precision", "float16"),
        ("--no-channels-last", "--warmup", 1),
    ],
)
def test_every_way_of_training_can_be_resumed(round_of_files, tmp_path, dies_at, more):
    whole, parts = tmp_path / "a" / "c.safetensors", tmp_path / "b" / "c.safetensors"
    assert furlkit(*command(round_of_files, whole, *more, **SHORT)) == 0
    for step in (3, 6, 5):
        with dies_at(loop.Trainer, "step", step + 1):
            furlkit(*command(round_of_files, parts, *more, **SHORT))
    assert step_of(parts) == 14
    assert furlkit(*command(round_of_files, parts, *more, **SHORT)) == 0
    assert digest(whole) == digest(parts)


# Options with which the state matters within a few steps.
FEW_STEPS = {
    "nnclr": ("--queue", 70),
    "dino": ("--freeze-steps", 6),
    "swav": ("--freeze-steps", 6, "--queue", 70, "--queue-after", 3),
    "deepcluster": ("--clusters", "5,7"),
    "cluster": ("--mine-layer", "h"),
}


@pytest.mark.parametrize(
    "name", [name for name, o in catalogue.OBJECTIVES.items() if o.has_state]
)
def test_what_a_learner_carries_is_resumed_with_it(
    round_of_files, tmp_path, dies_at, name
):
    """Killed in its first epoch, between two, and in its last; private file too."""
    model = tmp_path / "g.st"
    choice = ("--objective", name, *FEW_STEPS.get(name, ()))
    net = ("--width", 0.02, "--projector", "16,8", "--predictor", "8,8")
    init = (*net, "--objective", name, "-o", model)
    assert furlkit("init", "--data", "digits", *init) == 0

    def words(folder):
        files = ("--private-out", folder / "k.st", "-o", folder / "c.st")
        plan = ("--epochs", 3, "--batch-size", 32, "--save-every", 0)
        given = (
            "local-train",
            round_of_files / "p.st",
            model,
            "--data",
            "digits",
            "--client",
            0,
        )
        return (*given, *choice, *plan, *files)

    assert furlkit(*words(tmp_path / "a")) == 0
    for step in (4, 5, 13):
        with dies_at(loop.Trainer, "step", step + 1):
            furlkit(*words(tmp_path / "b"))
    assert step_of(tmp_path / "b" / "c.st") == 22
    assert furlkit(*words(tmp_path / "b")) == 0
    for file in ("c.st", "k.st"):
        assert digest(tmp_path / "a" / file) == digest(tmp_path / "b" / file)


@pytest.mark.parametrize(
    "objective", ["simclr", "byol", "moco", "swav", "deepcluster", "instance"]
)
def test_a_client_does_not_depend_on_those_before_it(
    round_of_files, tmp_path, objective
):
    """The clients of a start are trained on one net, of which phases freeze parts."""
    model = tmp_path / "g.st"
    init = ("--width", 0.02, "--objective", objective, "-o", model)
    assert furlkit("init", "--data", "digits", *init) == 0
    files = (round_of_files / "p.st", model, "--data", "digits", "--batch-size", 32)
    more = ("--objective", objective, "--phases", "projector:1,encoder:1")

    def trained(output, clients):
        words = (*files, *more, "--client", clients, "-o", output)
        assert furlkit("local-train", *words) == 0

    trained(tmp_path / "c{client}.st", "0-1")
    trained(tmp_path / "alone.st", 1)
    assert digest(tmp_path / "c1.st") == digest(tmp_path / "alone.st")
