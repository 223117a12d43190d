"""plan --as hq: job files, run by a real HyperQueue server and worker."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.recipes.conftest import RUN, outputs
from tests.recipes.queue import executable

# Submits a job file through HyperQueue's Python interface, as `hq job submit-file` does,
# and prints the numbers of the tasks that failed or were cancelled.
SUBMIT = """
import sys, tomllib
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.ffi.protocol import ResourceRequest
described = tomllib.load(open(sys.argv[1], "rb"))
job, tasks = Job(name=described["name"], max_fails=None), {}
for task in described["task"]:
    cpus = task["request"][0]["resources"]["cpus"]
    tasks[task["id"]] = job.program(
        task["command"], env=task["env"], cwd=".", stdout=None, stderr=task["stderr"],
        deps=[tasks[number] for number in task.get("deps", ())],
        resources=ResourceRequest(cpus=int(cpus)),
    )
with LocalCluster(sys.argv[2], WorkerConfig(cores=2)) as cluster:
    client = cluster.client()
    submitted = client.submit(job)
    client.wait_for_jobs([submitted], raise_on_error=False)
    numbers = {task.task_id: number for number, task in tasks.items()}
    print(sorted(numbers[k] for k in client.get_failed_tasks(submitted)))
"""


@pytest.fixture
def hq(runner, python, environment, tmp_path, monkeypatch, fast_furlkit):
    """Run the job file `run`; returns the numbers of the tasks that failed."""
    pytest.importorskip("hyperqueue")
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin" / "furlkit", fast_furlkit)
    path = f"{tmp_path / 'bin'}:{environment['PATH']}"
    monkeypatch.setitem(environment, "PATH", path)

    def call() -> list[int]:
        return json.loads(python(SUBMIT, "run", tmp_path / "server").splitlines()[-1])

    return call


def tasks():
    """The tasks of the job file `run`."""
    return tomllib.loads(Path("run").read_text()).get("task", [])


def test_hyperqueue_gives_the_bytes_of_make(runner, plain, hq):
    runner.plan(form="hq")
    assert len(tasks()) == 11
    blocked = Path("exp/r002/client_1.safetensors")
    blocked.mkdir(parents=True)
    assert hq() == [8]
    log = Path("exp/plan/log/train-r002-1.txt").read_text()
    assert "is a folder" in log
    blocked.rmdir()
    # Only unfinished steps are in the next job file.
    runner.plan(form="hq")
    assert [(task["id"], task.get("deps", [])) for task in tasks()] == [
        (8, []), (9, [8]), (10, [9]),
    ]  # fmt: skip
    assert hq() == []
    assert outputs() == plain
    runner.plan(form="hq")
    assert tasks() == []


def test_small_clients_share_a_gpu(runner):
    Path("site.toml").write_text("""
[resources]
setup = ["module load cuda"]
[resources.train]
cpus = 2
gpus = 0.25
memory = "2G"
time = "1-00:30:00"
""")
    runner.plan("--resources", "site.toml", form="hq")
    train, average = tasks()[3], tasks()[5]
    amounts = {"cpus": "2", "gpus/nvidia": "0.25", "mem": "2048"}
    assert train["request"] == [{"resources": amounts}]
    assert train["time_limit"] == "88200s" and train["deps"] == [0, 1]
    assert train["command"][:4] == ["sh", "-c", 'module load cuda\nexec "$@"', "sh"]
    assert train["command"][4:6] == ["furlkit", "local-train"]
    assert average["request"] == [{"resources": {"cpus": "1"}}]
    assert "time_limit" not in average and average["deps"] == [3, 4]


def test_a_client_of_a_quorum_never_fails(runner, recipe, environment):
    recipe(RUN.replace("aggregate {upload*}", "aggregate {upload*} --at-least 2"))
    runner.plan("clients=3", "rounds=1", form="hq")
    train = tasks()[3]["command"]
    assert train[:2] == ["sh", "-c"]
    wrong = [*train[:4], "false"]
    done = subprocess.run(wrong, capture_output=True, text=True)
    assert (done.returncode, "exit code 1" in done.stderr) == (0, True)


def test_runs_have_numbers_of_their_own(runner):
    runner.plan("seed=0,1", "rounds=1", form="hq")
    found = tasks()
    assert [task["id"] for task in found] == list(range(14))
    assert found[10]["deps"] == [7, 8]
