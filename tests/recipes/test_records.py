"""plan/ in a run's folder: which files are the plan's, and which are the user's."""

import json
from itertools import pairwise
from pathlib import Path

from tests.recipes.conftest import AVERAGING

MINE = ["my-notes.txt", "results-2024.txt", "train-deadbeef.txt", "old-0123abcd.txt"]


def test_a_plan_removes_only_files_that_it_wrote(recipe, run):
    assert run("plan", recipe(), "train=--epochs 2", "-o", "run.mk").code == 0
    for name in MINE:
        Path("exp/plan", name).write_text("mine")
    assert run("plan", "recipe.toml", "train=--epochs 3", "-o", "run.mk").code == 0
    recipe(AVERAGING.replace('knn = "evaluate', 'score = "evaluate'))
    assert run("plan", "recipe.toml", "train=--epochs 4", "-o", "run.mk").code == 0
    for name in MINE:
        assert Path("exp/plan", name).read_text() == "mine"
    # One record for each stage: those of earlier plans are gone.
    stages = ["average", "init", "partition", "score", "train"]
    records = {path.name for path in Path("exp/plan").glob("*-*.txt")} - {*MINE}
    assert sorted(name.partition("-")[0] for name in records) == stages


def test_a_list_of_records_cannot_name_other_files(recipe, run):
    assert run("plan", recipe(), "train=--epochs 2", "-o", "run.mk").code == 0
    noted = Path("exp/plan/recipe.json")
    listed = json.loads(noted.read_text())
    Path("exp/gone-01234567.txt").write_text("mine")
    Path("exp/plan/mine.txt").write_text("mine")
    listed["records"] += ["../gone-01234567.txt", "mine.txt"]
    noted.write_text(json.dumps(listed))
    assert run("plan", "recipe.toml", "train=--epochs 3", "-o", "run.mk").code == 0
    assert Path("exp/gone-01234567.txt").exists() and Path("exp/plan/mine.txt").exists()


def test_a_change_of_any_word_is_named(recipe, run):
    words = ["a\u2028b", "a\nb", "a'b", '"', "x\n--k 3", "plain"]
    path = recipe()
    for before, after in pairwise(words):
        assert (
            run("plan", path, f"data={before}", "-o", "run.mk", "--as", "sh").code == 0
        )
        done = run("plan", path, f"data={after}", "-o", "run.mk", "--as", "sh")
        assert done.code == 0 and "knn changes: --data " in done.err
