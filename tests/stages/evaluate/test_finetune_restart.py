"""Finetuning that is stopped and started again ends with the same bytes."""

import os
import signal
import time

import pytest

from furlkit.files.progress import ProgressFile
from furlkit.stages.evaluate.work import finetune
from tests.helpers import (
    epochs,
    furlkit,
    progress_of,
    step_of,
)
from tests.stages.evaluate.conftest import federated

# Six batches of 16 in an epoch, for each of three clients.
ROUNDS = 2
EPOCHS = ROUNDS * 3 * 2
STEPS = EPOCHS * 6
SMALL = ("--data", "digits", "--hidden", 8)
EVERY_STEP = ("-q", "--save-every", 0)


def long_command(divided_digits, output, every):
    plan = federated(divided_digits, 0.2, "--rounds", ROUNDS, "--epochs", 2)
    words = ("evaluate", plan[0], divided_digits / "g.st", *plan[1:], *SMALL)
    words += ("--batch-size", 16, "--save-every", every, "-q", "-o", output)
    return [str(word) for word in words]


@pytest.fixture(scope="module")
def undisturbed(divided_digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "long.json"
    assert furlkit(*long_command(divided_digits, path, 1000)) == 0
    assert len(epochs(path)) == EPOCHS
    return path.read_bytes()


def test_killed_at_several_moments_it_ends_with_the_same_bytes(
    divided_digits, start, undisturbed, tmp_path
):
    output = tmp_path / "long.json"
    words = long_command(divided_digits, output, 0)
    for step in (1, 14, 30, 47):
        process = start(words, hold=(output, step + 15))
        while step_of(output) < step:
            assert process.is_alive()
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL and not output.exists()
        assert STEPS > step_of(output) >= step
    last = start(words)
    last.join(60)
    assert last.exitcode == 0 and output.read_bytes() == undisturbed
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"long.json", "long.json.log.jsonl"}
    assert len(epochs(output)) == EPOCHS


def test_sigterm_saves_and_the_next_start_goes_on(
    divided_digits, start, undisturbed, tmp_path
):
    output = tmp_path / "long.json"
    words = long_command(divided_digits, output, 1000)
    process = start(words, hold=(output, 3 * 6))
    while len(epochs(output)) < 3:
        assert process.is_alive()
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 75 and not output.exists()
    assert STEPS > step_of(output) >= 3 * 6
    assert furlkit(*words) == 0
    assert output.read_bytes() == undisturbed and not progress_of(output).exists()


def test_killed_at_every_save_between_and_within_repeats(
    divided_digits, tmp_path, until_done
):
    """Three clients train in each of two repeats."""
    words = ["evaluate", "semi", divided_digits / "g.st", *SMALL]
    words += ["--fraction", 0.05, "--rounds", 1, "--epochs", 1, "--batch-size", 12]
    words += ["--partition", divided_digits / "p.st", "--repeats", 2, *EVERY_STEP]
    calm, output = tmp_path / "calm.json", tmp_path / "long.json"
    assert furlkit(*words, "-o", calm) == 0
    deaths = until_done(ProgressFile, "save", *words, "-o", output)
    assert deaths > 2 and output.read_bytes() == calm.read_bytes()
    assert [(e["repeat"], e["client"]) for e in epochs(output)] == [
        (repeat, client) for repeat in (1, 2) for client in (0, 1, 2)
    ]
    steps = [line["step"] for line in epochs(output)]
    assert steps == sorted(set(steps)) and not progress_of(output).exists()


def test_a_kill_after_the_first_repeat_does_not_train_it_again(
    divided_digits, tmp_path, monkeypatch, dies_at
):
    words = ["evaluate", "semi", divided_digits / "g.st", *SMALL]
    words += ["--mode", "central", "--fraction", 0.1, "--epochs", 2, "--batch-size", 16]
    words += ["--repeats", 2, *EVERY_STEP]
    calm, output = tmp_path / "calm.json", tmp_path / "long.json"
    assert furlkit(*words, "-o", calm) == 0
    with dies_at(finetune.rounds.Repeats, "results"):
        furlkit(*words, "-o", output)
    made = []
    original = finetune.rounds.Finetuning.finish
    with monkeypatch.context() as patch:
        patch.setattr(
            finetune.rounds.Finetuning, "finish",
            lambda self, *given: made.append(self) or original(self, *given),
        )  # fmt: skip
        assert furlkit(*words, "-o", output) == 0
    assert len(made) <= 1 and output.read_bytes() == calm.read_bytes()


def test_progress_of_another_command_is_started_over(
    divided_digits, evaluate, tmp_path, capsys
):
    words = federated(
        divided_digits, 0.1, "--rounds", 2, "--epochs", 1, "--save-every", 0
    )
    expected = evaluate("a", *words)[1].read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("furlkit.inputs.documents.write_metrics", killed)
        assert evaluate("b", *words, "--seed", 1)[0] == 130
    assert (tmp_path / "b.json.progress").exists()
    capsys.readouterr()
    code, path = evaluate("b", *words)
    assert code == 0 and path.read_bytes() == expected
    assert "b.json.progress: " in capsys.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("furlkit.inputs.documents.write_metrics", killed)
        assert evaluate("a", *words, "--force")[0] == 130
    code, path = evaluate("a", *words, "--force")
    assert code == 0 and path.read_bytes() == expected
