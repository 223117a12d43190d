"""Phases with rounds of their own, and placeholders with a second choice."""

import json
from pathlib import Path

import pytest

from tests.recipes.test_plan import commands, titles

PHASES = """
[settings]
clients = 3
fraction = 0.67
learn_rounds = 3
rounds = 2
[files]
first = "learn/r{learn_round}/global"
learner = "learn/r{learn_round}/client_{client}"
global = "r{round}/global"
upload = "r{round}/client_{client}"
labelled = "r{round}/labelled"
[stages]
partition = "partition --data digits --clients {clients} -o {partition}"
init = "init --data digits -o {first@0}"
learn = "local-train {partition} {first@last} --data digits --client {client} -o {learner}"
gather = "aggregate {learner*} -o {first}"
heads = "init --data digits --objective cluster --from {first@final} -o {global@0}"
train.run = '''local-train {partition} {labelled@last|global@last} --data digits
    --objective cluster --client {client} -o {upload}'''
average = "aggregate {upload*} -o {global}"
label.run = "distill {global} --teacher self --data digits -o {labelled}"
label.rounds = "1"
score = "evaluate cluster {labelled@final|global@final} --data digits -o {score}"
"""


def test_a_phase_has_its_rounds_before_the_others(recipe, plan):
    steps = plan(recipe(PHASES))
    order = [(s["stage"], s["phase"], s["round"]) for s in steps if not s["clients"]]
    assert order == [
        ("partition", "", None), ("init", "learn", 0),
        *(("gather", "learn", number) for number in (1, 2, 3)),
        ("heads", "", 0), ("average", "", 1), ("label", "", 1), ("average", "", 2),
        ("score", "", None),
    ]  # fmt: skip
    (heads,) = commands(steps, "heads")
    assert "--from exp/learn/r003/global" in heads and "-o exp/r000/global" in heads
    assert sum(s["stage"] == "learn" for s in steps) == 3 * 2
    assert sum(s["stage"] == "train" for s in steps) == 2 * 2


def test_the_first_file_that_has_been_made_is_read(recipe, plan):
    steps = plan(recipe(PHASES), "rounds=3")
    found = [(s["round"], s["reads"][1]) for s in steps if s["stage"] == "train"]
    assert dict(found) == {
        1: "exp/r000/global", 2: "exp/r001/labelled", 3: "exp/r002/global",
    }  # fmt: skip
    (score,) = commands(steps, "score")
    assert "exp/r003/global" in score
    (score,) = commands(plan(recipe(PHASES), "rounds=1"), "score")
    assert "exp/r001/labelled" in score


def test_a_phase_draws_clients_of_its_own(recipe, plan):
    """The draws of the rounds proper are those of a recipe without phases."""
    words = ("clients=9", "fraction=0.34", "learn_rounds=4", "rounds=4")
    steps = plan(recipe(PHASES), *words)
    drawn = {
        stage: [s["clients"] for s in steps if s["stage"] == stage]
        for stage in ("learn", "train")
    }
    assert drawn["learn"] != drawn["train"]
    lines = PHASES.splitlines()
    kept = [line for line in lines if not line.startswith(("first", "learn", "gather"))]
    text = "\n".join(kept).replace("{first@0}", "{x}").replace("{first@final}", "{x}")
    alone = plan(recipe(text), *(word for word in words if "learn" not in word))
    assert [s["clients"] for s in alone if s["stage"] == "train"] == drawn["train"]


def test_files_of_all_rounds_of_a_phase(recipe, plan):
    text = PHASES + 'bytes = "ledger {first@all} {learner@all*} -o {bytes}"\n'
    steps = plan(recipe(text), "learn_rounds=2", "fraction=1")
    (step,) = (s for s in steps if s["stage"] == "bytes")
    assert len(step["reads"]) == 3 + 2 * 3


def test_a_phase_may_be_that_of_another_run(recipe, plan):
    gone = ("init", "learn ", "learner", "gather")
    kept = [line for line in PHASES.splitlines() if not line.startswith(gone)]
    given = '[inputs]\nfirst = "other/learn/r{learn_round}/global"'
    (heads,) = commands(plan(recipe("\n".join([*kept, given]))), "heads")
    assert "--from other/learn/r003/global" in heads


def test_without_rounds_a_phase_leaves_its_start_as_it_is(recipe, plan):
    steps = plan(recipe(PHASES), "learn_rounds=0")
    (heads,) = commands(steps, "heads")
    assert "--from exp/learn/r000/global" in heads
    assert not [s for s in steps if s["stage"] in ("learn", "gather")]


def test_clients_are_grouped_in_each_phase(recipe, plan):
    steps = plan(recipe(PHASES), "fraction=1", "--group", 3)
    assert titles(steps)[2] == ("learn", 1, (0, 1, 2))
    assert ("train", 2, (0, 1, 2)) in titles(steps)


def test_status_and_what_is_removed_tell_phases_apart(recipe, run):
    path = recipe(PHASES)
    words = ("fraction=1", "keep=last", "learn_rounds=3", "rounds=2")
    assert run("plan", path, *words, "-o", "run.mk").code == 0
    rules = Path("run.mk").read_text()
    # Of each phase the last round stays.
    for stamp in ("learn_r001", "learn_r002", "r001"):
        assert f"exp/plan/{stamp}.removed:" in rules
    assert "learn_r003.removed" not in rules and "plan/r002.removed" not in rules
    done = run("status", "exp")
    assert done.code == 0 and "learn round 0 of 3, round 0 of 2" in done.out
    data = json.loads(run("status", "exp", "--json").out)
    assert data["phases"] == {"learn": {"rounds": 3, "round": 0}}


@pytest.mark.parametrize(
    "old, new, code, words",
    [
        ("{labelled@last|global@last}", "{first@last}", 65, ["another phase", "first"]),
        ("learn/r{learn_round}/global", "r{learn_round}/{round}", 65, ["two phases"]),
        ("learn_rounds = 3", "learn_rounds = -1", 2, ["learn_rounds=-1"]),
        ("learn_rounds = 3", "learn_rounds = 'x'", 2, ["learn_rounds=x"]),
        ("learn_rounds = 3\n", "", 65, ["learn_round", "no setting"]),
        ("{labelled@last|global@last}", "{labelled@last|globl@last}", 65, ["globl"]),
        ("{labelled@last|global@last}", "{labelled@last|global@soon}", 65, ["soon"]),
    ],
)  # fmt: skip
def test_mistakes_are_refused(recipe, refused, tmp_path, old, new, code, words):
    assert old in PHASES
    path = recipe(PHASES.replace(old, new))
    refused(tmp_path, code, words, "plan", path)
