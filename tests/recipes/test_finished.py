"""Staleness by content: make, sh and status agree, whatever the times of files are."""

import glob
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from furlkit.files.contents import content_of
from tests.helpers import furlkit
from tests.recipes.conftest import RUN, TEST
from tests.recipes.test_run import FORMS, ROUNDS, made_since, times

TRAIN = "train=--epochs 1 --batch-size 240"


def set_times(folder, draw):
    """Give every file of a folder a random time."""
    for path in Path(folder).rglob("*"):
        when = draw.randint(10**9, 2 * 10**9)
        os.utime(path, (when, when))


def sound(runner, folder="exp"):
    """The run is finished: status says so, and make and sh have nothing to do."""
    found = runner.status(folder)
    assert (found["done"], found["stale"]) == (11, [])
    before = {path: Path(path).read_bytes() for path in times(folder)}
    for form in FORMS:
        runner.plan(f"test={TEST}", f"out={folder}", form=form)
        said = runner.done(form)
        assert not any(f"{stage}, " in said for stage in ROUNDS), said
    assert runner.status(folder)["done"] == 11
    now = {p: Path(p).read_bytes() for p in times(folder) if "/plan/" not in p}
    assert now == {path: before[path] for path in now}


@pytest.mark.parametrize("seed", range(2))
def test_times_decide_nothing(done_before, seed):
    set_times("exp", random.Random(seed))
    os.utime(TEST, None)
    sound(done_before)


def test_a_copy_is_as_finished_as_the_run(done_before):
    shutil.copytree("exp", "copy", copy_function=shutil.copyfile)
    sound(done_before, "copy")


def test_an_unpacked_archive_is_as_finished_as_the_run(done_before):
    archive = shutil.make_archive("run", "zip", ".", "exp")
    shutil.rmtree("exp")
    shutil.unpack_archive(archive)
    sound(done_before)


def test_a_copy_of_a_run_that_trained_clients_in_groups_is_finished(runner):
    runner.plan("rounds=1", "--group", 2)
    runner.done()
    shutil.copytree("exp", "copy", copy_function=shutil.copyfile)
    set_times("copy", random.Random(0))
    found = runner.status("copy")
    assert (found["done"], found["steps"], found["stale"]) == (6, 6, [])


def test_a_training_of_a_group_that_fails_gives_its_reason(runner):
    runner.plan("rounds=1", "--group", 2)
    upload = Path("exp/r001/client_1.safetensors")
    upload.mkdir(parents=True)
    assert runner.finish().code == 2
    (failed,) = runner.status()["failed"]
    assert failed["step"] == "train, round 1, clients 0,1"
    assert str(upload) in failed["error"]


@pytest.mark.parametrize("form", FORMS)
def test_a_step_of_an_older_plan_that_ends_later_is_stale(done_before, form):
    """As if make had gone on with the rules of the older plan during a new one."""
    runner = done_before
    runner.plan(f"test={TEST}", TRAIN, form=form)
    for name in ROUNDS["train"] | ROUNDS["average"] | ROUNDS["knn"]:
        os.utime(Path("exp", name))
    stale = runner.status()["stale"]
    assert len(stale) == 8 and "train, round 1, client 0" in stale
    before = times()
    runner.done(form)
    remade = {f"exp/{n}" for s in ("train", "average", "knn") for n in ROUNDS[s]}
    assert made_since(before) >= remade - {"exp/r000/knn.json"}
    assert runner.status()["done"] == 11


def test_a_plan_during_a_run(runner):
    """The files of steps that began before the plan are made again."""
    runner.plan("rounds=1", "train=--epochs 8 --batch-size 64")
    process = runner.start()
    while not glob.glob("exp/**/client_0*", recursive=True):  # Folders come and go.
        assert process.poll() is None
    runner.plan("rounds=1", TRAIN)
    process.communicate()
    found = runner.status()
    assert found["done"] < found["steps"]
    runner.done()
    shutil.move("exp", "mixed")
    runner.plan("rounds=1", TRAIN)
    runner.done()
    for name in ("r001/client_0.safetensors", "r001/client_1.safetensors"):
        assert Path("mixed", name).read_bytes() == Path("exp", name).read_bytes()


def test_an_older_input_with_other_content_makes_stale(done_before):
    assert furlkit("pack", "digits", "--split", "train", "-q", "-o", TEST) == 0
    os.utime(TEST, (10**9, 10**9))
    done_before.plan(f"test={TEST}")
    assert done_before.status()["stale"] == [f"knn, round {r}" for r in range(3)]
    before = times()
    done_before.done()
    assert {f"exp/{name}" for name in ROUNDS["knn"]} == made_since(before)


def test_a_replaced_output_is_stale(done_before):
    shutil.copyfile("exp/r002/client_0.safetensors", "exp/r001/client_0.safetensors")
    stale = done_before.status()["stale"]
    assert stale[0] == "train, round 1, client 0" and len(stale) == 7


def test_an_upload_with_a_byte_too_many_is_made_again(done_before):
    upload = Path("exp/r001/client_0.safetensors")
    good = upload.read_bytes()
    with open(upload, "ab") as stream:
        stream.write(b"x")
    assert "train, round 1, client 0" in done_before.status()["stale"]
    done_before.done()
    assert done_before.status()["done"] == 11 and upload.read_bytes() == good


def reasons(runner):
    found = runner.status()
    return dict(zip(found["stale"], found["reasons"], strict=True))


def test_a_stale_step_has_a_reason(done_before, run):
    assert run("status", "exp", "--check").code == 0
    done_before.plan(f"test={TEST}", TRAIN)
    found = reasons(done_before)
    assert found["train, round 1, client 0"] == "--epochs 2 -> 1"
    assert "exp/r001/client_0.safetensors" in found["average, round 1"]
    said = run("status", "exp")
    assert said.code == 0
    assert "stale: train, round 1, client 0: --epochs 2 -> 1" in said.out
    refused = run("status", "exp", "--check")
    assert refused.code == 1 and "exp" in refused.err and "8 steps stale" in refused.err


def test_the_reason_of_an_exchanged_file_has_both_hashes(done_before):
    upload = Path("exp/r001/client_0.safetensors")
    noted = content_of(str(upload))
    shutil.copyfile("exp/r002/client_0.safetensors", upload)
    reason = reasons(done_before)["train, round 1, client 0"]
    assert str(upload) in reason and noted[:12] in reason
    assert content_of(str(upload))[:12] in reason


def test_the_reason_of_another_input_names_the_file(done_before):
    assert furlkit("pack", "digits", "--split", "train", "-q", "-o", TEST) == 0
    done_before.plan(f"test={TEST}")
    reason = reasons(done_before)["knn, round 1"]
    assert TEST in reason and content_of(TEST)[:12] in reason


def test_a_change_of_groups_makes_nothing_stale(done_before):
    done_before.plan(f"test={TEST}", "--group", 2)
    assert done_before.status()["stale"] == []
    before = times()
    done_before.done()
    assert made_since(before) == set()


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_without_old_uploads_is_finished(runner, form):
    runner.plan("keep=last", form=form)
    runner.done(form)
    shutil.copytree("exp", "copy", copy_function=shutil.copyfile)
    set_times("copy", random.Random(0))
    runner.plan("keep=last", "out=copy", form=form)
    assert runner.status("copy")["done"] == 11
    before = times("copy")
    assert "train" not in runner.done(form)
    assert not Path("copy/r001/client_0.safetensors").exists()
    # A mean of other uploads needs the removed uploads again.
    runner.plan("keep=last", "out=copy", "average=--weights uniform", form=form)
    runner.done(form)
    assert runner.status("copy")["done"] == 11
    assert "copy/r001/global.safetensors" in made_since(before, "copy")


OWN = RUN.replace("evaluate knn {global}", "evaluate knn {global} --preset mine.toml")


@pytest.mark.parametrize("form", FORMS)
def test_a_stage_s_own_preset_makes_it_stale(recipe, runner, form):
    recipe(OWN)
    mine = Path("mine.toml")
    mine.write_text("[evaluate.knn]\nk = 20\n")
    runner.plan("rounds=1", form=form)
    runner.done(form)
    mine.write_text("[evaluate.knn]\nk = 5\n")
    os.utime(mine, (10**9, 10**9))
    refused = runner.finish(form)
    assert refused.code == 2 and "mine.toml" in refused.err
    assert runner.status()["changed"] == ["mine.toml"]
    assert "preset's k 20 -> 5" in runner.plan("rounds=1", form=form).err
    assert runner.status()["stale"] == ["knn, round 0", "knn, round 1"]
    before = times()
    runner.done(form)
    assert made_since(before) == {"exp/r000/knn.json", "exp/r001/knn.json"}


def test_rules_in_another_folder_say_where_to_run_them(runner, environment):
    runner.plan("rounds=1")
    Path("elsewhere").mkdir()
    done = subprocess.run(
        ["make", "-f", "../run"], cwd="elsewhere", capture_output=True, text=True,
        env={**environment, "FURLKIT": runner.furlkit},
    )  # fmt: skip
    assert done.returncode == 2 and "exp/plan/recipe.json" in done.stderr
    assert "in the folder" in done.stderr and "changed" not in done.stderr


def test_of_two_makes_one_carries_out_the_run(runner):
    runner.plan("rounds=1")
    both = [runner.start("make", "-j2") for _ in range(2)]
    ended = [(process.communicate()[1], process.returncode) for process in both]
    assert sorted(code for _, code in ended) in ([0, 0], [0, 2])
    if any(code for _, code in ended):
        assert any("carries out this run" in said for said, _ in ended)
    assert runner.status()["done"] == 7


def test_a_second_make_is_refused_and_a_dead_one_is_not_waited_for(runner):
    runner.plan("train=--epochs 500 --batch-size 16")
    process = runner.start("make")
    while not Path("exp/partition.safetensors").exists():
        assert process.poll() is None
    second = runner.finish("make")
    assert second.code == 2 and f"process {process.pid} on" in second.err
    assert runner.finish("make", "-n").code == 0  # Only looks.
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    runner.plan(TRAIN)
    while "is making it" in (last := runner.finish("make")).err:
        continue
    assert last.code == 0, last


def test_a_step_waits_for_a_late_input_and_is_finished(
    done_before, monkeypatch, run, plan
):
    """The hash of the input is taken when the file is there."""
    monkeypatch.setenv("FURLKIT_WAIT_FOR_FILES", "30")
    model, knn = Path("exp/r002/global.safetensors"), Path("exp/r002/knn.json")
    knn.unlink()
    model.rename("hidden")
    steps = plan("recipe.toml", f"test={TEST}")
    (step,) = [step for step in steps if step["outputs"] == [str(knn)]]
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: Path("hidden").rename(model))
        done = run(*step["command"])
    assert done.code == 0 and "waited" in done.err
    assert done_before.status()["done"] == 11
