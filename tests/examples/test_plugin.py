"""The example package, installed beside furlkit, adds what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that the package is installed into, without network."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for path in PLUGIN.rglob("*"):
        if path.suffix in (".py", ".toml", ".md") and "build" not in path.parts:
            copy = source / path.relative_to(PLUGIN)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    words = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    command = [sys.executable, "-m", "pip", "install", "-q", *words, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def call(installed, environment, tmp_path):
    """Run the program with the package on its path."""

    def run(*words) -> subprocess.CompletedProcess:
        path = f"{environment['PYTHONPATH']}:{installed}"
        return subprocess.run(
            [sys.executable, "-m", "furlkit", *map(str, words)],
            capture_output=True, text=True, cwd=tmp_path,
            env={**environment, "PYTHONPATH": path},
        )  # fmt: skip

    return run


def round_of(call, encoder: str) -> dict:
    data, objective = ("--data", "stripes"), ("--objective", "agreement")
    small = ("--projector", "16,8", "--predictor", "16,8")
    width = ("--width", "0.05") if encoder == "cnn5" else ()
    training = ("--margin", "0.1", "--epochs", "1", "--batch-size", "16")
    clients = [f"client_{k}" for k in range(3)]
    for words in (
        ("partition", *data, "--clients", 3, "-o", "p"),
        ("init", *data, "--encoder", encoder, *width, *objective, *small, "-o", "r0"),
        ("local-train", "p", "r0", *data, *objective, *training, "--client", "0-2",
         "-o", "client_{client}"),
        ("aggregate", *clients, "-o", "r1"),
        ("evaluate", "knn", "r1", *data, "-o", "knn.json"),
    ):  # fmt: skip
        done = call(*words)
        assert done.returncode == 0, done.stderr
    found = call("inspect", "--json", "client_0", "knn.json").stdout.splitlines()
    return dict(zip(("client", "knn"), map(json.loads, found), strict=True))


def test_a_round_with_its_objective_and_dataset(call):
    found = round_of(call, "cnn5")
    options = found["client"]["options"]
    assert (options["objective"], options["margin"]) == ("agreement", 0.1)
    assert options["plugin furlkit-toys"].startswith("0.1.0 ")
    assert found["knn"]["class_names"] == ["down", "across", "diagonal"]
    assert found["knn"]["accuracy"] > 0.5


def test_a_round_with_its_encoder(call):
    found = round_of(call, "tiny")
    assert found["knn"]["accuracy"] > 0.5
    both = [found[name]["options"]["plugin furlkit-toys"] for name in ("client", "knn")]
    assert both[0] == both[1]


def test_help_and_checks_know_it(call):
    shown = call("local-train", "--help-all").stdout
    assert "--objective agreement:\n  --margin X" in shown
    words = ("--data", "stripes", "--client", "0", "--margin", "1", "-o", "c")
    done = call("local-train", "p", "g", *words)
    assert done.returncode == 2
    assert "--margin does not apply to --objective simclr" in done.stderr
    assert "\n    tiny" in call("init", "--help-all").stdout
