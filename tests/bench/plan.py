"""The time to plan a large run, of make to start on it, and of a second make."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
RECIPES = {
    "averaging": ROOT / "examples/averaging.toml",
    "FedCA": ROOT / "examples/fedca/recipe.toml",
}


def run() -> Iterator[str]:
    """1,000 rounds of 100 clients, and the files of 50 rounds."""
    with TemporaryDirectory() as folder:
        for name, recipe in RECIPES.items():
            words = [recipe, "rounds=1000", "clients=100", "out=large"]
            began = os.times()
            seconds = _seconds(folder, *_plan(words, "-o", "large.mk"))
            used = os.times().children_user - began.children_user
            yield (
                f"{name}, 1,000 rounds of 100 clients: planned in {seconds:.1f} s, "
                f"{used:.1f} s of them user time (bar: 5)"
            )
            started = _seconds(folder, "sh", "-c", "make -n -f large.mk | head -n 1")
            yield f"{name}: make starts on it in {started:.1f} s (bar: 10)"
        words = [RECIPES["FedCA"], "rounds=50", "clients=100", "out=done"]
        _seconds(folder, *_plan(words, "-o", "done.mk"))
        _write_all(Path(folder), words)
        again = _seconds(folder, "make", "-f", "done.mk")
        yield f"FedCA, 50 rounds that are done: a second make takes {again:.1f} s (bar: 2)"


def _plan(words: list, *more: str) -> list[str]:
    return [sys.executable, "-m", "furlkit", "plan", *map(str, words), *more]


def _write_all(folder: Path, words: list) -> None:
    """Empty files in place of what the steps write, in their order."""
    command = _plan(words, "--as", "json", "--dry-run")
    found = json.loads(subprocess.check_output(command, cwd=folder, env=_environment()))
    for step in found[0]["steps"]:
        for name in step["writes"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _seconds(folder: str, *command: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, cwd=folder, env=_environment(), check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - began
