"""furlkit status: what is done, running, stale or missing; scores, time and bytes."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from furlkit.files.journal import Journal
from tests.recipes.conftest import TEST


def journal(output, seconds, starts=1):
    """A journal of a training that took some seconds in each of some starts."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    lines = []
    for start in range(starts):
        at = began + timedelta(hours=start)
        lines.append({"event": "start", "time": at.isoformat()})
        at += timedelta(seconds=seconds)
        lines.append({"event": "epoch", "time": at.isoformat()})
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    Journal(Path(output)).path.write_text(text)


def test_a_run_that_has_not_begun(runner, run):
    runner.plan()
    found = runner.status()
    assert (found["done"], found["steps"], found["round"], found["rounds"]) == (
        0, 11, 0, 2,
    )  # fmt: skip
    assert found["stages"]["train"] == {"missing": 4}
    assert found["running"] == found["stale"] == found["scores"] == []
    assert found["seconds_left"] is None
    said = run("status", "exp").out
    assert "0 of 11 steps done, round 0 of 2" in said
    assert "train        0 of 4 (4 to do)" in said and "running: nothing" in said


def test_a_run_that_is_done(done_before, run):
    found = done_before.status()
    assert found["done"] == found["steps"] == 11 and found["round"] == 2
    assert found["stages"]["average"] == {"done": 2}
    assert found["seconds_left"] == 0
    files = [path for path in Path("exp").rglob("*") if path.is_file()]
    assert (found["files"], found["bytes"]) == (
        len(files),
        sum(path.stat().st_size for path in files),
    )
    last = json.loads(Path("exp/r002/knn.json").read_text())["accuracy"]
    assert [score["round"] for score in found["scores"]] == [0, 1, 2]
    assert found["scores"][-1]["accuracy"] == last
    said = run("status", "exp").out
    assert f"score: knn {100 * last:.2f} % (round 2)" in said
    assert "running" not in said and "left" not in said


def test_a_score_that_was_changed_is_stale(done_before, run):
    path = Path("exp/r002/knn.json")
    before, times = path.read_text(), path.stat()
    known = {score["file"] for score in done_before.status("exp")["scores"]}
    found = json.loads(before)["accuracy"]
    path.write_text(before.replace(f'"accuracy": {found}', '"accuracy": 0.979'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    status = json.loads(run("status", "exp", "--json").out)
    assert {score["file"] for score in status["scores"]} == known - {str(path)}
    path.write_text(before)


def test_scores_are_a_table(done_before, run):
    lines = run("status", "exp", "--scores").out.splitlines()
    assert lines[0].split() == ["round", "knn"]
    for line, number in zip(lines[1:], range(3), strict=True):
        metrics = json.loads(Path(f"exp/r00{number}/knn.json").read_text())
        assert line.split() == [str(number), f"{100 * metrics['accuracy']:.2f}"]
    # A score of no round has a line of its own.
    text = Path("recipe.toml").read_text()
    end = 'end = "evaluate knn {global@final} --data {data} -o {end}"\n'
    files = text.replace("[files]", '[files]\nend = "end.json"')
    Path("recipe.toml").write_text(files + end)
    done_before.plan(f"test={TEST}")
    Path("exp/end.json").write_bytes(Path("exp/r002/knn.json").read_bytes())
    lines = run("status", "exp", "--scores").out.splitlines()
    assert lines[0].split() == ["round", "knn", "end"]
    assert lines[-1].split() == ["end", f"{100 * metrics['accuracy']:.2f}"]
    Path("exp/end.json").unlink()
    assert done_before.status()["round"] == 2  # All rounds are done.


def trainings(runner):
    running = runner.status()["running"]
    return [entry for entry in running if entry["step"].startswith("train")]


def test_what_runs_is_named_with_its_process(runner):
    runner.plan("train=--epochs 500 --batch-size 16")
    process = runner.start("make", "-j2")
    try:
        while len(running := trainings(runner)) < 2:
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    named = {entry["step"]: entry["by"].split() for entry in running}
    assert named.keys() == {f"train, round 1, client {c}" for c in range(2)}
    for word, number, on, host in named.values():
        assert (word, on, host) == ("process", "on", os.uname().nodename)
        assert int(number) != process.pid
    deadline = time.monotonic() + 60
    while runner.status()["running"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert runner.status()["stages"]["train"] == {"missing": 4}


def test_what_is_missing_makes_stale_what_was_made_of_it(done_before):
    Path("exp/r001/global.safetensors").unlink()
    found = done_before.status()
    assert found["stages"]["average"] == {"missing": 1, "stale": 1}
    assert found["stale"] == [
        *("knn, round 1", "train, round 2, client 0", "train, round 2, client 1"),
        *("average, round 2", "knn, round 2"),
    ]
    assert found["round"] == 0


def test_the_time_left_is_that_of_journals(done_before, run):
    # The second was stopped and resumed: 10 s and 2 x 10 s.
    journal("exp/r001/client_0.safetensors", 10)
    journal("exp/r001/client_1.safetensors", 10, starts=2)
    assert done_before.status()["seconds_left"] == 0
    for client in range(2):
        Path(f"exp/r002/client_{client}.safetensors").unlink()
    assert done_before.status()["seconds_left"] == 30
    assert "left: about 30 s of training" in run("status", "exp").out
    Path("exp/r001/client_0.safetensors").unlink()  # Two more, from one that took 20 s.
    found = done_before.status()
    assert found["stages"]["train"] == {"missing": 3, "done": 1}
    assert found["seconds_left"] == 60


def test_a_run_is_found_from_elsewhere(runner, monkeypatch, tmp_path):
    Path("mine.toml").write_text("[evaluate.knn]\nk = 3\n")
    runner.plan("preset=mine.toml")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert runner.status(tmp_path / "exp")["steps"] == 11
    assert runner.status(tmp_path / "exp")["changed"] == []


def test_what_is_no_run_is_refused(runner, run, tmp_path):
    done = run("status", "nowhere")
    assert (done.code, done.out) == (65, "") and "nowhere/plan/recipe.json" in done.err
    Path("file").write_text("")
    assert run("status", "file").code == 65
    runner.plan("seed=0,1", "out=both")
    for text in ("", "[]", "{}", '{"recipe": 3}', "\xff"):
        Path("both/seed0/plan/recipe.json").write_text(text, "latin-1")
        done = run("status", "both/seed0")
        assert done.code == 65 and "plan the run again" in done.err


def test_a_record_with_a_nul_in_a_name_is_refused(runner, run):
    runner.plan("out=one")
    path = Path("one/plan/recipe.json")
    noted = json.loads(path.read_text())
    noted["files"] = {name: f"\0{file}" for name, file in noted["files"].items()}
    path.write_text(json.dumps(noted))
    done = run("status", "one")
    assert done.code == 65 and "recipe.json" in done.err and "NUL" in done.err


@pytest.mark.parametrize("stop", [False, True])
def test_watch_ends_with_the_run_or_by_ctrl_c(runner, environment, stop):
    runner.plan("rounds=1")
    words = [sys.executable, "-m", "furlkit", "status", "exp", "--watch", "--json"]
    watching = subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = json.loads(watching.stdout.readline())
    assert first["done"] == 0
    if stop:
        watching.send_signal(signal.SIGINT)
        assert "interrupted" in watching.communicate()[1]
        assert watching.returncode == 130
        return
    runner.done("make", "-j2")
    *_, last = watching.communicate()[0].splitlines()
    assert watching.returncode == 0
    assert json.loads(last)["done"] == json.loads(last)["steps"] == 7


def test_watch_on_a_terminal_shows_one_screen(done_before, environment):
    master, terminal = pty.openpty()
    words = [sys.executable, "-m", "furlkit", "status", "exp", "--watch"]
    done = subprocess.run(words, env=environment, stdout=terminal)
    os.close(terminal)
    shown = os.read(master, 2**16).decode()
    os.close(master)
    assert done.returncode == 0
    assert shown.startswith("\033[H\033[J") and shown.count("11 of 11 steps") == 1


# --- several runs ---------------------------------------------------------------------------


def test_several_runs_take_one_line_each(done_before, run):
    done_before.plan("seed=0,1", "out=both")
    done = run("status", "both", "exp")
    assert done.code == 0 and done.out.splitlines() == [
        "both/seed0: 0 of 11 steps, round 0 of 2, waits for clients 0,1",
        "both/seed1: 0 of 11 steps, round 0 of 2, waits for clients 0,1",
        "exp: 11 of 11 steps, round 2 of 2",
    ]
    lines = run("status", "both", "exp", "--json").out.splitlines()
    assert [json.loads(line)["done"] for line in lines] == [0, 0, 11]
    assert "exp\nround" in run("status", "both", "exp", "--scores").out


def test_a_plan_that_was_only_printed_hides_no_run(done_before, run):
    shutil.copytree("exp", "all/one", copy_function=shutil.copy2)
    shutil.copytree("exp", "all/two", copy_function=shutil.copy2)
    assert run("plan", "recipe.toml", "out=all").code == 0
    done = run("status", "all")
    assert [line.partition(":")[0] for line in done.out.splitlines()] == [
        "all/one", "all/two",
    ]  # fmt: skip
    assert "all: is planned and was never run; 2 runs below" in done.err
    told = json.loads(run("report", "all", "-o", "page.html", "--json").out)
    assert told["runs"] == ["all/one", "all/two"]


def test_a_run_with_runs_below_does_not_add_their_files_up(done_before, run):
    shutil.copytree("exp", "exp/again", copy_function=shutil.copy2)
    done = run("status", "exp")
    assert [line.partition(":")[0] for line in done.out.splitlines()] == [
        "exp", "exp/again",
    ]  # fmt: skip
    assert run("report", "exp", "--tables", "csv", "-o", "page.html").code == 0
    rows = Path("csv/scores.csv").read_text().splitlines()[1:]
    assert len(rows) == len(set(rows)) == 6


def test_clients_of_a_round_that_are_missing_are_named(done_before, run):
    Path("exp/r002/client_1.safetensors").unlink()
    assert done_before.status()["waits_for"] == [1]
    assert "round 2 waits for client 1\n" in run("status", "exp").out


def test_a_failed_step_is_named_with_its_error(runner, run):
    runner.plan("rounds=1", f"test={TEST}")
    assert runner.finish("make", "-k").code == 2
    failed = runner.status()["failed"]
    assert [entry["step"] for entry in failed] == ["knn, round 0", "knn, round 1"]
    assert all(TEST in entry["error"] for entry in failed)
    said = run("status", "exp").out
    assert f"failed: knn, round 0: {TEST}" in said
    assert "knn          0 of 2 (2 failed)\n" in said
    line = run("status", "exp", "exp").out.splitlines()[0]
    assert "5 of 7 steps" in line and "2 failed" in line and TEST in line
    runner.plan("rounds=1")
    runner.done()
    assert runner.status()["failed"] == []


def test_a_training_that_runs_shows_its_epoch(runner):
    runner.plan("train=--epochs 500 --batch-size 16")
    process = runner.start("make")
    try:
        while not any(entry["epoch"] for entry in trainings(runner)):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put a program with this output first in the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(name, text):
        (folder / name).write_text(f"#!/bin/sh\ncat << 'END'\n{text}\nEND\n")
        (folder / name).chmod(0o755)

    return write


def test_tasks_of_slurm_are_counted(runner, run, stand_in, tmp_path):
    runner.plan(form="slurm")
    here = tmp_path.resolve()
    stand_in(
        "squeue",
        f"""{here}|0|RUNNING|exp:train-r001
{here}|1|PENDING|exp:train-r001
{here}|0|PENDING|exp:average-r001
{here}|N/A|PENDING|furlkit-next:exp
{here}|0|PENDING|exp/seed1:average-r001
{here}/other|0|PENDING|exp:average-r001""",
    )
    assert runner.status()["queue"] == {"running": 1, "pending": 2}
    said = run("status", "exp").out
    assert "queue: 1 running, 2 pending" in said and "running: nothing" not in said


def test_tasks_of_hyperqueue_are_counted(runner, stand_in):
    runner.plan(form="hq")
    stats = {"running": 1, "waiting": 4, "finished": 2, "failed": 0, "canceled": 0}
    jobs = [
        {"id": 1, "name": "exp", "task_stats": stats},
        {"id": 2, "name": "other", "task_stats": stats},
    ]
    stand_in("hq", json.dumps(jobs))
    assert runner.status()["queue"] == {"pending": 4, "running": 1}


@pytest.mark.parametrize("text", ["", "x|y", "[1, 2]", "{"])
def test_strange_answers_of_queues_count_nothing(runner, stand_in, text):
    runner.plan()
    stand_in("squeue", text)
    stand_in("hq", text)
    assert runner.status()["queue"] == {}


def test_a_failed_job_is_shown_with_the_last_line_of_its_log(runner, run, stand_in):
    runner.plan(form="slurm")
    log = Path("exp/plan/log/train-r001-1.txt")
    log.parent.mkdir()
    log.write_text("module: not found\nexit code 127: repair\n")
    (failed,) = runner.status()["failed"]
    step = "train, round 1, client 1"
    assert failed == {"step": step, "error": "exit code 127: repair"}
    assert f"failed: {step}: exit code 127: repair" in run("status", "exp").out
    stand_in("squeue", f"{Path.cwd().resolve()}|1|PENDING|exp:train-r001")
    assert runner.status()["failed"] == []


def test_the_speed_of_the_last_trainings(done_before, run):
    speeds = []
    for path in Path("exp").glob("r*/client_*.log.jsonl"):
        speeds.append(
            json.loads(path.read_text().splitlines()[-1])["samples_per_second"]
        )
    assert len(speeds) == 4
    found = done_before.status()["images_per_second"]
    assert found == pytest.approx(sum(speeds) / 4)
    Path("exp/r002/client_1.safetensors").unlink()
    assert "images/s in each" in run("status", "exp").out


def test_a_name_that_no_file_can_have_is_no_failure_of_the_disk(runner):
    runner.plan("rounds=1")
    path = Path("exp/plan/recipe.json")
    noted = json.loads(path.read_text())
    noted["settings"]["data"] = "x" * 5000
    path.write_text(json.dumps(noted))
    assert runner.status()["done"] == 0
