"""examples/privacy: the commands of the page run, and the page knows every audit."""

import re
import shlex
from pathlib import Path

from furlkit.catalogue import AUDITS
from furlkit.reports.audits import PAGE
from tests.helpers import furlkit

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / PAGE).read_text()


def commands() -> list[list[str]]:
    block = re.search(r"```sh\n(.*?)```", TEXT, re.S)
    assert block
    return [shlex.split(line)[1:] for line in block[1].splitlines()]


def made(*words) -> None:
    assert furlkit(*words) == 0, words


def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ("--features-out", "exp/rows_{client}.safetensors",
            "--private-out", "exp/private_{client}.safetensors")  # fmt: skip
    made("init", "--data", "digits", "--width", 0.05, "-o", "exp/start.safetensors")
    made("partition", "--data", "digits", "--clients", 5, "--scheme", "classes",
         "--classes-per-client", 2, "-o", "exp/partition.safetensors")  # fmt: skip
    made("local-train", "exp/partition.safetensors", "exp/start.safetensors", "--data",
         "digits", "--client", "0-4", "--epochs", 1, "--dictionary-size", 600, *rows,
         "-o", "exp/client_{client}.safetensors")  # fmt: skip
    made("pack", "digits", "--split", "test", "-o", "public.safetensors")
    for words in commands():
        given = [str(p) for w in words for p in sorted(Path().glob(w)) if "*" in w]
        words = [w for word in words for w in (given if "*" in word else [word])]
        made(*words, *(["--epochs", 1] if "inversion" in words else []))
    assert {p.stem for p in Path("exp").glob("*.json")} == {*AUDITS}


def test_the_page_has_numbers_of_every_audit():
    for name in AUDITS:
        assert f"`audit {name}" in TEXT
    for heading in ("server", "another client", "outsider"):
        assert heading in TEXT.split("## Commands")[0]
