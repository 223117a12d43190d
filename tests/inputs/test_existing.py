"""The same command again does nothing; another one says what differs."""

import json
import os
import subprocess

import pytest

from tests.helpers import digest, epochs, furlkit

DIGITS = ("--data", "digits")
FAST = ("--epochs", 1, "--batch-size", 32)
OLD = 10**9  # Nanoseconds: a time long ago.


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """A command of each stage that writes a file, with one option to change."""
    folder = tmp_path_factory.mktemp("existing")
    p, g, c, e = (folder / name for name in ("p", "g", "c{client}", "e"))
    net = ("--width", 0.02, "--projector", "16,8", "--head", "classifier")
    public = ("--partition", p, "--part", "public")
    found = {
        "partition": (
            ["partition", *DIGITS, "--public-fraction", 0.1, "-o", p], ["--seed", 1],
        ),
        "init": (["init", *DIGITS, *net, "-o", g], ["--seed", 1]),
        "pretrain-align": (
            ["pretrain-align", g, *DIGITS, *public, *FAST, "--targets-out",
             folder / "t", "-o", folder / "a"], ["--lr", 0.01],
        ),
        "pretrain-style": (
            ["pretrain-style", p, g, *DIGITS, "--client", "0-1", *FAST, "-o",
             folder / "k{client}"], ["--lr", 0.01],
        ),
        "local-train": (
            ["local-train", p, g, *DIGITS, "--client", "0-1", *FAST, "--features-out",
             folder / "f{client}", "--alpha", 0, "-o", c], ["--temperature", 0.3],
        ),
        "aggregate": (
            ["aggregate", folder / "c0", folder / "c1", "-o", folder / "m"],
            ["--weights", "uniform"],
        ),
        "dictionary": (
            ["aggregate", "--rule", "dictionary", folder / "f0", folder / "f1", "-o",
             folder / "d"], ["--dictionary-size", 8],
        ),
        "embed": (
            ["embed", folder / "c0", *DIGITS, *public, "--layer", "z", "-o",
             folder / "z0"], ["--encoding", "int8"],
        ),
        "ensemble": (
            ["aggregate", "--rule", "ensemble", folder / "z0", "-o", e],
            ["--temperature", 0.3],
        ),
        "distill": (
            ["distill", e, g, *DIGITS, *FAST, "--anchors", 64, "-o", folder / "s"],
            ["--ema", 0.9],
        ),
        "knn": (["evaluate", "knn", g, *DIGITS, "-o", folder / "k.json"], ["--k", 5]),
        "linear": (
            ["evaluate", "linear", g, *DIGITS, "--epochs", 1, "-o", folder / "l.json"],
            ["--lr", 0.1],
        ),
        "personal": (
            ["evaluate", "personal", folder / "p", g, *DIGITS, "--epochs", 1, "-o",
             folder / "own.json"], ["--lr", 0.1],
        ),
        "classifier": (
            ["evaluate", "classifier", g, *DIGITS, "-o", folder / "c.json"],
            ["--threads", 2],
        ),
        "angles": (
            ["evaluate", "angles", folder / "c0", folder / "c1", *DIGITS, "-o",
             folder / "angles.json"], ["--layer", "z"],
        ),
        "drift": (
            ["evaluate", "drift", folder / "c0", *DIGITS, "--images", 50, "-o",
             folder / "drift.json"], ["--temperature", 0.1],
        ),
        "transfer": (
            ["evaluate", "transfer", g, *DIGITS, "--epochs", 1, "--batch-size", 512,
             "-o", folder / "fine.json"], ["--lr", 0.01],
        ),
    }  # fmt: skip
    for words, _ in found.values():
        assert furlkit(*words, "-q") == 0
    return found


STAGES = [
    "partition",
    "init",
    "pretrain-align",
    "pretrain-style",
    "local-train",
    "aggregate",
    "dictionary",
    "embed",
    "ensemble",
    "distill",
    "knn",
    "linear",
    "personal",
    "classifier",
    "angles",
    "drift",
    "transfer",
]


def output_of(words):
    """The output, and how to restore it."""
    text = str(words[-1]).replace("{client}", "0")
    path = type(words[-1])(text)
    return path


@pytest.mark.parametrize("stage", STAGES)
def test_the_same_command_again_does_nothing(commands, stage, run):
    words, _ = commands[stage]
    path = output_of(words)
    before = digest(path)
    inode = path.stat().st_ino
    os.utime(path, ns=(OLD, OLD))
    done = run(*words)
    assert done.code == 0
    assert "already there" in done.out or stage in ("angles", "drift")
    # The file is the old one, with a new date, so that make takes it for up to date.
    assert path.stat().st_ino == inode and path.stat().st_mtime_ns > OLD
    assert digest(path) == before


@pytest.mark.parametrize("stage", STAGES)
def test_other_options_are_named_and_the_output_is_made_again(commands, stage, run):
    words, other = commands[stage]
    path = output_of(words)
    before = digest(path)
    done = run(*words, *other)
    assert done.code == 0 and "already there" not in done.out
    assert other[0].removeprefix("--") in done.err and "making it again" in done.err
    assert digest(path) != before
    assert run(*words, "--force").code == 0
    assert digest(path) == before


@pytest.mark.parametrize("stage", ["local-train", "aggregate", "knn"])
def test_a_damaged_output_is_made_again(commands, stage, run):
    words, _ = commands[stage]
    path = output_of(words)
    content, before = bytearray(path.read_bytes()), digest(path)
    content[-40] ^= 255
    path.write_bytes(content)
    done = run(*words)
    assert done.code == 0 and "making it again" in done.err
    assert digest(path) == before


def test_another_input_is_named(commands, run, tmp_path):
    words, _ = commands["knn"]
    other = tmp_path / "g"
    assert run("init", *DIGITS, "--width", 0.02, "--seed", 5, "-o", other).code == 0
    done = run("evaluate", "knn", other, *words[3:])
    assert "checkpoint" in done.err and "making it again" in done.err
    assert run(*words).code == 0


def test_a_file_that_is_missing_beside_the_output_is_made_again(commands, run):
    words, _ = commands["local-train"]
    features = words[-1].with_name("f1")
    before = digest(features)
    features.unlink()
    done = run(*words, "--json")
    first, second = map(json.loads, done.out.splitlines())
    assert first["unchanged"] and "unchanged" not in second
    assert digest(features) == before


EPOCHS = 20


def at_once(words, fast_furlkit):
    command = [*fast_furlkit, *map(str, words), "-q"]
    jobs = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    found = [(job.communicate()[1], job.returncode) for job in jobs]
    return sorted(found, key=lambda each: each[1])


def check_at_once(commands, fast_furlkit, folder, tries):
    words, _ = commands["local-train"]
    for number in range(tries):
        output = folder / f"{number}.st"
        # Long enough for the second to start in the meantime, also on a busy machine.
        training = ("--client", 0, "--epochs", EPOCHS, "--batch-size", 8, "-o", output)
        one = [*words[:5], *training]
        (_, first), (said, second) = at_once(one, fast_furlkit)
        assert (first, second) == (0, 75), said
        assert "process" in said and str(output) in said
        assert [e["epoch"] for e in epochs(output)] == [*range(1, EPOCHS + 1)]
        assert not list(folder.glob(".*"))


def test_of_two_processes_one_writes(commands, fast_furlkit, tmp_path):
    check_at_once(commands, fast_furlkit, tmp_path, 1)


@pytest.mark.slow
def test_of_two_processes_one_writes_20_times(commands, fast_furlkit, tmp_path):
    check_at_once(commands, fast_furlkit, tmp_path, 20)


def test_a_changed_option_is_shown_as_it_is_typed(tmp_path, run):
    """And not the facts that follow from it."""
    init = ("init", *DIGITS, "--projector", "16,8", "-o", tmp_path / "g")
    assert run(*init, "--width", 0.02).code == 0
    said = run(*init, "--width", 0.03).err
    assert said == f"{tmp_path / 'g'}: making it again with --width 0.03, was 0.02\n"
    other = ("--width", 0.03, "--projector", "8,4", "--seed", 1)
    said = run(*init, *other).err
    assert said.endswith("with --projector 8,4, was 16,8; --seed 1, was 0\n")
