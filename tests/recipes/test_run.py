"""Plans that are carried out: by make and sh, killed, changed, and in part."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from furlkit.files.journal import Journal
from tests.conftest import ROOT
from tests.helpers import furlkit
from tests.recipes.conftest import TEST, outputs

FORMS = ["make", "sh"]


def times(folder="exp"):
    """When each file of a run was written."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): path.stat().st_mtime_ns for path in paths}


def made_since(before, folder="exp"):
    """The outputs that were written since, without journals and notes."""
    now = times(folder)
    changed = {path for path in now if now[path] != before.get(path)}
    return {p for p in changed if "/plan/" not in p and not p.endswith(".jsonl")}


# --- same bytes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "jobs", "group"),
    [("make", "-j2", 1), ("make", "-j2", 2), ("sh", "", 1), ("sh", "", 3)],
)
def test_every_form_gives_the_same_bytes(runner, plain, form, jobs, group):
    runner.plan("--group", group, form=form)
    runner.done(form, jobs)
    assert outputs() == plain
    assert len(plain) == 11


def kill_often(runner, form, moments, seed, *words):
    """Kill all processes of a run at some moments, then let it end.

    One that ends before it could be killed often enough is begun again.
    """
    wait = random.Random(seed)
    runner.plan(*words, form=form)
    killed = 0
    while killed < moments:
        process = runner.start(form)
        time.sleep(wait.uniform(0.05, 0.8))
        ended = process.poll()
        if ended is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        if ended == 0:
            shutil.rmtree("exp")
            runner.plan(*words, form=form)
        time.sleep(0.1)
    while "is making it" in (last := runner.finish(form)).err:
        time.sleep(0.1)  # One that was killed is not gone yet.
    assert last.code == 0, last


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_is_killed_and_rerun_ends_with_the_same_bytes(runner, plain, form):
    kill_often(runner, form, 3, seed=0)
    assert outputs() == plain


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("more", [(), ("keep=last", "--group", 2)])
def test_a_run_that_is_killed_20_times(runner, plain, form, more):
    kill_often(runner, form, 20, 1, *more)
    found = outputs()
    assert found == {name: plain[name] for name in found}
    assert len(found) == (9 if more else 11)


def test_a_training_that_is_told_to_stop_continues(runner):
    runner.plan(
        "clients=3", "rounds=1", "train=--epochs 6 --batch-size 32", "--group", 3
    )
    output = Path("exp/r001/client_1.safetensors")
    process = runner.start(HOLD=f"{output}:1")  # The first epoch, or progress.
    journal = Journal(output)
    while not any(line["event"] == "epoch" for line in journal.read()):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate()
    assert process.returncode != 0
    # Client 0 was done, and make does not remove it.
    first = times()["exp/r001/client_0.safetensors"]
    while "is making it" in (rest := runner.finish()).err:
        time.sleep(0.1)
    assert rest.code == 0
    events = [line["event"] for line in journal.read()]
    assert events.count("start") == 2 and events.count("epoch") == 6
    assert (
        len(Journal(Path("exp/r001/client_0.safetensors")).read()) == 8
    )  # With the result.
    assert times()["exp/r001/client_0.safetensors"] > first
    stopped = outputs()
    runner.plan(
        "clients=3", "rounds=1", "train=--epochs 6 --batch-size 32", "out=whole"
    )
    runner.done()
    assert outputs("whole") == stopped


# --- what is made again -------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_second_call_does_nothing(runner, form):
    runner.plan("rounds=1", form=form)
    runner.done(form)
    before = times()
    said = runner.done(form)
    assert made_since(before) == set()
    assert "train" not in said


ROUNDS = {
    "train": {f"r00{r}/client_{c}.safetensors" for r in (1, 2) for c in range(2)},
    "average": {f"r00{r}/global.safetensors" for r in (1, 2)},
    "knn": {f"r00{r}/knn.json" for r in (0, 1, 2)},
    "init": {"r000/global.safetensors"},
    "partition": {"partition.safetensors"},
}


@pytest.mark.parametrize(
    ("form", "word", "stale"),
    [
        ("make", "train=--epochs 1 --batch-size 240", {"train", "average", "knn"}),
        ("sh", "train=--epochs 1 --batch-size 240", {"train", "average", "knn"}),
        ("make", "average=--weights uniform", {"train", "average", "knn"}),
        ("make", "knn=--k 5", {"knn"}),
        ("sh", "knn=--k 5", {"knn"}),
        ("make", "test=", {"knn"}),
        ("make", "init=--width 0.03", {"init", "train", "average", "knn"}),
        ("make", "partition=--seed 4", {"partition", "train", "average", "knn"}),
        ("make", "data_root=elsewhere", set()),
    ],
)
def test_a_setting_makes_stale_what_depends_on_it(done_before, form, word, stale):
    runner = done_before
    test = () if word == "test=" else (f"test={TEST}",)
    said = runner.plan(*test, word, form=form).err
    changed = word.partition("=")[0]
    assert (" changes: " in said and changed in said) == bool(stale)
    expected = {f"exp/{name}" for stage in stale for name in ROUNDS[stage]}
    # The model of round 0 is scored, and trained from, but not by the clients.
    if "init" not in stale and "train" in stale:
        expected.discard("exp/r000/knn.json")
    if word.startswith("average"):
        expected -= {f"exp/r001/client_{c}.safetensors" for c in range(2)}
    status = runner.status()
    steps = {title.partition(",")[0] for title in status["stale"]}
    assert steps == stale and len(status["stale"]) == len(expected)
    before = times()
    runner.done(form)
    assert made_since(before) == expected
    after = runner.status()
    assert after["stale"] == [] and after["done"] == after["steps"] == 11


def test_other_images_make_stale_what_reads_them(done_before):
    runner = done_before
    runner.plan(f"test={TEST}")
    assert runner.status()["stale"] == []
    assert furlkit("pack", "digits", "--split", "train", "-q", "-o", TEST) == 0
    assert runner.status()["stale"] == [f"knn, round {r}" for r in range(3)]
    before, scores = times(), Path("exp/r002/knn.json").read_bytes()
    runner.done()
    assert made_since(before) == {f"exp/{name}" for name in ROUNDS["knn"]}
    assert Path("exp/r002/knn.json").read_bytes() != scores


@pytest.mark.parametrize("form", FORMS)
def test_a_changed_preset_must_be_planned_before_it_is_used(runner, form):
    base, own = Path("base.toml"), Path("mine.toml")
    base.write_text("[init]\nwidth = 0.02\n[evaluate.knn]\nk = 20\n")
    own.write_text('extends = "base.toml"\n[local-train]\nepochs = 1\n')
    words = ("preset=mine.toml", "rounds=1", "init=", "train=--batch-size 240")
    runner.plan(*words, form=form)
    runner.done(form)
    base.write_text("[init]\nwidth = 0.02\n[evaluate.knn]\nk = 5\n")
    refused = runner.finish(form)
    assert refused.code == 2 and "base.toml" in refused.err
    assert "plan again" in refused.err and refused.out == ""
    assert runner.status()["changed"] == ["base.toml"]
    assert "preset's k 20 -> 5" in runner.plan(*words, form=form).err
    found = runner.status()
    assert found["changed"] == []
    assert found["stale"] == ["knn, round 0", "knn, round 1"]
    before = times()
    runner.done(form)
    assert made_since(before) == {"exp/r000/knn.json", "exp/r001/knn.json"}
    # Touched and planned again, it is the same.
    os.utime(base)
    runner.plan(*words, form=form)
    assert runner.status()["stale"] == []


@pytest.mark.parametrize("form", FORMS)
def test_rules_of_an_older_plan_do_not_run(runner, form):
    runner.plan("rounds=1", form=form)
    Path("run").rename("old")
    runner.plan("rounds=1", "train=--epochs 1 --batch-size 240", form=form)
    Path("old").rename("run")
    refused = runner.finish(form)
    assert refused.code == 2 and "exp/plan/train-" in refused.err
    assert "plan again" in refused.err


# --- keep = "last" ------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_uploads_that_are_not_needed_are_removed(runner, plain, form):
    words = ("keep=last", "out=kept")
    runner.plan(*words, form=form)
    runner.done(form)
    gone = {f"r001/client_{c}.safetensors" for c in range(2)}
    assert plain.keys() - outputs("kept").keys() == gone
    assert outputs("kept") == {k: v for k, v in plain.items() if k not in gone}
    before = times("kept")
    assert "train" not in runner.done(form)
    assert made_since(before, "kept") == set()
    assert runner.status("kept")["done"] == 11
    # Scores need no uploads.
    runner.plan(*words, "knn=--k 5", form=form)
    assert len(runner.status("kept")["stale"]) == 3
    runner.done(form)
    knn = {f"kept/{name}" for name in ROUNDS["knn"]}
    assert made_since(before, "kept") == knn
    # Another mean does.
    runner.plan(*words, "average=--weights uniform", form=form)
    stale = runner.status("kept")["stale"]
    assert [name for name in stale if name.startswith("train, round 1")] != []
    runner.done(form)
    assert runner.status("kept")["done"] == 11
    runner.plan("out=whole", "average=--weights uniform")
    runner.done()
    whole = outputs("whole")
    assert outputs("kept") == {k: v for k, v in whole.items() if k not in gone}


# --- launching and failing ------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_commands_are_launched_as_the_user_says(runner, form):
    Path("note.sh").write_text('echo "$1 $*" >> launched; shift; exec "$@"\n')
    runner.plan("rounds=1", form=form)
    runner.done(form, LAUNCH="sh note.sh other", LAUNCH_TRAIN="sh note.sh train")
    lines = Path("launched").read_text().splitlines()
    trained = [line for line in lines if line.startswith("train ")]
    assert len(trained) == 2 and all(" local-train " in line for line in trained)
    others = [line for line in lines if line.startswith("other ")]
    assert len(others) == 5 and not any(" local-train " in line for line in others)


@pytest.mark.parametrize("form", FORMS)
def test_a_command_that_fails_stops_the_run_and_it_goes_on(runner, form):
    runner.plan("rounds=1", f"test={TEST}", form=form)
    failed = runner.finish(form)
    assert failed.code == (65 if form == "sh" else 2) and TEST in failed.err
    assert form == "sh" or "Error 65" in failed.err
    assert not Path("exp/r000/knn.json").exists()
    assert furlkit("pack", "digits", "--split", "test", "-q", "-o", TEST) == 0
    before = times()
    runner.done(form)
    assert not made_since(before) & before.keys()  # What was there is as it was.
    assert runner.status()["done"] == 7


# --- FedCA ----------------------------------------------------------------------------------

FEDCA = (
    "data=digits",
    "public=digits",
    "clients=3",
    "rounds=3",
    "fraction=0.6",
    "seed=3",
)
DRAWN = {
    1: [0, 1],
    2: [0, 2],
    3: [0, 1],
}  # Client 1 comes back after a round without it.
NET = "--width 0.02 --projector 16,8"
TINY = "--epochs 1 --batch-size 240 --flip 0 --jitter 0.4,0.4,0,0 --grey 0 --blur 0"


def fedca_by_hand(folder):
    """The rounds of FedCA, command by command."""

    def call(line):
        assert furlkit(*line.format(at=folder).split(), "-q") == 0

    common = f"--preset fedca --seed 3 --data digits {TINY}"
    last = {}
    call("partition --seed 3 --data digits --clients 3 -o {at}/partition.safetensors")
    call(f"init --preset fedca --seed 3 --data digits {NET} "
         "-o {at}/r000/global.safetensors")  # fmt: skip
    call(f"pretrain-align {{at}}/r000/global.safetensors {common} --images 100 "
         "--targets-out {at}/targets.safetensors -o {at}/align.safetensors")  # fmt: skip
    for r, clients in DRAWN.items():
        here, before = f"{{at}}/r{r:03d}", f"{{at}}/r{r - 1:03d}"
        bank = f"--dictionary {before}/dictionary.safetensors" if r > 1 else ""
        for c in clients:
            own = f"{{at}}/r{last.get(c, 0):03d}/private_{c}.safetensors"
            call(f"local-train {{at}}/partition.safetensors {before}/global.safetensors "
                 f"{common} --client {c} --align {{at}}/targets.safetensors --align-data "
                 f"digits {bank} --participants 2 {f'--private {own}' if c in last else ''} "
                 f"--features-out {here}/features_{c}.safetensors "
                 f"--private-out {here}/private_{c}.safetensors "
                 f"-o {here}/client_{c}.safetensors")  # fmt: skip
            last[c] = r
        uploads = [" ".join(f"{here}/{kind}_{c}.safetensors" for c in clients)
                   for kind in ("client", "features")]  # fmt: skip
        call(f"aggregate --preset fedca {uploads[0]} -o {here}/global.safetensors")
        call(f"aggregate --preset fedca --rule dictionary {uploads[1]} "
             f"-o {here}/dictionary.safetensors")  # fmt: skip


def test_fedca_with_a_client_that_comes_back_is_the_same_by_hand(runner, recipe, run):
    sampled = run("sample", "--clients", "0-2", "--fraction", 0.6, "--rounds", "1-3",
                  "--seed", 3, "--json")  # fmt: skip
    assert json.loads(sampled.out)["rounds"] == {str(r): c for r, c in DRAWN.items()}
    recipe((ROOT / "examples/fedca/recipe.toml").read_text())
    options = (f"init={NET}", f"align=--images 100 {TINY}", f"train={TINY}")
    runner.plan(*FEDCA, *options, "linear=--epochs 1", "--group", 2)
    runner.done("make", "-j2")
    fedca_by_hand("hand")
    made, by_hand = outputs(), outputs("hand")
    assert {name: made.pop(name) for name in by_hand} == by_hand
    assert made.keys() == {"r000/linear.json", "r003/linear.json"}
