"""Small recipes, planned in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FILES = """
[files]
global = "r{round}/global.safetensors"
upload = "r{round}/client_{client}.safetensors"
knn = "r{round}/knn.json"
"""
STAGES = """
[stages]
partition = "partition --data {data} --clients {clients} -o {partition}"
init = "init --data {data} -o {global@0}"
train = "local-train {partition} {global@last} --data {data} --client {client} -o {upload}"
average = "aggregate {upload*} -o {global}"
knn = "evaluate knn {global} --data {data} -o {knn}"
"""
AVERAGING = f"""
[settings]
data = "digits"
clients = 3
rounds = 2
{FILES}{STAGES}"""


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Write a recipe into an empty folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str = AVERAGING, name: str = "recipe.toml") -> Path:
        path = Path(name)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def plan(run) -> Callable[..., list[dict[str, Any]]]:
    """The steps of a recipe's runs."""

    def call(path: Path, *words: Any) -> list[dict[str, Any]]:
        done = run("plan", path, *words, "--as", "json", "--dry-run")
        assert done.code == 0, done.err
        return [step for one in json.loads(done.out) for step in one["steps"]]

    return call
