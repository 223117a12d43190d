"""A command replaces without --force only what the same command has written."""

import shutil
from pathlib import Path

import pytest

from furlkit import catalogue
from furlkit.catalogue import File, writes_file
from tests.helpers import digest, furlkit
from tests.inputs.test_existing_light import COMMANDS

# Words of the commands that make their outputs every time.
MORE = {
    "pack": ("digits",),
    "check": ("digits",),
    "mask key": ("global", "--client", "a", "--secret-out", "secret"),
    "mask upload": ("upload", "key", "--secret", "secret"),
    "attack": ("upload", "--kind", "flip"),
    "compare": ("--series", "a=a.json"),
    "plot curve": ("a.json",),
    "plot partition": ("partition",),
    "plot tsne": ("a", "--data", "digits"),
    "plot angles": ("a.json",),
    "plot roc": ("a.json",),
    "plot leakage": ("--series", "a=a.json"),
    "plot bars": ("--series", "a=a.json"),
    "plot sweep": ("--series", "a=a.json", "--over", "lr"),
    "plot sobel": ("--data", "digits"),
    "plot differences": ("--series", "a=a.json", "--reference", "a"),
    "plot cost": ("--series", "a=a.json"),
    "plot loss": ("--series", "a=a.json"),
    "plot confusion": ("a.json",),
    "plot clusters": ("a.json", "--data", "digits"),
    "plot updates": ("run",),
    "plot uploads": ("a.json",),
    "ledger": ("run",),
    "plan": ("recipe.toml",),
    "report": ("run",),
}
ENDINGS = {"picture": ".png", "page": ".html", "table": ".csv", "rules": ".mk"}
OUTPUTS = [
    (name, option.key)
    for name, entry in catalogue.COMMANDS.items()
    for option in entry.options.values()
    if writes_file(option)
    if isinstance(option.kind, File)
    and option.kind.kinds not in (("folder",), ("record",))  # rounds/test_published.py
]


def words_of(name, option, path):
    """A command line that writes this option's file at the path, and the other files."""
    words = [*name.split(), *map(str, (COMMANDS | MORE)[name])]
    flag = option.second or f"--{option.name}"
    if flag in words:
        words[words.index(flag) + 1] = str(path)
    else:
        words += [flag, str(path)]
    if "-o" not in words and "output" in catalogue.COMMANDS[name].options:
        words += ["-o", str(path.with_name("other"))]
    return words


@pytest.mark.parametrize("name, key", OUTPUTS)
def test_a_file_of_the_user_is_not_replaced(name, key, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    option = catalogue.COMMANDS[name].options[key]
    path = tmp_path / f"notes{ENDINGS.get(option.kind.kinds[0], '')}"
    path.write_text("a day's work\n")
    if name == "compare":  # It compares the heading, which follows from the scores.
        partition(tmp_path, run)
    done = run(*words_of(name, option, path))
    assert done.code == 2, done.err
    assert str(path) in done.err and "exists" in done.err
    offered = "force" in catalogue.COMMANDS[name].options
    assert ("--force" in done.err) == offered
    assert path.read_text() == "a day's work\n"


def partition(folder, run):
    """Scores for `compare`, without training."""
    for words in (
        ("init", "--data", "digits", "--width", 0.02, "-o", "g"),
        ("evaluate", "knn", "g", "--data", "digits", "-o", "a.json"),
    ):
        assert run(*words, "-q").code == 0


DIGITS = ("--data", "digits")


@pytest.fixture(scope="module")
def _rounds(tmp_path_factory, _world):
    """Two rounds of two clients, scores and pictures."""
    folder = _world.copied_to(tmp_path_factory.mktemp("rounds") / "world").folder
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train = ("--epochs", 1, "--batch-size", 240, "-o", "r2_{client}.safetensors")
        for words in (
            (
                "aggregate",
                "client_0.safetensors",
                "client_1.safetensors",
                "-o",
                "g1.safetensors",
            ),
            (
                "local-train",
                "partition.safetensors",
                "g1.safetensors",
                *DIGITS,
                "--client",
                "0-1",
                *train,
            ),
            ("evaluate", "knn", "g1.safetensors", *DIGITS, "-o", "knn.json"),
            ("plot", "curve", "knn.json", "-o", "curve.png"),
            ("embed", "g1.safetensors", *DIGITS, "-o", "rows.safetensors"),
            ("embed", "client_0.safetensors", *DIGITS, "-o", "rows_0.safetensors"),
        ):
            assert furlkit(*words, "-q") == 0
    return folder


@pytest.fixture
def rounds(_rounds, tmp_path, monkeypatch):
    shutil.copytree(_rounds, tmp_path / "rounds")
    monkeypatch.chdir(tmp_path / "rounds")


TRAIN = (
    *("local-train", "partition.safetensors", "g1.safetensors", *DIGITS),
    *("--epochs", 1, "--batch-size", 240, "--client"),
)
OTHERS = {
    "an upload instead of the mean": (
        ("aggregate", "client_1.safetensors", "client_2.safetensors"),
        "client_0.safetensors", "local-train",
    ),
    "another client": ((*TRAIN, 1), "r2_0.safetensors", "client 0"),
    "the mean instead of a client": (
        ("embed", "g1.safetensors", *DIGITS), "rows_0.safetensors", "client 0",
    ),
    "another round": ((*TRAIN, 0), "client_0.safetensors", "round 1"),
    "clients of another round": (
        (*TRAIN, "0-1"), "client_{client}.safetensors", "round 1",
    ),
    "the model of another round": (
        ("aggregate", "r2_0.safetensors", "r2_1.safetensors"), "g1.safetensors",
        "round 1",
    ),
    "a partition instead of a model": (
        ("init", *DIGITS, "--width", 0.02), "partition.safetensors", "partition",
    ),
    "another protocol": (
        ("evaluate", "linear", "g1.safetensors", *DIGITS, "--epochs", 1), "knn.json",
        "knn",
    ),
    "scores of another round": (
        ("evaluate", "knn", "global.safetensors", *DIGITS), "knn.json", "round 1",
    ),
    "another kind": (
        ("embed", "g1.safetensors", *DIGITS, "--similarity"), "rows.safetensors",
        "features",
    ),
    "another picture": (
        ("plot", "confusion", "knn.json"), "curve.png", "plot confusion",
    ),
    "an upload of another attacker": (
        ("attack", "client_1.safetensors", "--parent", "global.safetensors",
         "--kind", "flip"), "client_0.safetensors", "client 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_an_output_of_another_command_client_or_round_needs_force(case, rounds, run):
    words, output, reason = OTHERS[case]
    paths = sorted(Path.cwd().glob(output.replace("{client}", "[01]")))
    before = [*map(digest, paths)]
    done = run(*words, "-o", output)
    assert done.code == 2, done.err
    assert paths[0].name in done.err and reason in done.err and "--force" in done.err
    assert [*map(digest, paths)] == before
    assert run(*words, "-o", output, "--force").code == 0
    assert [*map(digest, paths)] != before


@pytest.mark.parametrize("kept", [0.9, 0.5])
def test_a_file_cut_in_the_tensors_is_made_again(kept, rounds, run, tmp_path):
    path = tmp_path / "rounds/client_0.safetensors"
    whole = path.read_bytes()
    head = 8 + int.from_bytes(whole[:8], "little")
    path.write_bytes(whole[: head + int(kept * (len(whole) - head))])
    words = ("local-train", "partition.safetensors", "global.safetensors", *TRAIN[3:])
    done = run(*words, 0, "-o", path)
    assert done.code == 0 and "making it again" in done.err
    assert path.read_bytes() == whole


def test_an_empty_file_is_replaced(rounds, run, tmp_path):
    path = tmp_path / "made_by_mktemp"
    path.touch()
    assert run("plot", "curve", "knn.json", "-o", f"{path}.png").code == 0
    assert run("evaluate", "knn", "g1.safetensors", *DIGITS, "-o", path).code == 0
    assert path.stat().st_size > 100


def test_another_file_of_a_client_is_checked_before_training(rounds, run, tmp_path):
    """The upload is missing, so the training would be made; the rows are another's."""
    done = run(*TRAIN, 0, "--private-out", "g1.safetensors", "-o", "new.safetensors")
    assert done.code == 2 and "g1.safetensors" in done.err
    shutil.copy("r2_0.safetensors", "private.safetensors")
    done = run(*TRAIN, 0, "--private-out", "private.safetensors", "-o", "new")
    assert done.code == 2 and "private.safetensors" in done.err
