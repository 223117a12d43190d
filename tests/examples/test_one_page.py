"""The example on one page trains and scores with furlkit as a library."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "examples" / "one_page.py"


def test_one_page_learns_from_clients_of_two_digits(environment, tmp_path):
    done = subprocess.run(
        [sys.executable, PAGE], capture_output=True, text=True, cwd=tmp_path, env=environment
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    scores = {
        k.strip(): float(v) for k, v in re.findall(r"(.*?) +([\d.]+)%", done.stdout)
    }
    assert list(scores) == ["untrained", "round 1", "round 2", "round 3", "round 4"]
    assert scores["round 4"] > scores["untrained"] + 10
    assert list(tmp_path.iterdir()) == []


def test_one_page_is_one_page():
    assert len(PAGE.read_text().splitlines()) <= 60
