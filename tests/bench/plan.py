"""The time to plan a large run, of make to start on it, and of a second make."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from furlkit.files.receipts import noting
from furlkit.presets import table_text
from furlkit.recipes.expand import expand
from furlkit.recipes.finished import calls, command_name
from furlkit.recipes.records import load

ROOT = Path(__file__).parents[2]
RECIPES = {
    "averaging": ROOT / "examples/averaging.toml",
    "FedCA": ROOT / "examples/fedca/recipe.toml",
}


START = "make -n -f large.mk FURLKIT='{} -m furlkit' | head -n 1"


def run() -> Iterator[str]:
    """1,000 rounds of 100 clients, and the files and receipts of 50 rounds."""
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
            started = _seconds(folder, "sh", "-c", START.format(sys.executable))
            yield f"{name}: make starts on it in {started:.1f} s (bar: 10)"
        yield from _finished(folder)


def _finished(folder: str) -> Iterator[str]:
    """A second make of a run whose files and receipts are there."""
    words = [RECIPES["FedCA"], "rounds=50", "clients=100", "out=done"]
    _seconds(folder, *_plan(words, "-o", "done.mk"))
    files = _write_all(Path(folder), words)
    make = ["make", "-f", "done.mk", f"FURLKIT={sys.executable} -m furlkit"]
    first = _seconds(folder, *make)
    yield (
        f"FedCA, 50 rounds that are done, {files:,} files: make without a cache of "
        f"contents takes {first:.1f} s, {1000 * first / files:.2f} ms per file (bar: 2)"
    )
    began = os.times()
    again = _seconds(folder, *make)
    used = os.times().children_user - began.children_user
    yield (
        f"FedCA, 50 rounds that are done: a second make takes {again:.1f} s, {used:.1f} s "
        "of them user time (bar: 2)"
    )


def _plan(words: list, *more: str) -> list[str]:
    return [sys.executable, "-m", "furlkit", "plan", *map(str, words), *more]


def _write_all(folder: Path, words: list) -> int:
    """Small files in place of what the steps write, with their receipts."""
    command = _plan(words, "--as", "json", "--dry-run")
    found = json.loads(subprocess.check_output(command, cwd=folder, env=_environment()))
    names = [name for step in found[0]["steps"] for name in step["writes"]]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(_header(name))
    with chdir(folder):
        plan = expand(*load(Path("done")))
        for step in plan.steps:
            name = command_name(step)
            preset = partial(table_text, command=name)
            with noting("done", list(calls(step)), preset):
                pass
    return len(names)


def _header(name: str) -> bytes:
    """The head of a furlkit file whose content hash is that of its name."""
    noted = {"content": sha256(name.encode()).hexdigest()}
    head = json.dumps({"__metadata__": {"furlkit": json.dumps(noted)}}).encode()
    return len(head).to_bytes(8, "little") + head


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _seconds(folder: str, *command: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, cwd=folder, env=_environment(), check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - began
