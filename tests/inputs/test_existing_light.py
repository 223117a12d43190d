"""Every command that skips existing outputs reports them without torch."""

import ast
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from furlkit import catalogue
from furlkit.catalogue.groups import FORCE
from tests.helpers import furlkit, save_digits

NET = ("--width", 0.02, "--projector", "16,8", "--head", "classifier")
FAST = ("--epochs", 1, "--batch-size", 64)
DIGITS = ("--data", "d.npz")
SPLITS = (*DIGITS, "--test-data", "d.npz")  # Equal images give a warning.
MODEL = ("--model", "local-train")
SEEN = ("--candidates", "d.npz", "--partition", "partition")
# Commands by name in an order in which they can run; -o follows.
COMMANDS: dict[str, tuple] = {
    "partition": (*DIGITS, "--clients", 2, "--public-fraction", 0.4),
    "init": (*DIGITS, *NET),
    "pretrain-align": (
        "init",
        *DIGITS,
        *FAST,
        "--images",
        0,
        "--targets-out",
        "targets",
    ),
    "pretrain-style": ("partition", "init", *DIGITS, "--client", 0, *FAST),
    "local-train": (
        *("partition", "init", *DIGITS, "--client", 0, *FAST, "--align", "targets"),
        *(
            "--align-data",
            "d.npz",
            "--features-out",
            "rows",
            "--private-out",
            "private",
        ),
    ),
    "embed": ("local-train", *DIGITS, "--layer", "z"),
    "neighbours": ("init", *DIGITS, "--nearest", 90),
    "aggregate": ("local-train", "--parent", "init", "--partition", "partition"),
    "distill": ("--teacher", "labels", "init", *DIGITS, *FAST),
    "evaluate linear": ("init", *SPLITS, "--epochs", 1),
    "evaluate knn": ("init", *SPLITS, "--k", 90),
    "evaluate personal": ("partition", "aggregate", "private", *SPLITS, "--client", 0),
    "evaluate classifier": ("init", *SPLITS),
    "evaluate cluster": ("init", *SPLITS, "--kmeans", 3),
    "evaluate semi": ("init", *SPLITS, *FAST, "--fraction", 0.5, "--mode", "central"),
    "evaluate finetune": ("init", *SPLITS, *FAST, "--partition", "partition"),
    "evaluate transfer": ("init", *SPLITS, *FAST),
    "evaluate angles": ("init", "local-train", *DIGITS),
    "evaluate drift": ("init", *DIGITS, "--images", 20),
    "evaluate neighbours": ("neighbours", *DIGITS),
    "evaluate negatives": ("partition",),
    "audit membership": ("local-train", "--members", "d.npz", "--others", "t.npz"),
    "audit rows": ("rows", *MODEL, *SEEN, "--k", 3),
    "audit classes": ("local-train", "--parent", "init", "--public", "t.npz"),
    "audit inversion": (
        *("rows", *MODEL, *SEEN, "--k", 3, "--public", "t.npz", "--epochs", 1),
    ),
}
PROGRAM = """
import json, sys
from furlkit.cli.program import _outcome
loaded = {}
for name, words in json.load(sys.stdin).items():
    code = _outcome(words)
    loaded[name] = [code, "torch" in sys.modules]
print(loaded, file=sys.stderr)
"""


class Made(NamedTuple):
    """Words of the commands, and results and warnings of the first runs, by command."""

    folder: Path
    words: dict[str, list[str]]
    first: dict[str, tuple[dict, list[str]]]


def result_of(words):
    """The JSON and the warnings of a command that ends with exit code 0."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert furlkit(*words, "--json") == 0, words
    lines = err.getvalue().splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    return json.loads(out.getvalue()), warnings


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """The commands after the first run of each command."""
    folder: Path = tmp_path_factory.mktemp("light")
    save_digits(folder, 60, 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = {
            name: [*name.split(), *map(str, more), "-o", name.replace(" ", "-")]
            for name, more in COMMANDS.items()
        }
        first = {name: result_of(command) for name, command in words.items()}
    return Made(folder, words, first)


def test_the_commands_are_those_with_an_option_to_make_outputs_again():
    names = {
        name
        for name, entry in catalogue.COMMANDS.items()
        if entry.options.get("force") == FORCE
    }
    assert COMMANDS.keys() == names


def test_an_existing_output_is_reported_without_torch(commands, environment):
    folder, words, _ = commands
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(words), text=True,
        capture_output=True, cwd=folder, env=environment, check=True,
    )  # fmt: skip
    loaded = ast.literal_eval(done.stderr.splitlines()[-1])
    assert loaded == {name: [0, False] for name in words}, done.stderr
    assert done.stdout.count("already there") == len(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_repeated_command_has_the_result_and_the_warnings_of_the_first_run(
    commands, monkeypatch, name
):
    monkeypatch.chdir(commands.folder)
    result, warnings = commands.first[name]
    words = commands.words[name]
    assert result_of(words) == ({**result, "unchanged": True}, warnings)
    assert furlkit(*words, "--strict") == (65 if warnings else 0)


def test_most_commands_of_the_table_warn(commands):
    warned = {name for name, (_, warnings) in commands.first.items() if warnings}
    assert COMMANDS.keys() - warned == {
        *("partition", "init", "embed", "evaluate cluster", "evaluate angles"),
        *("evaluate drift", "evaluate neighbours", "evaluate negatives"),
        *("audit rows", "audit classes", "audit inversion"),
    }
