"""plan --as slurm: printed scripts, run by a stand-in for Slurm."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.conftest import AVERAGING, FILES, RUN, STAGES, outputs
from tests.recipes.queue import Queue, executable

TASKS = Path("exp/plan/log/tasks")
COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"
SITE = r"""
[resources]
partition = "cpu"
setup = ["module() { echo \"loaded $2\"; }", "module load furlkit"]
[resources.train]
gpus = 1
time = "01:30:00"
memory = "8G"
at_once = 2
[resources.knn]
partition = "short nodes"
"""
# Ends with a code for client 1 as often as a file COUNT-CODE has lines. With QUICK it
# only writes empty files.
FRAIL = """#!/bin/sh
case "$*" in
*"--client 1 "*)
    for code in 65 75; do
        test -s "$COUNT-$code" || continue
        sed -i 1d "$COUNT-$code"
        echo "error: told to end with $code" >&2
        exit $code
    done ;;
esac
test "$QUICK" && test "$1" != status || exec "$FAST" "$@"
while test $# -gt 1; do
    case $1 in -o) mkdir -p "${2%/*}" && touch "$2" ;; esac
    shift
done
"""


@pytest.fixture
def queue(runner, tmp_path, environment, fast_furlkit) -> Queue:
    """A stand-in for Slurm whose jobs start furlkit in milliseconds."""
    frail = tmp_path / "frail"
    frail.write_text(FRAIL)
    frail.chmod(0o755)
    fast = executable(tmp_path / "fast", fast_furlkit)
    ours = {"FURLKIT": str(frail), "FAST": fast, "COUNT": str(tmp_path / "count")}
    return Queue(tmp_path / "queue", environment | ours | {"QUICK": ""})


@pytest.fixture
def quick(queue) -> Queue:
    """The same, but its jobs write empty files."""
    queue.environment["QUICK"] = "yes"
    return queue


def end_with(code, times):
    """Have the next commands of client 1 end with a code."""
    Path(f"count-{code}").write_text("again\n" * times)


def states(tasks):
    return {(task.name, task.element): task.state for task in tasks}


def note(number, word):
    """Write the note of a task that has started or ended."""
    TASKS.mkdir(parents=True, exist_ok=True)
    (TASKS / str(number)).write_text(f"{word}\n")


def notes():
    return {path.name: path.read_text().strip() for path in TASKS.iterdir()}


def submit(queue, *words):
    done = queue.submit(*words)
    assert done.returncode == 0, done
    return done.stdout


def test_arrays_give_the_bytes_of_make_and_finished_steps_are_not_submitted(
    runner, queue, plain
):
    runner.plan(form="slurm")
    assert submit(queue) == "exp: 9 jobs submitted\n"
    assert queue.names() == [
        "exp:partition", "exp:init-r000", "exp:knn-r000",
        "exp:train-r001", "exp:average-r001", "exp:knn-r001",
        "exp:train-r002", "exp:average-r002", "exp:knn-r002",
    ]  # fmt: skip
    train = queue.options(4)
    assert train["array"] == "0,1" and train["dependency"] == "afterok:1,afterok:2"
    assert queue.options(7)["dependency"] == "afterok:1,afterok:5"
    assert {task.state for task in queue.drain()} == {COMPLETED}
    assert outputs() == plain
    assert submit(queue) == "exp: 0 jobs submitted\n"
    # make and status agree.
    assert runner.status()["done"] == 11
    runner.plan(form="make")
    assert "[" not in runner.done("make")


def test_a_failure_stops_the_jobs_that_need_it_and_a_second_call_submits_the_rest(
    runner, queue, plain
):
    runner.plan(form="slurm")
    end_with(65, 1)
    submit(queue)
    found = states(queue.drain())
    failed = {key for key, state in found.items() if state != COMPLETED}
    assert found["exp:train-r001", 1] == FAILED
    assert failed == {
        ("exp:train-r001", 1), ("exp:average-r001", 0), ("exp:knn-r001", 0),
        ("exp:train-r002", 0), ("exp:train-r002", 1), ("exp:average-r002", 0),
        ("exp:knn-r002", 0),
    }  # fmt: skip
    log = Path("exp/plan/log/train-r001-1.txt").read_text().splitlines()
    assert log[-2] == "error: told to end with 65"
    assert log[-1].startswith("exit code 65: jobs that need this one are cancelled")
    assert submit(queue) == "exp: 6 jobs submitted\n"
    assert "hold" in queue.options(10) and queue.options(11)["array"] == "1"
    assert "dependency" not in queue.options(11)
    assert {task.state for task in queue.drain()} == {COMPLETED}
    assert outputs() == plain


def test_exit_75_goes_back_to_the_queue_up_to_a_limit(runner, quick):
    Path("site.toml").write_text("[resources]\nrestarts = 2\n")
    runner.plan("--resources", "site.toml", form="slurm")
    end_with(75, 2)
    submit(quick)
    assert {task.state for task in quick.drain()} == {COMPLETED}
    assert (quick.folder / "requeued").read_text() == "4_1\n4_1\n"
    shutil.rmtree("exp")
    runner.plan("--resources", "site.toml", form="slurm")
    end_with(75, 3)
    submit(quick)
    assert states(quick.drain())["exp:train-r001", 1] == FAILED
    assert "exit code 75" in Path("exp/plan/log/train-r001-1.txt").read_text()


def test_slurm_may_end_scontrol_and_the_script_during_a_requeue(runner, quick):
    requeue = (quick.folder / "bin" / "scontrol").read_text()
    (quick.folder / "bin" / "scontrol").write_text(f"{requeue}kill $PPID $$\n")
    runner.plan(form="slurm")
    end_with(75, 1)
    submit(quick)
    assert {task.state for task in quick.drain()} == {COMPLETED}
    log = Path("exp/plan/log/train-r001-1.txt").read_text()
    assert "told to end with 75" in log and "exit code" not in log


def test_windows_of_rounds_submit_each_other(runner, quick):
    runner.plan("rounds=5", "--rounds-at-once", 2, form="slurm")
    assert submit(quick) == "exp: 9 jobs submitted\n"
    assert quick.names()[-1] == "furlkit-next:exp"
    last = quick.options(10)["dependency"].split(",")
    assert last == [f"afterok:{k}" for k in range(1, 10)]
    tasks = quick.drain()
    names = [task.name for task in tasks]
    assert names.count("furlkit-next:exp") == 2
    assert {task.state for task in tasks} == {COMPLETED}
    found = runner.status()
    assert found["done"] == found["steps"] == 23


def test_a_window_after_a_failure_is_not_submitted(runner, quick):
    runner.plan("rounds=3", "--rounds-at-once", 1, form="slurm")
    end_with(65, 1)
    submit(quick)
    found = states(quick.drain())
    assert found["furlkit-next:exp", 0] == CANCELLED
    assert not any("r002" in name for name, _ in found)
    submit(quick)
    assert {task.state for task in quick.drain()} == {COMPLETED}
    assert runner.status()["round"] == 3


PARTIAL = RUN.replace("aggregate {upload*}", "aggregate {upload*} --at-least 2")


def test_a_quorum_goes_on_without_a_client(runner, recipe, queue):
    recipe(PARTIAL)
    runner.plan("clients=3", "rounds=1", form="slurm")
    end_with(65, 1)
    submit(queue)
    found = states(queue.drain())
    assert queue.options(5)["dependency"] == "afterany:4"
    assert found["exp:train-r001", 1] == FAILED
    assert found["exp:average-r001", 0] == found["exp:knn-r001", 0] == COMPLETED
    log = Path("exp/plan/log/average-r001-0.txt").read_text()
    assert "client_1.safetensors: no such file" in log and "mean of 2 clients" in log


def test_stragglers_are_cancelled_when_the_quorum_is_there(runner, recipe, quick):
    recipe(f'{PARTIAL}\n[resources]\nstragglers = "cancel"\n')
    runner.plan("clients=3", "rounds=1", form="slurm")
    submit(quick)
    found = states(quick.drain())
    train = [found["exp:train-r001", k] for k in range(3)]
    assert train == [COMPLETED, COMPLETED, CANCELLED]
    assert found["exp:average-r001", 0] == COMPLETED


def test_resources_of_a_site(runner, quick):
    Path("site.toml").write_text(SITE)
    runner.plan("rounds=1", "--resources", "site.toml", form="slurm")
    submit(quick)
    train, average, knn = (quick.options(k) for k in (4, 5, 6))
    assert train["array"] == "0,1%2" and train["gres"] == "gpu:1"
    assert (train["time"], train["mem"]) == ("01:30:00", "8G")
    assert train["signal"] == "B:USR1@120" and train["partition"] == "cpu"
    assert "gres" not in average and average["partition"] == "cpu"
    assert knn["partition"] == "short nodes"
    quick.drain()
    log = Path("exp/plan/log/partition-0.txt").read_text()
    assert log.startswith("loaded furlkit\n")


def test_two_runs_share_no_array(runner, quick):
    runner.plan("seed=0,1", "rounds=1", form="slurm")
    out = submit(quick)
    assert out == "exp/seed0: 6 jobs submitted\nexp/seed1: 6 jobs submitted\n"
    assert quick.options(10)["dependency"] == "afterok:7,afterok:8"
    end_with(65, 1)
    found = states(quick.drain())
    assert found["exp/seed0:average-r001", 0] == CANCELLED
    assert found["exp/seed1:average-r001", 0] == COMPLETED


def test_files_that_nobody_needs_are_removed(runner, quick):
    runner.plan("keep=last", form="slurm")
    submit(quick)
    assert {task.state for task in quick.drain()} == {COMPLETED}
    assert not list(Path("exp/r001").glob("client_*.safetensors"))
    assert len(list(Path("exp/r002").glob("client_*.safetensors"))) == 2
    assert submit(quick) == "exp: 0 jobs submitted\n"


def test_a_run_with_jobs_in_the_queue_is_not_submitted_twice(runner, quick):
    runner.plan("seed=0,1", "rounds=1", form="slurm")
    here = Path.cwd().resolve()
    (quick.folder / "queued").write_text(
        f"7 7 RUNNING None|{here}|exp/seed0:train-r001:\n"
    )
    done = quick.submit()
    assert done.returncode == 75 and "exp/seed0: has jobs in the queue" in done.stderr
    assert done.stdout == "exp/seed1: 6 jobs submitted\n"
    (quick.folder / "queued").write_text(
        f"7 7 RUNNING None|{here}|exp/seed0/2:train-r001:\n"
    )
    assert quick.submit().returncode == 0


def test_numbers_that_slurm_gives_again_are_skipped(runner, quick):
    """After a crash slurmctld may count from an earlier number."""
    runner.plan("rounds=1", form="slurm")
    end_with(65, 1)
    submit(quick)
    quick.drain()
    assert notes() == dict.fromkeys(["1", "2", "3", "4"], "ended")
    (quick.folder / "last").write_text("1\n")
    quick.states.clear()
    assert submit(quick) == "exp: 3 jobs submitted\n"
    assert (quick.folder / "cancelled").read_text() == "2\n3\n4\n"
    assert quick.names() == [
        "exp:partition", "exp:train-r001", "exp:average-r001", "exp:knn-r001"
    ]  # fmt: skip
    # A cluster that counts from 1 again is no crash.
    note(70000, "ended")
    (quick.folder / "cancelled").write_text("")
    submit(quick)
    assert (quick.folder / "cancelled").read_text() == "8\n"


def test_jobs_that_slurm_holds_after_a_crash_are_cancelled(runner, quick):
    runner.plan("rounds=1", form="slurm")
    here, queued = Path.cwd().resolve(), quick.folder / "queued"
    queued.write_text(
        f"6 7 PENDING launch failed requeued held|{here}|exp:train-r001:\n"
        f"8 8 PENDING Dependency|{here}|exp:average-r001:\n"
        f"9 9 PENDING Dependency|{here}|furlkit-next:exp:\n"
        f"9 9 PENDING launch failed requeued held|{here}|other:train-r001:\n"
    )
    scancel = quick.folder / "bin" / "scancel"
    scancel.write_text(f'{scancel.read_text()}shift\necho "$@" > $QUEUE/queued\n')
    done = quick.submit()
    assert done.returncode == 0 and "exp: cancels waiting jobs" in done.stderr
    assert done.stdout == "exp: 6 jobs submitted\n"
    assert queued.read_text() == "7 8 9\n"


def test_tasks_that_have_ended_and_run_in_the_eyes_of_slurm_are_cancelled(
    runner, quick
):
    """A slurmctld that crashes right after the end of a task forgets the end."""
    runner.plan("rounds=1", form="slurm")
    here, queued = Path.cwd().resolve(), quick.folder / "queued"
    queued.write_text(
        "".join(f"{k} 4 RUNNING None|{here}|exp:train-r001:\n" for k in (4, 5, 6, 17))
        + f"8 8 PENDING Dependency|{here}|exp:average-r001:\n"
        + f"9 9 RUNNING None|{here}|other:train-r001:\n"
    )
    note(4, "ended")
    note(5, "started")
    note(6, "started")
    sleep = quick.folder / "bin" / "sleep"
    # Task 6 ends during the wait.
    ends = f"echo ended > '{TASKS.resolve()}/6'"
    sleep.write_text(f'#!/bin/sh\necho "sleep $1" >> "$QUEUE/cancelled"\n{ends}\n')
    sleep.chmod(0o755)
    done = quick.submit()
    assert done.returncode == 75 and "exp: has jobs in the queue" in done.stderr
    assert "exp: cancels tasks that have ended: 4\n" in done.stderr
    assert "task 17 has not noted its start" in done.stderr
    assert (quick.folder / "cancelled").read_text() == "sleep 60\n4\nsleep 10\n"
    assert not quick.names()


def test_nothing_is_submitted_if_slurm_does_not_answer(runner, quick):
    runner.plan("rounds=1", form="slurm")
    (quick.folder / "bin" / "squeue").write_text("#!/bin/sh\nexit 1\n")
    assert quick.submit().returncode == 1
    assert not quick.names()


def test_drained_nodes_are_named_with_the_command_of_the_administrator(runner, quick):
    sinfo = quick.folder / "bin" / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'n[1-2]|Duplicate jobid'; echo 'n3|broken'\n")
    sinfo.chmod(0o755)
    runner.plan("rounds=1", form="slurm")
    (line,) = quick.submit().stderr.splitlines()
    assert line.endswith("scontrol update nodename=n[1-2] state=resume")


def test_an_older_script_is_refused(runner, quick):
    runner.plan(form="slurm")
    shutil.copy("run", "old")
    runner.plan("train=--epochs 1", form="slurm")
    done = quick.submit("old")
    assert done.returncode == 2 and "run furlkit plan again" in done.stderr
    assert quick.names() == []


def test_arrays_are_cut_at_1000_elements(recipe, run, quick):
    recipe(AVERAGING)
    done = run("plan", "recipe.toml", "clients=2500", "rounds=1", "--as", "slurm",
               "-o", "run")  # fmt: skip
    assert done.code == 0, done.err
    submit(quick)
    names = [name for name in quick.names() if "train" in name]
    assert names == ["exp:train-r001", "exp:train-r001-2", "exp:train-r001-3"]
    arrays = [quick.options(k)["array"].split(",") for k in (4, 5, 6)]
    assert [len(array) for array in arrays] == [1000, 1000, 500]
    assert arrays[2][-1] == "499"
    assert quick.options(7)["dependency"] == "afterok:4,afterok:5,afterok:6"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing(runner, recipe, quick):
    recipe(f'{PARTIAL}\n[resources]\nstragglers = "cancel"\nat_once = 3\n')
    Path("site.toml").write_text(SITE.replace("setup", "launch = 'srun'\nsetup"))
    words = ("keep=last", "--rounds-at-once", 1, "--resources", "site.toml")
    runner.plan(*words, form="slurm")
    submit(quick)
    runner.plan(*words[:1], form="slurm")
    Path("whole").write_bytes(Path("run").read_bytes())
    runner.plan(*words, form="slurm")
    scripts = ["run", "whole", *(str(quick.folder / f"{k}.sh") for k in (1, 4, 7, 8))]
    found = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
    assert found.stdout == ""


def test_50_rounds_of_20_clients_are_submitted_with_linear_work(run, quick):
    recipe = ROOT / "examples" / "fedca" / "recipe.toml"
    words = ("plan", recipe, "data=digits", "public=digits", "align=--images 500")
    words = (*words, "clients=20")

    def commands(rounds: int) -> int:
        """Number of the shell's commands, which unlike their time never varies."""
        plan = (*words, f"rounds={rounds}", f"out=exp{rounds}", "--as", "slurm")
        assert run(*plan, "-o", "run").code == 0
        traced = subprocess.run(
            ["sh", "-x", "run"], env=quick.environment, capture_output=True, text=True
        )
        assert traced.stdout == f"exp{rounds}: {5 + 3 * rounds} jobs submitted\n"
        return traced.stderr.count("\n+ ")

    assert commands(10) < commands(50) < 5.5 * commands(10)
    assert run(*words, "rounds=50", "-o", "rules").code == 0
    assert run(*words, "rounds=50", "--as", "slurm", "-o", "run").code == 0
    assert Path("run").stat().st_size < 1.2 * Path("rules").stat().st_size


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("[resources]\nsetup = ['rm -rf ~']", 65, ("recipe.toml", "site")),
        ("[resources]\nlaunch = 'evil'", 65, ("recipe.toml", "site")),
        ("[resources]\nmemory = '8 GB'", 65, ("memory", "8G")),
        ("[resources]\ntime = '90'", 65, ("time", "HH:MM:SS")),
        ("[resources]\ngpu = 1", 65, ("gpu", "did you mean gpus?")),
        ("[resources.trian]\ngpus = 1", 65, ("trian", "did you mean train?")),
        ("[resources.train]\nrestarts = 1", 65, ("restarts", "[resources]")),
        ("[resources]\ngpus = 0.5", 2, ("gpus", "whole GPUs")),
        ("[resources]\nat_once = -1", 65, ("at_once", "0 or more")),
    ],
)
def test_resources_that_are_refused(recipe, refused, tmp_path, text, code, words):
    path = recipe(f"{AVERAGING}\n{text}\n")
    refused(tmp_path, code, words, "plan", path, "--as", "slurm")


@pytest.mark.parametrize("words", [("--resources", "x.toml"), ("--rounds-at-once", 2)])
def test_options_of_clusters_do_not_apply_to_make(recipe, refused, tmp_path, words):
    refused(tmp_path, 2, (words[0], "slurm"), "plan", recipe(), *words)


def test_a_line_break_within_a_word_is_refused(recipe, refused, tmp_path):
    text = f'[settings]\ndata = "digits"\nclients = 1\nrounds = 1\n{FILES}{STAGES}'
    path = recipe(text)
    words = ("plan", path, "data=a\nEND\nb", "--as", "slurm")
    refused(tmp_path, 2, ("line break", "Slurm"), *words)
