"""plan --as slurm on real daemons: bytes, failures, requeues, crashes, windows."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from furlkit.files.journal import Journal
from furlkit.files.lock import lock_path
from tests.recipes.conftest import RUN, outputs
from tests.recipes.queue import executable
from tests.recipes.test_tables import PAPER

pytestmark = pytest.mark.slow

TINY = (
    "data=digits", "public=digits",
    "init=--width 0.02 --projector 8,4", "align=--images 100 --epochs 1",
    "linear=--epochs 1",
)  # fmt: skip
QUICK = "train=--epochs 1 --batch-size 240"
LONG = "train=--epochs 5 --batch-size 16"
THREE = (*TINY, QUICK, "clients=3", "rounds=3")


@pytest.fixture
def plan(workplace, run) -> Callable[..., None]:
    """Plan recipe.toml into a file."""

    def call(form: str, output: str, *words) -> None:
        done = run("plan", "recipe.toml", *words, "--as", form, "-o", output)
        assert done.code == 0, done.err

    return call


@pytest.fixture
def submit(cluster) -> Callable[..., str]:
    """Run a script; returns the text that it prints."""
    return lambda script: cluster.call("sh", script)


def make(cluster, rules: str) -> None:
    subprocess.run(
        ["make", "-s", "-f", rules], env=cluster.environment, check=True,
        capture_output=True,
    )  # fmt: skip


def states(cluster, run: str) -> dict[tuple[str, int], str]:
    """The states of the tasks of a run that have ended, also of a run in an earlier test.

    An array that is cancelled before it begins is one task.
    """
    found = (task for task in cluster.ended() if task["Name"].startswith(f"{run}:"))
    return {
        (task["Name"].partition(":")[2], int(task.get("ArrayTaskId", 0))): task[
            "JobState"
        ]
        for task in found
    }


def use_own_processes(cluster, patch: pytest.MonkeyPatch) -> None:
    """Let jobs start furlkit as processes of the job, so that Slurm can end them.

    The quick furlkit of other tests works in a process that is not part of the job.
    """
    program = [sys.executable, "-m", "furlkit"]
    real = executable(Path("furlkit").absolute(), program)
    patch.setitem(cluster.environment, "FURLKIT", real)


def status(cluster, folder: str) -> dict[str, Any]:
    """Progress of a run, with the tasks in the queue of Slurm."""
    program = (sys.executable, "-m", "furlkit")
    return json.loads(cluster.call(*program, "status", folder, "--json"))


def is_done(run, folder: str) -> bool:
    found = json.loads(run("status", folder, "--json").out)
    return found["done"] == found["steps"]


def test_three_rounds_of_fedca_give_the_bytes_of_make(cluster, plan, submit, run):
    plan("slurm", "run.sh", *THREE, "out=exp/slurm")
    assert submit("run.sh") == "exp/slurm: 14 jobs submitted\n"
    cluster.drain()
    assert {*states(cluster, "exp/slurm").values()} == {"COMPLETED"}
    plan("make", "rules", *THREE, "out=exp/make")
    make(cluster, "rules")
    assert is_done(run, "exp/slurm") and len(outputs("exp/make")) == 39
    assert outputs("exp/slurm") == outputs("exp/make")
    assert submit("run.sh") == "exp/slurm: 0 jobs submitted\n"


def test_a_failing_client_stops_only_the_jobs_that_need_it(cluster, plan, submit, run):
    # The first run fails: a folder is in the place of an upload.
    plan(
        "slurm",
        "run.sh",
        *TINY,
        QUICK,
        "clients=3",
        "rounds=2",
        "seed=0,1",
        "out=exp/{seed}",
    )
    blocked = Path("exp/0/r001/client_1.safetensors")
    blocked.mkdir(parents=True)
    submit("run.sh")
    cluster.drain()
    found = states(cluster, "exp/0")
    assert found["train-r001", 1] == "FAILED"
    assert found["train-r001", 0] == found["train-r001", 2] == "COMPLETED"
    assert found["linear-r000", 0] == "COMPLETED"
    needy = {key for key, state in found.items() if state == "CANCELLED"}
    stages = {"average-r001", "pool-r001", "train-r002", "average-r002", "pool-r002"}
    assert {name for name, _ in needy} == stages | {"linear-r002"}
    assert {*states(cluster, "exp/1").values()} == {"COMPLETED"}
    log = Path("exp/0/plan/log/train-r001-1.txt").read_text().splitlines()
    assert log[-1].startswith("exit code") and "is a folder" in "".join(log)
    (failed,) = status(cluster, "exp/0")["failed"]
    assert failed["step"].startswith("train") and "is a folder" in failed["error"]
    blocked.rmdir()
    assert "exp/0: 7 jobs submitted\nexp/1: 0 jobs" in submit("run.sh")
    cluster.drain()
    assert is_done(run, "exp/0") and is_done(run, "exp/1")


def test_a_training_resumes_after_its_time_limit_with_the_same_bytes(
    cluster, plan, submit, run, monkeypatch
):
    # Slurm checks limits every 30 seconds: this signal comes after 30 to 60 seconds.
    limits = '[resources.train]\ntime = "00:02:00"\nnotice = 60\n'
    Path("site.toml").write_text(limits)
    words = (*TINY, LONG, "rounds=1", "clients=2")
    plan("slurm", "run.sh", *words, "out=exp/slurm", "--resources", "site.toml")
    with monkeypatch.context() as patch:
        use_own_processes(cluster, patch)
        submit("run.sh")
    upload = Path("exp/slurm/r001/client_1.safetensors")
    # Without a pause, the training would end before the signal on a fast machine.
    process = pause(cluster, upload)
    cluster.wait(lambda: is_pending(process, signal.SIGUSR1), 100)
    os.kill(process, signal.SIGCONT)
    cluster.drain()
    log = Path("exp/slurm/plan/log/train-r001-1.txt").read_text()
    assert "stopped by SIGUSR1" in log and "exit code" not in log
    starts = [line for line in Journal(upload).read() if line["event"] == "start"]
    assert len(starts) > 1 and is_done(run, "exp/slurm")
    assert {*states(cluster, "exp/slurm").values()} == {"COMPLETED"}
    plan("make", "rules", *words, "out=exp/make")
    make(cluster, "rules")
    assert outputs("exp/slurm") == outputs("exp/make")


def pause(cluster, upload: Path) -> int:
    """Pause a training after three epochs; return the number of its process."""
    journal = Journal(upload)
    cluster.wait(lambda: sum(x["event"] == "epoch" for x in journal.read()) > 2)
    process = json.loads(lock_path(upload).read_text())["process"]
    os.kill(process, signal.SIGSTOP)
    return process


def is_pending(process: int, number: int) -> bool:
    """Tell whether a paused process will receive a signal when it continues."""
    text = Path(f"/proc/{process}/status").read_text()
    signals = int(re.search(r"^ShdPnd:\t(\w+)", text, re.M)[1], 16)
    return bool(signals >> (number - 1) & 1)


def test_a_run_completes_after_a_crash_of_slurmctld(cluster, plan, submit, run):
    words = (*TINY, LONG, "rounds=2", "clients=2")
    plan("slurm", "run.sh", *words, "out=exp/slurm")
    submit("run.sh")
    process = pause(cluster, Path("exp/slurm/r001/client_1.safetensors"))
    cluster.wait(lambda: (cluster.queue("%T") or []).count("RUNNING") == 1)
    queue = status(cluster, "exp/slurm")["queue"]
    assert queue == {"running": 1, "pending": len(cluster.queue()) - 1}
    cluster.save_queue()
    cluster.kill_controller()
    os.kill(process, signal.SIGCONT)
    cluster.restart_controller()
    # The jobs go on; the script does not submit them again.
    again = cluster.run("sh", "run.sh")
    assert again.returncode == 75 and "has jobs in the queue" in again.stderr
    cluster.drain(300)
    assert is_done(run, "exp/slurm")
    assert submit("run.sh") == "exp/slurm: 0 jobs submitted\n"
    plan("make", "rules", *words, "out=exp/make")
    make(cluster, "rules")
    assert outputs("exp/slurm") == outputs("exp/make")


def test_a_run_completes_after_slurmctld_forgets_the_end_of_a_task(cluster, plan, run):
    Path("recipe.toml").write_text(RUN)
    words = ("rounds=1", "clients=2", LONG)
    plan("slurm", "run.sh", *words, "out=exp/forgotten")
    cluster.call("sh", "run.sh")
    process = pause(cluster, Path("exp/forgotten/r001/client_1.safetensors"))
    saved = cluster.save_queue()
    os.kill(process, signal.SIGCONT)
    cluster.wait(lambda: ("train-r001", 1) in states(cluster, "exp/forgotten"))
    cluster.forget_since(saved)
    assert any("train-r001 RUNNING" in line for line in cluster.queue())
    said = cluster.run("sh", "run.sh").stderr
    assert "cancels tasks that have ended" in said
    repair(cluster, "run.sh")
    assert is_done(run, "exp/forgotten")
    plan("make", "rules", *words, "out=exp/make")
    make(cluster, "rules")
    assert outputs("exp/forgotten") == outputs("exp/make")


@pytest.mark.parametrize("seconds", [0, 0.5, 1, 2, 3])
def test_a_run_completes_after_a_crash_that_loses_jobs(
    cluster, plan, run, monkeypatch, seconds
):
    """slurmctld saves its queue every five seconds, so it forgets the jobs or starts."""
    Path("recipe.toml").write_text(RUN)
    words = ("rounds=1", "clients=2", LONG)
    plan("slurm", "run.sh", *words, "out=exp/slurm")
    with monkeypatch.context() as patch:
        use_own_processes(cluster, patch)
        cluster.call("sh", "run.sh")
        time.sleep(seconds)
        before = len(cluster.queue())
        cluster.kill_controller()
        cluster.restart_controller()
        lost = before - len(cluster.queue())
        calls = repair(cluster, "run.sh")
    assert is_done(run, "exp/slurm") and cluster.is_idle()
    plan("make", "rules", *words, "out=exp/make")
    make(cluster, "rules")
    assert outputs("exp/slurm") == outputs("exp/make")
    print(f"crash after {seconds} s, {lost} tasks lost: {calls}")


def test_a_run_completes_after_a_crash_during_the_submission(cluster, plan, run):
    Path("recipe.toml").write_text(RUN)
    words = ("rounds=3", "clients=2", "train=--epochs 1")
    plan("slurm", "run.sh", *words, "out=exp/slurm")
    # A slow sbatch leaves time for a crash.
    slow = Path("bin/sbatch").absolute()
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("sbatch")} "$@"\n')
    slow.chmod(0o755)
    path = f"{slow.parent}:{cluster.environment['PATH']}"
    script = subprocess.Popen(
        ["sh", "run.sh"], env={**cluster.environment, "PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    cluster.wait(lambda: len(cluster.queue()) > 4)
    cluster.kill_controller()
    said, complaint = script.communicate()
    assert script.returncode == 1 and not said and "submission failed" in complaint
    assert cluster.run("sh", "run.sh").returncode == 1
    cluster.restart_controller()
    repair(cluster, "run.sh")
    assert is_done(run, "exp/slurm")
    plan("make", "rules", *words, "out=exp/make")
    make(cluster, "rules")
    assert outputs("exp/slurm") == outputs("exp/make")


def repair(cluster, script: str) -> list[str]:
    """Follow examples/cluster/README.md: call the script until nothing is left to submit.

    The commands that the script prints for the administrator are carried out.
    """
    calls: list[str] = []
    for _ in range(10):
        done = cluster.run("sh", script)
        assert done.returncode in (0, 75), done.stderr
        for command in re.findall(r"scontrol update .*", done.stderr):
            cluster.call(*command.split())
            calls.append(command)
        calls.append((done.stdout or done.stderr).splitlines()[0])
        if " 0 jobs submitted" in done.stdout:
            return calls
        cluster.wait(lambda: not cluster.queue() or is_stuck(cluster))
    raise AssertionError((calls, cluster.queue(), cluster.log()))


def is_stuck(cluster) -> bool:
    """Whether Slurm holds a job or has drained the node, and no job runs."""
    lines = cluster.queue("%T %r") or []
    drained = "drain" in cluster.run("sinfo", "-h", "-o", "%t").stdout
    held = any("held" in line for line in lines)
    return (drained or held) and not any("RUNNING" in line for line in lines)


def test_60_clients_two_at_once(cluster, plan, submit, run):
    Path("recipe.toml").write_text(RUN)
    Path("site.toml").write_text("[resources.train]\nat_once = 2\n")
    words = ("clients=60", "rounds=1", "out=exp/slurm", "--resources", "site.toml")
    plan("slurm", "run.sh", *words, "train=--epochs 1")
    submit("run.sh")
    most = 0

    def ended() -> bool:
        nonlocal most
        lines = cluster.queue("%j %T")
        most = max(most, (lines or []).count("exp/slurm:train-r001 RUNNING"))
        return lines == []

    cluster.wait(ended, 600)
    assert most == 2 and is_done(run, "exp/slurm")
    assert len(list(Path("exp/slurm/r001").glob("client_*.safetensors"))) == 60


def test_50_rounds_of_20_clients_are_submitted_quickly(cluster, plan, submit):
    plan("slurm", "run.sh", *TINY, QUICK, "clients=20", "rounds=50", "out=exp/slurm")
    begin, used = time.monotonic(), processor_seconds(cluster)
    assert submit("run.sh") == "exp/slurm: 155 jobs submitted\n"
    seconds = time.monotonic() - begin
    used = processor_seconds(cluster) - used
    print(f"155 jobs submitted in {seconds:.1f} s, {used:.1f} s of the processor")
    # Script, sbatch and slurmctld wait for each other, so where nothing else runs the
    # submission takes about as long.
    assert used < 5


def processor_seconds(cluster) -> float:
    """Time that slurmctld and the programs started by this process have used."""
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ours.ru_utime + ours.ru_stime + cluster.controller_seconds()


def test_windows_of_rounds(cluster, plan, submit, run):
    Path("recipe.toml").write_text(RUN)
    words = ("rounds=4", QUICK, "out=exp/slurm")
    plan("slurm", "run.sh", *words, "--rounds-at-once", 1)
    assert submit("run.sh") == "exp/slurm: 6 jobs submitted\n"
    names = cluster.queue("%j")
    assert not any("r002" in name for name in names)
    cluster.drain()
    assert is_done(run, "exp/slurm")
    next_jobs = [x for x in cluster.ended() if x["Name"] == "furlkit-next:exp/slurm"]
    assert [task["JobState"] for task in next_jobs[-3:]] == ["COMPLETED"] * 3


def test_two_runs_side_by_side(cluster, plan, submit, run):
    Path("recipe.toml").write_text(RUN)
    words = ("rounds=1", "seed=0,1", "out=exp/{seed}")
    plan("slurm", "run.sh", *words, QUICK)
    assert submit("run.sh").count("6 jobs submitted") == 2
    # A second call submits nothing while the jobs are in the queue.
    again = cluster.run("sh", "run.sh")
    assert again.returncode == 75 and "has jobs in the queue" in again.stderr
    arrays: dict[str, set[str]] = {}
    for line in cluster.queue("%F %j"):
        number, name = line.split()
        arrays.setdefault(number, set()).add(re.sub(":.*", "", name))
    assert all(len(runs) == 1 for runs in arrays.values())
    cluster.drain()
    assert is_done(run, "exp/0") and is_done(run, "exp/1")


def test_a_table_waits_for_the_runs_that_it_compares(cluster, plan, submit, run):
    Path("recipe.toml").write_text(PAPER)
    plan("slurm", "run.sh", "table=2")
    # A run fails first: a folder is in the place of an upload.
    blocked = Path("exp/iid/plain0/seed1/r002/client_1.safetensors")
    blocked.mkdir(parents=True)
    assert "exp/tables: 1 jobs submitted" in submit("run.sh")
    cluster.drain()
    assert {*states(cluster, "exp/iid/plain0/seed0").values()} == {"COMPLETED"}
    assert {*states(cluster, "exp/tables").values()} == {"CANCELLED"}
    blocked.rmdir()
    said = submit("run.sh")
    assert "seed0: 0 jobs" in said and "exp/tables: 1 jobs submitted" in said
    cluster.drain()
    assert {*states(cluster, "exp/tables").values()} == {"COMPLETED"}
    assert is_done(run, "exp/tables")
    folders = ("exp/tables", "exp/iid/plain0/seed0", "exp/iid/plain0/seed1")
    slurm = [outputs(folder) for folder in folders]
    shutil.rmtree("exp")
    plan("make", "rules", "table=2")
    make(cluster, "rules")
    assert slurm == [outputs(folder) for folder in folders]
    assert slurm[0].keys() == {"2.csv"}


def test_stragglers_are_cancelled_when_the_quorum_is_there(
    cluster, plan, submit, run, monkeypatch
):
    text = RUN.replace("aggregate {upload*}", "aggregate {upload*} --at-least 2")
    Path("recipe.toml").write_text(f'{text}[resources]\nstragglers = "cancel"\n')
    words = ("rounds=1", "clients=3", LONG)
    plan("slurm", "run.sh", *words, "out=exp/stragglers")
    with monkeypatch.context() as patch:
        use_own_processes(cluster, patch)
        submit("run.sh")
    # Slurm cancels the paused client 1, while clients 0 and 2 train.
    folder = Path("exp/stragglers/r001")
    process = pause(cluster, folder / "client_1.safetensors")
    cluster.drain(300)
    assert not Path(f"/proc/{process}").exists()
    found = states(cluster, "exp/stragglers")
    assert found["train-r001", 1] == "CANCELLED"
    assert found["average-r001", 0] == found["knn-r001", 0] == "COMPLETED"
    uploads = [folder / f"client_{k}.safetensors" for k in range(3)]
    assert [path.exists() for path in uploads] == [True, False, True]
    mean = ("aggregate", uploads[0], uploads[2], "-o", "mean.safetensors")
    assert run(*mean).code == 0
    digests = [run("inspect", path, "--json").out for path in
               (folder / "global.safetensors", "mean.safetensors")]  # fmt: skip
    contents = [json.loads(text)["content"] for text in digests]
    assert contents[0] == contents[1]


def test_a_quorum_goes_on_without_a_failing_client(cluster, plan, submit):
    Path("recipe.toml").write_text(
        RUN.replace("aggregate {upload*}", "aggregate {upload*} --at-least 2")
    )
    words = ("rounds=1", "clients=3", "out=exp/slurm")
    plan("slurm", "run.sh", *words, QUICK)
    # Client 1 cannot write its progress, so it fails.
    Path("exp/slurm/r001/client_1.log.jsonl").mkdir(parents=True)
    submit("run.sh")
    cluster.drain()
    found = states(cluster, "exp/slurm")
    assert found["train-r001", 1] == "FAILED"
    assert found["average-r001", 0] == found["knn-r001", 0] == "COMPLETED"
