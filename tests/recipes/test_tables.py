"""[table.NAME]: runs to compare, and the steps that compare them."""

import csv
import json
from pathlib import Path

import pytest

from furlkit.recipes.read import read, run_of
from tests.recipes.conftest import FILES, STAGES

PAPER = f"""
[settings]
data = "digits"
clients = 2
rounds = 2
row = "plain"
split = "iid"
alpha = [0.1, 1]
values = ["accuracy"]
mu = 0
out = "exp/{{split}}/{{row}}{{mu}}/seed{{seed}}"
init = "--width 0.02 --projector 8,4"
train = "--epochs 1 --batch-size 240"
{FILES}
mean = "mean.json"
{STAGES}
mean = "evaluate linear {{global@final}} --data {{data}} --probes 1 --epochs 1 -o {{mean}}"
[row.plain]
[row.near]
[row.near.stages]
train = '''local-train {{partition}} {{global@last}} --data {{data}} --client {{client}}
    --proximal {{mu}} -o {{upload}}'''
[row.far]
extends = "near"
mu = 2
[split.skewed]
values = ["accuracy", "loss"]
partition = "--scheme classes --classes-per-client 5"
[tables]
out = "exp/tables"
seeds = [0, 1]
file = "{{knn@final}}"
[lines.both]
Plain = "plain"
Near = "near mu=0.5"
[table.1]
title = "Table 1, {{split}}"
over = {{ split = ["iid", "skewed"] }}
lines = [{{ untrained = "plain {{knn@0}}" }}, "both"]
run = ["compare --reference Plain", "plot bars"]
published = {{ of = "knn" }}
[table.2]
lines = {{ Plain = "plain {{mean}}" }}
run = "compare"
[table.all]
tables = ["1", "2"]
[table.sweep]
for = {{ mu = "{{alpha}}" }}
lines = {{ "mu {{mu}}" = "near", every = "near mu={{mu}}" }}
run = "compare"
[table.more]
extends = "sweep"
over = {{ split = ["iid", "skewed"], value = "{{values}}" }}
run = "compare --value {{value}}"
[table.most]
extends = "more"
over.split = ["skewed"]
settings.rounds = 1
label = "{{label}}, {{table}}"
[table.again]
needs = ["plain split=skewed {{global@final}}"]
lines = {{ Plain = "plain" }}
run = "compare"
[table.claims]
lines = "both"
run = "compare --claims {{recipe}}"
[[claims]]
claim = "Near helps"
higher = "Near"
lower = "Plain"
"""


@pytest.fixture
def paper(recipe) -> Path:
    """A recipe with tables, and the paper's numbers beside it."""
    Path("paper.csv").write_text(
        "of,split,method,percent\nknn,iid,Near,71.5\nknn,skewed,Near,62.5\n"
        "linear,iid,Near,1\nknn,iid,Other,2\n"
    )
    return recipe(PAPER)


def steps_of(run, paper, *words) -> dict[str, list[dict]]:
    done = run("plan", paper, *words, "--as", "json", "--dry-run")
    assert done.code == 0, done.err
    return {one["out"]: one["steps"] for one in json.loads(done.out)}


def test_a_table_has_the_runs_of_its_lines_and_one_step_for_each_command(run, paper):
    runs = steps_of(run, paper, "table=1")
    rows = ("plain0", "near0.5")
    folders = [f"exp/{s}/{r}/seed{k}" for s in ("iid", "skewed") for r in rows
               for k in (0, 1)]  # fmt: skip
    assert sorted(runs) == sorted([*folders, "exp/tables"])
    tables = runs["exp/tables"]
    assert [step["outputs"] for step in tables] == [
        [f"exp/tables/1-{split}.{end}"] for split in ("iid", "skewed")
        for end in ("csv", "png")
    ]  # fmt: skip
    own = "exp/iid/plain0/seed0", "exp/iid/plain0/seed1"
    near = [f"exp/iid/near0.5/seed{k}/r002/knn.json" for k in (0, 1)]
    assert tables[0]["command"] == [
        *("compare", "--reference", "Plain", "--title", "Table 1, iid"),
        *("--published", "Near=71.5"),
        *("--series", f"untrained={own[0]}/r000/knn.json,{own[1]}/r000/knn.json"),
        *("--series", f"Plain={own[0]}/r002/knn.json,{own[1]}/r002/knn.json"),
        *("--series", f"Near={','.join(near)}", "-o", "exp/tables/1-iid.csv"),
    ]
    # The step waits for the files of the other runs.
    assert {*near} <= {*tables[0]["after"]}


def test_a_run_has_only_the_steps_that_a_table_needs(run, paper):
    (_, steps), (_, table) = steps_of(run, paper, "table=2", "seed=0").items()
    assert [step["stage"] for step in steps] == [
        "partition", "init", *["train", "train", "average"] * 2, "mean"
    ]  # fmt: skip
    assert [step["stage"] for step in table] == ["table_2_csv"]
    both = steps_of(run, paper, "table=all", "seed=0", "split=iid")
    scores = [s["stage"] for s in both["exp/iid/plain0/seed0"] if not s["trains"]]
    assert scores == ["partition", "init", "knn", "average", "average", "knn", "mean"]


def test_options_of_a_stage_do_not_hide_the_file_of_the_stage(run, paper):
    runs = steps_of(run, paper, "table=2", "seed=0", "mean=--lr 3", "train=--epochs 2")
    (table,) = runs["exp/tables"]
    assert "Plain=exp/iid/plain0/seed0/mean.json" in table["command"]
    assert runs["exp/iid/plain0/seed0"][-1]["command"][-1] == "3"


def test_a_row_changes_stages_and_extends_another_row(run, paper):
    runs = steps_of(run, paper, "row=far", "seed=0")
    train = next(s for s in runs["exp/iid/far2/seed0"] if s["stage"] == "train")
    assert train["command"][train["command"].index("--proximal") + 1] == "2"
    runs = steps_of(run, paper, "row=plain", "seed=0")
    assert not any("--proximal" in s["command"] for s in runs["exp/iid/plain0/seed0"])


def test_a_variable_in_the_label_repeats_a_line_and_in_the_text_joins_files(run, paper):
    (step,) = steps_of(run, paper, "table=sweep", "seed=3")["exp/tables"]
    series = [b for a, b in zip(step["command"], step["command"][1:], strict=False)
              if a == "--series"]  # fmt: skip
    files = [f"exp/iid/near{mu}/seed3/r002/knn.json" for mu in (0.1, 1)]
    assert series == [
        f"mu 0.1={files[0]}", f"mu 1={files[1]}", f"every={files[0]},{files[1]}"
    ]  # fmt: skip


def test_a_table_extends_another_and_lists_may_depend_on_variables_before(run, paper):
    tables = steps_of(run, paper, "table=more", "seed=3")["exp/tables"]
    files = [step["outputs"][0].partition("more-")[2] for step in tables]
    assert files == ["iid-accuracy.csv", "skewed-accuracy.csv", "skewed-loss.csv"]
    skewed = tables[-1]["command"]
    assert skewed[:3] == ["compare", "--value", "loss"]
    file = "exp/skewed/near1/seed3/r002/knn.json"
    assert skewed[skewed.index("--series", 5) + 1] == f"mu 1={file}"


def test_entries_of_an_extended_table_are_merged_and_labels_changed(run, paper):
    runs = steps_of(run, paper, "table=most", "seed=3")
    tables = runs["exp/tables"]
    files = [step["outputs"][0].partition("most-")[2] for step in tables]
    assert files == ["skewed-accuracy.csv", "skewed-loss.csv"]
    command = tables[0]["command"]
    file = "exp/skewed/near0.1/seed3/r001/knn.json"
    assert command[command.index("--series") + 1] == f"mu 0.1, most={file}"


def test_runs_of_a_recipe_read_a_preset_once(paper):
    recipe = read(paper)
    first, second = (run_of(recipe, {"preset": "fedsimclr", "mu": k}) for k in (1, 2))
    assert first.preset is second.preset and "local-train" in first.preset


def test_runs_that_a_table_needs_come_first_and_are_not_shown(run, paper):
    runs = steps_of(run, paper, "table=again", "seed=0")
    folders = ["exp/skewed/plain0/seed0", "exp/iid/plain0/seed0", "exp/tables"]
    assert [*runs] == folders
    assert "skewed" not in " ".join(runs["exp/tables"][0]["command"])
    assert runs[folders[0]][-1]["stage"] == "average"


def test_tables_of_one_run_with_a_number_from_the_recipe_and_from_a_list(run, recipe):
    """The tables 2 and 3 share the run with 2 clients; rounds of phases are settings."""
    more = (
        '[table.3]\nlines = { Plain = "plain {mean}" }\nrun = "compare"\n'
        "over = { clients = [2, 3] }\n[table.claims]"
    )
    text = PAPER.replace("[table.claims]", more).replace("{row}", "{row}{clients}")
    text = text.replace("mu = 0\n", "mu = 0\nfirst_rounds = 1\n", 1)
    text = text.replace("[files]", '[files]\nfirst = "first/r{first_round}"', 1)
    text += '[row.first.stages]\ninit = "init --data {data} -o {first@0}"\n'
    runs = steps_of(run, recipe(text), "table=2,3", "seed=0")
    folders = [f"exp/iid/plain{n}0/seed0" for n in (2, 3)]
    assert [*runs] == [*folders, "exp/tables"]
    assert [len(runs[each]) for each in folders] == [9, 11]


def test_tables_are_written_printed_and_stay_finished(paper, run):
    words = ("plan", paper, "table=1,claims", "split=iid", "rounds=1")
    assert run(*words, "-o", "run.mk").code == 0
    for steps in steps_of(run, *words[1:]).values():
        for step in steps:
            done = run(*step["command"], "-q")
            assert done.code == 0, done.err
    lines = Path("exp/tables/1-iid.csv").read_text().splitlines()
    rows = {row["label"]: row for row in csv.DictReader(lines)}
    knn = [json.loads(Path(f"exp/iid/plain0/seed{k}/r001/knn.json").read_text())
           for k in (0, 1)]  # fmt: skip
    mean = sum(each["accuracy"] for each in knn) / 2
    assert float(rows["Plain"]["mean"]) == pytest.approx(mean, abs=1e-12)
    assert rows["Near"]["published"] == "0.715" and rows["Near"]["n"] == "2"
    assert Path("exp/tables/1-iid.png").stat().st_size > 1000
    assert "Near helps" in Path("exp/tables/claims.csv").read_text()
    states = json.loads(run("status", "exp/tables", "--json").out)
    assert states["done"] == states["steps"] == 3
    Path("exp/iid/plain0/seed0/r001/knn.json").unlink()
    states = json.loads(run("status", "exp/tables", "--json").out)
    assert states["done"] == 0


def test_compare_writes_the_form_of_the_ending(paper, run):
    words = ("plan", paper, "table=2", "seed=0,1", "rounds=1")
    steps = [s for each in steps_of(run, *words[1:]).values() for s in each]
    for step in steps[:-1]:
        assert run(*step["command"], "-q").code == 0
    command = steps[-1]["command"][:-1]
    printed = {}
    for end, sign in (
        ("txt", "Plain  2"),
        ("md", "| Plain | 2 |"),
        ("tex", "\\toprule"),
    ):
        printed[end] = run(*command, f"a.{end}", "-q").out
        assert sign in Path(f"a.{end}").read_text()
    assert len({*printed.values()}) == 1  # --format decides the printed form.
    done = run(*command, "a.xls")
    assert done.code == 2 and "a.xls" in done.err and not Path("a.xls").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["table=9"], ["table=9", "1, 2, again, all, claims, more, most, sweep"]),
        (["table=2", "rounds=1,2"], ["rounds=1,2", "one value"]),
        (["table=1", "out=exp/{row}{seed}"], ["exp/plain0", "two runs", "split"]),
        (["table=1", "colour=red"], ["colour"]),
    ],
)
def test_mistakes_in_words_are_named(paper, run, words, said):
    done = run("plan", paper, *words, "-o", "run.mk")
    assert done.code in (2, 65)
    assert all(part in done.err for part in said), done.err
    assert not Path("run.mk").exists() and not Path("exp").exists()


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("[lines.both]", "[lines.bith]", ["'both'", "bith"]),
        ('run = "compare"', 'ran = "compare"', ["ran", "run"]),
        ("plain {mean}", "plain {meen}", ["{meen}", "{mean}"]),
        ("plain {mean}", "plian {mean}", ["row=plian", "near"]),
        ('mu = "{alpha}"', 'mu = "{data}"', ["{data}", "list"]),
        ("Plain = \"plain {mean}\"", "\"[a]\" = \"plain {mean}\"", ["brackets"]),
        ('extends = "near"', 'extends = "nor"', ["[row.far]", "nor"]),
        ('extends = "near"', 'extends = "far"', ["row.far", "itself"]),
        ('extends = "sweep"', 'extends = "weep"', ["table.more", "'weep'"]),
        ('extends = "sweep"', 'extends = "more"', ["table.more", "'more'"]),
    ],
)  # fmt: skip
def test_mistakes_in_declarations_are_named(recipe, run, before, after, said):
    assert before in PAPER
    Path("paper.csv").write_text("of,split,method,percent\n")
    path = recipe(PAPER.replace(before, after))
    words = ["row=far"] if "itself" in said else ["table=all,sweep,more"]
    done = run("plan", path, *words, "-o", "run.mk")
    assert done.code in (2, 65), done.err
    assert all(part in done.err for part in said), done.err


def test_jobs_of_a_table_wait_for_the_runs_on_a_cluster(paper, run):
    text = run("plan", paper, "table=2", "--as", "slurm").out
    assert 'test "$code" -eq 0 && begin exp/tables "$all_0$all_1"' in text
    assert text.index("all_0=$all") < text.index("begin exp/tables")
    done = run("plan", paper, "table=2", "--as", "slurm", "--rounds-at-once", "1")
    assert done.code == 2 and "--rounds-at-once" in done.err
    tasks = run("plan", paper, "table=2", "seed=0", "--as", "hq").out.split("[[task]]")
    mean, table = tasks[-2:]
    assert "evaluate" in mean and "compare" in table
    assert f"deps = [{mean.split('id = ')[1].split()[0]}]" in table


def test_a_stage_of_one_row_gets_options_by_hand(recipe, run):
    """--align is an option of train too, and the value has a comma."""
    aligned = """[row.aligned.stages]
align = "pretrain-align {global@0} --data digits --targets-out {targets} -o {align}"
"""
    path = recipe(PAPER.replace("[row.far]", f"{aligned}[row.far]"))
    words = ("row=aligned", "align=--epochs 1 --jitter 1,1,0,0")
    (steps,) = steps_of(run, path, *words).values()
    (step,) = (step for step in steps if step["stage"] == "align")
    assert step["command"][-4:] == ["--epochs", "1", "--jitter", "1,1,0,0"]


def test_options_of_a_stage_do_not_replace_the_file_of_this_name(run, paper):
    runs = steps_of(run, paper, "table=2", "seed=0", "mean=--lr 0.5")
    (table,) = runs["exp/tables"]
    assert "Plain=exp/iid/plain0/seed0/mean.json" in table["command"]
    (mean,) = (s for s in runs["exp/iid/plain0/seed0"] if s["stage"] == "mean")
    assert mean["command"][-2:] == ["--lr", "0.5"]
