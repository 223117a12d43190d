"""Small recipes, planned in this process."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Outcome
from tests.helpers import contents, furlkit

TEST = "test.safetensors"

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


RUN = f"""
[settings]
data = "digits"
test = ""
clients = 2
rounds = 2
init = "--width 0.02 --projector 8,4"
train = "--epochs 2 --batch-size 240"
{FILES}{STAGES.replace("{data} -o {knn}", "{data} [--test-data {test}] -o {knn}")}"""


class Runner:
    """Plans recipes in the current folder and carries the plans out."""

    def __init__(self, run: Callable, furlkit: list[str], environment: dict[str, str]):
        self._run, self.furlkit = run, shlex.join(furlkit)
        self._environment = environment

    def plan(self, *words: Any, form: str = "make") -> Any:
        """Plan recipe.toml into the file `run`."""
        done = self._run("plan", "recipe.toml", *words, "--as", form, "-o", "run")
        assert done.code == 0, done.err
        return done

    def command(self, form: str = "make", *words: str) -> list[str]:
        """What carries out the plan."""
        return ["sh", "run"] if form == "sh" else ["make", "-f", "run", *words]

    def start(self, *words: str, **more: Any) -> subprocess.Popen:
        """Start it in a group of processes of its own."""
        environment = {**self._environment, "FURLKIT": self.furlkit, **more}
        return subprocess.Popen(
            self.command(*words), env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def finish(self, *words: str, **more: Any) -> Outcome:
        """Run it to its end."""
        process = self.start(*words, **more)
        said = process.communicate()
        return Outcome(process.returncode, *said)

    def done(self, *words: str, **more: Any) -> str:
        """Run it to its end, which must be a good one; what it printed."""
        found = self.finish(*words, **more)
        assert found.code == 0, found
        return found.out

    def status(self, folder: Any = "exp") -> dict[str, Any]:
        """What status says."""
        done = self._run("status", folder, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)


@pytest.fixture
def runner(recipe, run, fast_furlkit, environment) -> Runner:
    """A small recipe, and what plans and runs it."""
    recipe(RUN)
    return Runner(run, fast_furlkit, environment)


@pytest.fixture(scope="session")
def finished():
    """A folder with a finished run of the small recipe, which tests copy."""
    return {}


@pytest.fixture
def done_before(runner, finished, tmp_path_factory):
    """A finished run in the current folder, with images of its own to test on."""
    if not finished:
        assert furlkit("pack", "digits", "--split", "test", "-q", "-o", TEST) == 0
        runner.plan(f"test={TEST}")
        runner.done("make", "-j1")
        finished["folder"] = tmp_path_factory.mktemp("finished") / "run"
        shutil.copytree(".", finished["folder"])
    # With the times of the files, which decide what is stale.
    shutil.copytree(finished["folder"], ".", dirs_exist_ok=True)
    return runner


def outputs(folder="exp"):
    """The bytes of what a run has made; its journals and notes do not count.

    Nor does the hidden file that a kill leaves behind right before it takes its place.
    """
    found = contents(Path(folder))
    made = (name for name in found if not name.startswith("plan/"))
    return {name: found[name] for name in made if not name.endswith(".part")}


@pytest.fixture(scope="session")
def expected(request, tmp_path_factory):
    """What make -j1 makes of the small recipe; a dictionary that the first test fills."""
    return {}


@pytest.fixture
def plain(runner, expected):
    """The outputs of a run by make -j1 that nothing disturbs."""
    if not expected:
        runner.plan("out=plain")
        runner.done("make", "-j1")
        expected.update(outputs("plain"))
    return expected
