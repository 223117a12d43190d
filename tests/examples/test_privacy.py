"""examples/privacy: the commands of the page run, and the page knows every audit."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from furlkit.catalogue import AUDITS
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.metrics import read_metrics
from furlkit.reports.audits import PAGE
from tests.helpers import furlkit

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / PAGE).read_text()


def commands(word: str) -> list[list[str]]:
    """Commands of the blocks that contain a word."""
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.S)
    chosen = [block for block in blocks if word in block]
    assert chosen, word
    return [shlex.split(line)[1:] for each in chosen for line in each.splitlines()]


def expanded(words: list[str]) -> list[str]:
    """Words with the files of patterns."""
    pairs = [(w, sorted(map(str, Path().glob(w))) if "*" in w else [w]) for w in words]
    return [path for _, paths in pairs for path in paths]


def made(*words) -> None:
    assert furlkit(*words) == 0, words


def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = ("exp/rows_{client}", "audit rows", "--row-noise")
    for words in (words for block in blocks for words in commands(block)):
        made(*expanded(words))
    found = {path.stem: read_metrics(path) for path in Path("exp").glob("*.json")}
    assert found.keys() == AUDITS.keys()
    assert all(document["auc"] > 0.4 for document in found.values())
    assert found["rows"]["auc"] == 1


def test_a_round_of_masked_sums_runs(tmp_path, monkeypatch):
    pytest.importorskip("cryptography", reason="install furlkit[masks]")
    monkeypatch.chdir(tmp_path)
    net = ("--width", 0.02, "--projector", "8,4", "--run-name", "trial")
    made("init", "--data", "digits", *net, "-o", "exp/start.safetensors")
    for words in commands("masked-sum"):
        made(*expanded(words))
    made("aggregate", *sorted(Path().glob("*/upload.safetensors")), "--parent",
         "exp/start.safetensors", "-o", "exp/plain.safetensors")  # fmt: skip
    found, plain = (
        read_checkpoint(Path(f"exp/{name}.safetensors")).tensors
        for name in ("sum", "plain")
    )
    for name, x in plain.items():
        assert np.abs(found[name] - x).max() < 2**-20, name


def test_the_runs_of_the_page_are_planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (words,) = commands("recipe.toml table=noise")
    recipe = str(ROOT / PAGE).replace("README.md", "recipe.toml")
    made(*(recipe if "recipe.toml" in word else word for word in words))
    text = Path("run.mk").read_text()
    for noise in (0, 0.05, 0.1, 0.2):
        assert f"iid/fedca/noise{noise}/seed2" in text
        assert f"classes/flesd/noise{noise}/seed2" in text
    assert "plot leakage" in text and "--claims" in text
    for row in ("fcl", "fedstyle", "fedusc"):
        for split in ("iid", "classes"):
            made(
                "plan",
                recipe,
                f"row={row}",
                f"split={split}",
                "-o",
                f"{row}-{split}.mk",
            )


def test_the_page_has_numbers_of_every_audit():
    for name in AUDITS:
        assert f"`audit {name}" in TEXT
    for heading in ("server", "another client", "outsider"):
        assert heading in TEXT.split("## Commands")[0]
