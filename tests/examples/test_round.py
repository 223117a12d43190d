"""The round loop in make and in shell: whole runs, and what make would run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from furlkit.files.container.read import Container

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
FURLKIT = f"{sys.executable} -m furlkit"
SYSTEMS = ("demo", "fedsimclr", "fedae", "fedpr", "fedavg")
TINY = {
    "DATA": "digits",
    "PRESET": "digits",
    "CLIENTS": "3",
    "ROUNDS": "2",
    "FRACTION": "0.67",
    "SEED": "3",
    "INIT": "--width 0.02 --projector 8,4",
    "TRAIN": "--epochs 1",
    "KNN": "--k 20",
}
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture(scope="session")
def whole(make_in, tmp_path_factory) -> Path:
    """A folder with a whole run by `make -j2`; each training command has two clients.

    Its launcher notes which stages it was given.
    """
    folder = tmp_path_factory.mktemp("whole")
    launcher = folder / "launch"
    launcher.write_text('#!/bin/sh\necho "$@" >> launched\nexec "$@"\n')
    launcher.chmod(0o755)
    more = {"LAUNCH": "./launch", "GROUP": "2", "EVALUATE": "knn:0,last"}
    done = make_in(folder, EXAMPLES / "round.mk", "-j2", **TINY, **more)
    assert done.returncode == 0, done.stderr
    return folder


def results(folder: Path) -> dict[str, bytes]:
    """The files of a run whose bytes must not depend on how it was run."""
    paths = sorted(folder.rglob("*.safetensors")) + sorted(folder.rglob("*.json"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def drawn(run) -> list[str]:
    words = "sample --clients 0-2 --fraction 0.67 --rounds 1-2 --seed 3"
    return run(*words.split()).out.split()


def test_a_run_leaves_the_files_of_the_design(whole, run):
    uploads = {
        f"exp/r00{number}/client_{client}.safetensors"
        for number, client in (token.split("/") for token in drawn(run))
    }
    assert len(uploads) == 4
    server = {f"exp/r00{number}/global.safetensors" for number in range(3)}
    scores = {"exp/r000/knn.json", "exp/r002/knn.json"}
    assert set(results(whole)) == {
        "exp/partition.safetensors", *uploads, *server, *scores
    }  # fmt: skip


def test_every_stage_is_launched(whole):
    lines = (whole / "launched").read_text().splitlines()
    assert all(line.startswith(f"{FURLKIT} ") for line in lines)
    stages = sorted(line.removeprefix(FURLKIT).split()[0] for line in lines)
    assert stages == [
        "aggregate", "aggregate", "evaluate", "evaluate", "init", "local-train",
        "local-train", "partition",
    ]  # fmt: skip


def test_a_finished_run_has_nothing_left_to_do(whole, make_in, snapshot):
    before = snapshot(whole)
    more = {"GROUP": "2", "EVALUATE": "knn:0,last"}
    done = make_in(whole, EXAMPLES / "round.mk", **TINY, **more)
    assert (done.returncode, done.stdout) == (0, "")
    assert snapshot(whole) == before


def test_other_settings_are_refused_in_the_same_folder(whole, make_in, snapshot):
    before = snapshot(whole)
    other = {**TINY, "TRAIN": "--epochs 2", "ROUNDS": "3"}
    done = make_in(whole, EXAMPLES / "round.mk", **other)
    assert done.returncode == 2
    assert "exp/settings" in done.stderr
    assert snapshot(whole) == before


def test_summary_is_a_table_of_the_scores(whole, make_in, run):
    done = make_in(
        whole, EXAMPLES / "round.mk", "summary", **TINY, EVALUATE="knn:0,last"
    )
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["round", "knn"]
    assert [line.split()[0] for line in lines] == ["0", "2"]
    for line in lines:
        number, score = line.split()
        said = run("inspect", whole / f"exp/r00{number}/knn.json").out
        assert f"knn accuracy {score} %" in said


def by_shell(folder: Path, environment: dict[str, str], **more: str) -> Path:
    settings = {**environment, **TINY, "FURLKIT": FURLKIT, "OUT": "exp", **more}
    command = ["sh", str(EXAMPLES / "plain_shell.sh")]
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_plain_shell_resumes_with_the_bytes_of_make(whole, environment, tmp_path):
    for name in ("partition.safetensors", "r000/global.safetensors"):
        (tmp_path / "exp" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(whole / "exp" / name, tmp_path / "exp" / name)
    found = results(by_shell(tmp_path, environment, ROUNDS="1"))
    found.pop("exp/r001/knn.json")
    expected = {k: v for k, v in results(whole).items() if "r002" not in k}
    expected.pop("exp/r000/knn.json")
    assert found == expected


@pytest.mark.slow
def test_plain_shell_gives_the_bytes_of_make(whole, environment, tmp_path):
    found, expected = results(by_shell(tmp_path, environment)), results(whole)
    found.pop("exp/r001/knn.json")
    expected.pop("exp/r000/knn.json")
    assert found == expected


def option(stage: list[str], name: str) -> str:
    return stage[stage.index(name) + 1]


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_every_command_of_every_system_is_understood(planned, tmp_path, name, scale):
    makefile = EXAMPLES / name / "Makefile"
    stages = planned(tmp_path, makefile, "all", "curve", "heat", SCALE=scale)
    assert {stage[0] for stage in stages} == {
        "partition", "init", "local-train", "aggregate", "evaluate", "plot"
    }  # fmt: skip


# FedCA's parts: all of them together, and clients that miss rounds.
FEDCA = {
    "ALIGN": "digits", "DICTIONARY": "64", "PRIVATE": "1", "FRACTION": "0.5",
    "EVALUATE": "angles", "PRESET": "",
}  # fmt: skip


def maybe(stage: list[str], name: str) -> str | None:
    return option(stage, name) if name in stage else None


def test_fedca_s_files_pass_from_round_to_round(planned, run, tmp_path):
    plan = {**FEDCA, "CLIENTS": "4", "ROUNDS": "9"}
    stages = planned(tmp_path, EXAMPLES / "round.mk", **plan)
    trainings = {
        (int(option(s, "-o").split("/")[1][1:]), option(s, "--client")): s
        for s in stages if s[0] == "local-train"
    }  # fmt: skip
    words = "sample --clients 0-3 --fraction 0.5 --rounds 1-9 --seed 0"
    tokens = [token.split("/") for token in run(*words.split()).out.split()]
    drawn = [(int(number), client) for number, client in tokens]
    assert trainings.keys() == set(drawn)
    last: dict[str, int] = {}
    returned = 0
    for number, client in drawn:
        stage, kept, here = (
            trainings[number, client],
            last.get(client),
            f"exp/r00{number}",
        )
        own = f"exp/r00{kept}/private_{{client}}.safetensors" if kept else None
        assert maybe(stage, "--private") == own
        shared = f"exp/r00{number - 1}/dictionary.safetensors" if number > 1 else None
        assert maybe(stage, "--dictionary") == shared
        assert (
            option(stage, "--private-out") == f"{here}/private_{{client}}.safetensors"
        )
        assert (
            option(stage, "--features-out") == f"{here}/features_{{client}}.safetensors"
        )
        assert option(stage, "--participants") == "2"
        assert option(stage, "--align") == "exp/targets.safetensors"
        returned += kept is not None and kept < number - 1
        last[client] = number
    assert returned, "some client must come back after a round it missed"


def test_a_dictionary_is_made_of_the_rows_of_the_rounds_clients(planned, run, tmp_path):
    plan = {**FEDCA, "CLIENTS": "4", "ROUNDS": "3"}
    stages = planned(tmp_path, EXAMPLES / "round.mk", **plan)
    for number in (1, 2):
        words = f"sample --clients 0-3 --fraction 0.5 --rounds {number} --seed 0"
        clients = [token.split("/")[1] for token in run(*words.split()).out.split()]
        output = f"exp/r00{number}/dictionary.safetensors"
        (stage,) = (s for s in stages if s[0] == "aggregate" and s[-1] == output)
        assert option(stage, "--rule") == "dictionary"
        assert option(stage, "--dictionary-size") == "64"
        assert [word for word in stage if "features_" in word] == [
            f"exp/r00{number}/features_{client}.safetensors" for client in clients
        ]
    # Nobody would read that of the last round.
    assert not [s for s in stages if s[-1] == "exp/r003/dictionary.safetensors"]


def test_parts_of_fedca_that_were_not_asked_for_leave_no_option(planned, tmp_path):
    plan = {**FEDCA, "ALIGN": "", "DICTIONARY": "", "PRIVATE": "", "FRACTION": "1"}
    stages = planned(tmp_path, EXAMPLES / "round.mk", **plan)
    words = {word for stage in stages for word in stage}
    assert "pretrain-align" not in words
    assert not words & {"--align", "--dictionary", "--features-out", "--private-out"}


def test_a_run_of_fedca_in_which_a_client_comes_back(make_in, run, tmp_path):
    """Clients 0, 1 and 0 again, each on its own in its round."""
    settings = {
        **TINY, **FEDCA, "CLIENTS": "2", "ROUNDS": "3", "SEED": "10",
        "TRAIN": "--epochs 1 --batch-size 240", "EVALUATE": "",
        "PRETRAIN": "--images 60 --epochs 1 --batch-size 30",
    }  # fmt: skip
    done = make_in(tmp_path, EXAMPLES / "round.mk", **settings)
    assert done.returncode == 0, done.stderr
    exp = tmp_path / "exp"

    def header(name):
        return Container(exp / f"{name}.safetensors").header

    came_back, private = header("r003/client_0"), header("r003/private_0")
    assert came_back.inputs["private"] == header("r001/private_0").content
    assert came_back.inputs["dictionary"] == header("r002/dictionary").content
    assert came_back.inputs["targets"] == header("targets").content
    assert private.facts["memory"] == ["averaged_features"]
    assert header("r003/features_0").facts["examples"] == 64
    assert header("r002/dictionary").facts["owners"] == [[1, 64]]
    again = make_in(tmp_path, EXAMPLES / "round.mk", **settings)
    assert (again.returncode, again.stdout) == (0, "")
    make_in(tmp_path, EXAMPLES / "round.mk", "clean", **settings)
    assert not exp.exists()


def test_an_unknown_scale_is_refused(make_in, tmp_path):
    done = make_in(tmp_path, EXAMPLES / "fedae" / "Makefile", "-n", SCALE="galaxy")
    assert done.returncode == 2
    assert "SCALE=galaxy" in done.stderr


def test_clients_are_grouped_and_none_is_left_out(planned, tmp_path):
    plan = {"CLIENTS": "7", "ROUNDS": "2", "GROUP": "3", "EVALUATE": ""}
    stages = planned(tmp_path, EXAMPLES / "round.mk", **plan)
    groups = [option(s, "--client") for s in stages if s[0] == "local-train"]
    assert groups == ["0,1,2", "3,4,5", "6"] * 2
    merged = [s for s in stages if s[0] == "aggregate"]
    for number, stage in enumerate(merged, 1):
        files = [word for word in stage if "client_" in word]
        assert files == [
            f"exp/r00{number}/client_{client}.safetensors" for client in range(7)
        ]


def test_rounds_to_evaluate_are_chosen(planned, tmp_path):
    plan = {"ROUNDS": "12", "EVALUATE": "knn:0,last linear"}
    stages = planned(tmp_path, EXAMPLES / "round.mk", **plan)
    scores = [option(s, "-o") for s in stages if s[0] == "evaluate"]
    every = [f"exp/r{number:03}/linear.json" for number in range(13)]
    assert sorted(scores) == sorted(["exp/r000/knn.json", "exp/r012/knn.json", *every])


def test_a_group_variable_of_the_shell_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUP", "staff")
    command = ["make", "-n", "-f", str(EXAMPLES / "round.mk"), "FURLKIT=furlkit"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert re.findall(r"--client (\S+)", done.stdout) == list("01234") * 5


@pytest.mark.parametrize("wrong", [{"CLIENTS": "0"}, {"ROUNDS": "0"}])
def test_a_loop_without_clients_is_refused(make_in, tmp_path, wrong):
    done = make_in(tmp_path, EXAMPLES / "round.mk", "-n", **wrong)
    assert done.returncode == 2 and "no client" in done.stderr


def test_help_lists_every_target():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True)
    listed = re.findall(r"^make (\S+)  +\S", done.stdout, re.MULTILINE)
    assert listed == ["help", "demo", "test", "test-slow", "lint", "bench", "clean"]


LONGER = {**TINY, "TRAIN": "--epochs 12 --batch-size 32", "GROUP": "2", "FRACTION": "1"}


@pytest.fixture(scope="module")
def undisturbed(make_in, tmp_path_factory) -> dict[str, bytes]:
    """The results of a run with one job at a time and every client on its own."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = make_in(folder, EXAMPLES / "round.mk", "-j1", **{**LONGER, "GROUP": "1"})
    assert done.returncode == 0, done.stderr
    return results(folder)


@pytest.mark.slow
def test_two_jobs_give_the_bytes_of_one(make_in, undisturbed, tmp_path):
    done = make_in(tmp_path, EXAMPLES / "round.mk", "-j2", **LONGER)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path) == undisturbed


@pytest.mark.slow
def test_killed_and_run_again_gives_the_same_bytes(undisturbed, environment, tmp_path):
    settings = {**LONGER, "TRAIN": LONGER["TRAIN"] + " --save-every 0"}
    words = [f"{key}={value}" for key, value in settings.items()]
    command = ["make", "-j2", "-f", str(EXAMPLES / "round.mk"), f"FURLKIT={FURLKIT}"]

    def start() -> subprocess.Popen:
        return subprocess.Popen(
            [*command, *words], cwd=tmp_path, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    # While a client trains, when one is done and the other is not, then later on.
    for sign in (
        "r001/client_0.*.progress", "r001/client_0.safetensors",
        "r001/global.safetensors", "r002/client_2.*.progress",
    ):  # fmt: skip
        process = start()
        limit = time.monotonic() + 120
        while not list((tmp_path / "exp").glob(sign)):
            assert process.poll() is None and time.monotonic() < limit, sign
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert start().wait() == 0
    assert results(tmp_path) == undisturbed
