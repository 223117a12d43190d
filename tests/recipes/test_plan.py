"""furlkit plan: which steps a recipe has, their files and commands, and its refusals."""

import json
import os
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.conftest import AVERAGING, FILES


def titles(steps):
    return [(s["stage"], s["round"], tuple(s["clients"])) for s in steps]


def commands(steps, stage):
    return [" ".join(s["command"]) for s in steps if s["stage"] == stage]


def test_a_round_is_expanded_in_order(recipe, plan):
    steps = plan(recipe(), "clients=2", "rounds=1")
    assert titles(steps) == [
        ("partition", None, ()),
        ("init", 0, ()),
        ("knn", 0, ()),
        ("train", 1, (0,)),
        ("train", 1, (1,)),
        ("average", 1, ()),
        ("knn", 1, ()),
    ]
    assert commands(steps, "train")[1] == (
        "local-train --seed 0 --threads 1 exp/partition.safetensors "
        "exp/r000/global.safetensors --data digits --client 1 "
        "-o exp/r001/client_1.safetensors"
    )
    assert steps[5]["reads"] == [
        "exp/r001/client_0.safetensors",
        "exp/r001/client_1.safetensors",
    ]


def test_a_stage_comes_after_what_it_reads_of_its_round(recipe, plan):
    """A recipe that extends another one adds its stages at the end."""
    recipe(AVERAGING.replace("average =", "unused =").replace("-o {global}", "-o {x}"))
    text = """
extends = "recipe.toml"
[stages]
unused = ""
average = "aggregate {upload*} -o {global}"
"""
    steps = plan(recipe(text, "other.toml"), "clients=1", "rounds=1")
    assert [s["stage"] for s in steps] == [
        "partition", "init", "knn", "train", "average", "knn"
    ]  # fmt: skip


def test_status_of_a_run_with_tables_of_settings(recipe, run):
    path = recipe(f'{AVERAGING}\n[size.small]\nclients = 1\n'.replace(
        "[settings]", '[settings]\nsize = "small"'))  # fmt: skip
    assert run("plan", path, "rounds=1", "-o", "run.mk").code == 0
    done = run("status", "exp", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["steps"] == 6


def test_the_untrained_network_is_scored_where_the_trained_one_is(recipe, plan):
    steps = plan(recipe(), "rounds=3")
    assert [s["round"] for s in steps if s["stage"] == "knn"] == [0, 1, 2, 3]


def test_the_seed_goes_to_stages_that_draw_something(recipe, plan):
    """evaluate knn draws the weights of an untrained network, and nothing else."""
    for more, drawn in (("{global}", False), ("--untrained", True)):
        text = AVERAGING.replace("evaluate knn {global}", f"evaluate knn {more}")
        steps = plan(recipe(text), "rounds=1", "seed=7")
        found = commands(steps, "knn")
        assert found and all(("--seed 7" in line) == drawn for line in found)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ("0 last", [0, 6]),
        ("last", [6]),
        ("every 2", [2, 4, 6]),
        ("0 every 4 last", [0, 4, 6]),
        ("3 99", [3]),
        ("all", [0, 1, 2, 3, 4, 5, 6]),
        ("{data_rounds}", [1, 6]),
    ],
)
def test_a_stage_runs_in_the_rounds_it_names(recipe, plan, rounds, expected):
    line = '"evaluate knn {global} --data {data} -o {knn}"'
    text = AVERAGING.replace(line, f'{{ run = {line}, rounds = "{rounds}" }}')
    text = text.replace("[settings]", '[settings]\ndata_rounds = "1 last"')
    if rounds != "{data_rounds}":
        text = text.replace('data_rounds = "1 last"\n', "")
    steps = plan(recipe(text), "rounds=6")
    assert [s["round"] for s in steps if s["stage"] == "knn"] == expected


PRIVATE = AVERAGING.replace(
    "-o {upload}", "[--private {private@own}] --private-out {private} -o {upload}"
).replace("[files]", '[files]\nprivate = "r{round}/private_{client}.safetensors"')


def test_a_client_that_comes_back_gets_the_file_of_its_last_round(recipe, plan, run):
    steps = plan(recipe(PRIVATE), "clients=5", "rounds=8", "fraction=0.4", "seed=3")
    sampled = run(
        *("sample", "--clients", "0-4", "--fraction", 0.4, "--rounds", "1-8"),
        *("--seed", 3, "--json"),
    )
    drawn = {int(r): c for r, c in json.loads(sampled.out)["rounds"].items()}
    last: dict[int, int] = {}
    came_back = 0
    for step in (s for s in steps if s["stage"] == "train"):
        (client,), number = step["clients"], step["round"]
        assert client in drawn[number]
        found = [w for w in step["reads"] if "private" in w]
        before = last.get(client)
        expected = f"exp/r{before or 0:03d}/private_{client}.safetensors"
        assert found == ([expected] if before else [])
        came_back += before is not None and before < number - 1
        last[client] = number
    assert came_back, "no client was away for a round: choose another seed"
    assert sum(len(c) for c in drawn.values()) == len(commands(steps, "train"))


@pytest.mark.parametrize("averaging_first", [False, True])
def test_the_last_file_of_every_client(recipe, plan, averaging_first):
    """ASTW's server reads models of clients that did not take part in a round too."""
    text = PRIVATE.replace("{upload*}", "{upload@own*} --staleness 1.4")
    if averaging_first:  # The order of the recipe's lines does not matter.
        (line,) = [line for line in text.splitlines() if line.startswith("average")]
        text = text.replace(f"{line}\n", "").replace("train =", f"{line}\ntrain =")
    steps = plan(recipe(text), "clients=5", "rounds=6", "fraction=0.4", "seed=3")
    last: dict[int, int] = {}
    older = 0
    for step in steps:
        if step["stage"] == "train":
            last[step["clients"][0]] = step["round"]
        if step["stage"] == "average":
            files = [
                f"exp/r{r:03d}/client_{c}.safetensors" for c, r in sorted(last.items())
            ]
            assert step["reads"] == files and set(files) <= {*step["after"]}
            older += sum(r < step["round"] for r in last.values())
    assert older


def test_clients_are_grouped_and_none_is_left_out(recipe, run):
    done = run(
        *("plan", recipe(PRIVATE), "clients=5", "rounds=6", "fraction=0.6"),
        *("--group", 2, "--as", "json", "--dry-run"),
    )
    (one,) = json.loads(done.out)
    trained = [s for s in one["steps"] if s["stage"] == "train"]
    assert max(len(s["clients"]) for s in trained) == 2
    for step in trained:
        text = " ".join(step["command"])
        assert f"--client {','.join(map(str, step['clients']))} " in text
        if len(step["clients"]) > 1:
            assert f"-o exp/r{step['round']:03d}/client_{{client}}.safetensors" in text
        # All private files of a group are of the same round.
        assert len({p.split("/")[1] for p in step["reads"] if "private" in p}) <= 1
    seen = {(s["round"], c) for s in trained for c in s["clients"]}
    single = run("plan", "recipe.toml", "clients=5", "rounds=6", "fraction=0.6",
                 "--as", "json", "--dry-run")  # fmt: skip
    (one,) = json.loads(single.out)
    assert seen == {
        (s["round"], c)
        for s in one["steps"]
        if s["stage"] == "train"
        for c in s["clients"]
    }


def test_fcl_s_round_can_be_planned(recipe, plan):
    """Clients share rows of two networks, and train with the bank of the last round."""
    text = f"""
[settings]
data = "digits"
clients = 3
rounds = 2
{FILES}rows = "r{{round}}/rows_{{client}}.safetensors"
bank = "r{{round}}/bank.safetensors"
slow = "r{{round}}/slow_{{client}}.safetensors"

[stages]
partition = "partition --data {{data}} --clients {{clients}} -o {{partition}}"
init = "init --data {{data}} -o {{global@0}}"
train = '''local-train {{partition}} {{global@last}} --data {{data}} --client {{client}}
    [--dictionary {{bank@last}}] --features-out {{rows}} [--private {{slow@own}}]
    --private-out {{slow}} --participants {{participants}} -o {{upload}}'''
average = "aggregate {{upload*}} -o {{global}}"
bank = "aggregate --rule dictionary {{rows*}} -o {{bank}}"
knn = {{ run = "evaluate knn {{global}} --data {{data}} -o {{knn}}", rounds = "last" }}
"""
    steps = plan(recipe(text))
    first, *_, last = commands(steps, "train")
    assert "--dictionary" not in first
    assert "--dictionary exp/r001/bank.safetensors" in last
    assert "--private exp/r001/slow_2.safetensors" in last
    assert "--participants 3" in last
    pooled = [s for s in steps if s["stage"] == "bank"]
    assert pooled[0]["reads"] == [f"exp/r001/rows_{c}.safetensors" for c in range(3)]
    # local-train writes the upload last, so the rows are there when the upload is.
    assert pooled[0]["after"][:3] == [
        f"exp/r001/client_{c}.safetensors" for c in range(3)
    ]


def test_fedstyle_s_round_can_be_planned(recipe, plan):
    """A stage for each client before round 1, and private state through all rounds."""
    text = PRIVATE.replace(
        "train =",
        'style = "init --data {data} --encoder cnn5 -o {private@0}"\ntrain =',
    )
    steps = plan(recipe(text), "clients=4", "rounds=5", "fraction=0.5")
    styles = [s for s in steps if s["stage"] == "style"]
    assert [s["clients"] for s in styles] == [[0], [1], [2], [3]]
    assert steps.index(styles[-1]) < min(
        i for i, s in enumerate(steps) if s["stage"] == "train"
    )
    last = dict.fromkeys(range(4), 0)
    for step in (s for s in steps if s["stage"] == "train"):
        (client,) = step["clients"]
        expected = f"exp/r{last[client]:03d}/private_{client}.safetensors"
        assert f"--private {expected}" in " ".join(step["command"])
        last[client] = step["round"]


def test_clients_own_models_are_scored_by_a_recipe(recipe, plan):
    """Those of the round's clients; before the first round there are none."""
    own = "evaluate personal {partition} {global} [{private*}] --data {data} -o {own}"
    text = PRIVATE.replace("[files]", '[files]\nown = "r{round}/own.json"')
    steps = plan(recipe(f'{text}own = "{own}"\n'), "clients=2", "preset=ditto")
    found = [step for step in steps if step["stage"] == "own"]
    files = {f"exp/r001/private_{k}.safetensors" for k in (0, 1)}
    assert [files & set(step["reads"]) for step in found[:2]] == [set(), files]
    # The preset has no table for it, and that of `evaluate linear` serves.
    assert "--preset" in found[0]["command"]


def test_a_stage_after_the_last_round_reads_all_rounds(recipe, plan):
    text = AVERAGING + 'curve = "plot curve {knn@all} -o {picture}"\n'
    text = text.replace("[files]", '[files]\npicture = "curve.png"')
    (*_, last) = plan(recipe(text), "rounds=2")
    assert last["command"][:5] == [
        *("plot", "curve"),
        *(f"exp/r{n:03d}/knn.json" for n in range(3)),
    ]


def test_an_empty_setting_leaves_out_what_needs_it(recipe, plan):
    text = AVERAGING.replace("[settings]", '[settings]\npublic = ""').replace(
        "train =",
        'align = "pretrain-align {global@0} --data {public} --targets-out {targets} '
        '-o {align}"\ntrain =',
    )
    text = text.replace(
        "-o {upload}", "[--align {targets} --align-data {public}] -o {upload}"
    )
    without = plan(recipe(text))
    assert not commands(without, "align")
    assert "--align" not in commands(without, "train")[0]
    given = plan(Path("recipe.toml"), "public=stl10")
    assert (
        "--align exp/targets.safetensors --align-data stl10"
        in commands(given, "train")[0]
    )


def test_options_of_a_stage_are_added_to_its_command(recipe, plan):
    steps = plan(recipe(), "train=--epochs 2 --crop-scale 0.4,1")
    assert commands(steps, "train")[0].endswith("--epochs 2 --crop-scale 0.4,1")


def test_clients_without_training_take_part_in_nothing(recipe, plan):
    steps = plan(recipe(), "without=0", "clients=3", "rounds=1")
    assert [s["clients"] for s in steps if s["stage"] == "train"] == [[1], [2]]


def test_a_table_of_a_setting_s_value_applies_with_it(recipe, plan):
    text = AVERAGING.replace("[settings]", '[settings]\nscale = "small"')
    text += '\n[scale.paper]\ndata = "cifar10"\nrounds = 4\ntrain = "--epochs 7"\n'
    small = plan(recipe(text))
    paper = plan(Path("recipe.toml"), "scale=paper")
    by_hand = plan(Path("recipe.toml"), "scale=paper", "rounds=1")
    assert max(s["round"] or 0 for s in small) == 2
    assert max(s["round"] or 0 for s in paper) == 4
    assert "--data cifar10" in commands(paper, "train")[0]
    assert "--epochs 7" in commands(paper, "train")[0]
    assert max(s["round"] or 0 for s in by_hand) == 1


def test_a_setting_that_only_another_value_uses_is_used(recipe, plan):
    text = AVERAGING.replace("[settings]", '[settings]\nsplit = "iid"\neach = 2')
    text += (
        '\n[split.noniid]\npartition = "--scheme classes --classes-per-client {each}"\n'
    )
    assert "--scheme" not in commands(plan(recipe(text)), "partition")[0]
    other = plan(Path("recipe.toml"), "split=noniid", "each=5")
    assert "--classes-per-client 5" in commands(other, "partition")[0]


def test_a_setting_names_others(recipe, plan, run):
    """They are those of the run: given by hand, or of a table that applies."""
    text = AVERAGING.replace("[settings]", '[settings]\nfolder = "a"\nscale = "small"')
    text += '\n[scale.large]\ndata = "{folder}/{scale}-{seed}.npz"\n'
    assert "--data digits " in commands(plan(recipe(text)), "train")[0]
    words = ("scale=large", "seed=2", "folder=b")
    (first, *_) = commands(plan(Path("recipe.toml"), *words), "train")
    assert "--data b/large-2.npz " in first
    done = run("plan", "recipe.toml", "scale=large", "folder={seed}")
    assert done.code == 2 and "folder" in done.err and "plain" in done.err
    steps = plan(Path("recipe.toml"), "data={client}.npz")  # No setting: left as it is.
    assert "--data {client}.npz " in commands(steps, "train")[0]


def test_a_recipe_extends_another(recipe, plan):
    recipe()
    Path("below").mkdir()
    own = 'extends = "../recipe.toml"\n[settings]\nclients = 4\n[stages]\nknn = ""\n'
    steps = plan(recipe(own, "below/own.toml"))
    assert {s["stage"] for s in steps} == {"partition", "init", "train", "average"}
    assert len(commands(steps, "train")) == 4 * 2


CONTINUED = """
extends = "recipe.toml"
[settings]
row = "plain"
length = ""
epochs = 1
[stages]
train = "... --epochs {epochs}"
knn = { run = "... --k 3", rounds = "last" }
[row]
plain = {}
near.stages.train = "... --proximal 2"
nearer = { extends = "near", stages.train = "... --lr 1" }
none.stages.knn.run = "... --temperature 1"
[length]
"{rounds}x{epochs}" = {}
"""


def test_a_line_with_dots_continues_the_line_of_the_base(recipe, plan):
    recipe(AVERAGING)
    path = recipe(CONTINUED, "own.toml")
    train = "--data digits --client 0 -o exp/r001/client_0.safetensors --epochs 1"
    for row, more in [
        ("plain", ""),
        ("near", " --proximal 2"),
        ("nearer", " --proximal 2 --lr 1"),
    ]:
        steps = plan(path, f"row={row}")
        assert commands(steps, "train")[0].endswith(train + more)
        (knn,) = commands(steps, "knn")  # In the last round only.
        assert knn.endswith("-o exp/r002/knn.json --k 3")
    (knn,) = commands(plan(path, "row=none"), "knn")
    assert knn.endswith("--k 3 --temperature 1")


def test_dots_without_a_line_to_continue_are_an_error(recipe, run):
    recipe(AVERAGING)
    for own in ("[stages]\nlinear = '... -o {linear}'", "[stages]\nx.run = '...'"):
        done = run("plan", recipe(f'extends = "recipe.toml"\n{own}', "own.toml"))
        assert done.code == 65 and "no line to continue" in done.err


def test_a_pattern_sets_the_settings_in_a_value(recipe, plan, run):
    recipe(AVERAGING)
    path = recipe(CONTINUED, "own.toml")
    steps = plan(path, "length=3x7")
    assert {step["round"] for step in steps if step["stage"] == "train"} == {1, 2, 3}
    assert all("--epochs 7" in line for line in commands(steps, "train"))
    (knn,) = commands(plan(path, "length=3x7", "rounds=1"), "knn")  # By hand wins.
    assert "r001/knn.json" in knn
    done = run("plan", path, "length=long")
    assert done.code == 2 and "{rounds}x{epochs}" in done.err


def test_the_name_of_a_pattern_must_have_settings(recipe, run):
    text = AVERAGING.replace("[settings]", '[settings]\nlength = ""')
    done = run("plan", recipe(text + '[length]\n"{rnds}x1" = {}\n'))
    assert done.code == 65 and "rnds is not a setting" in done.err


def test_scores_without_a_name_in_files_are_json(recipe, plan):
    more = 'linear = "evaluate linear {global@final} --data {data} -o {linear}"\n'
    steps = plan(recipe(AVERAGING + more))
    (linear,) = (step for step in steps if step["stage"] == "linear")
    assert linear["outputs"] == ["exp/linear.json"]
    (partition,) = (step for step in steps if step["stage"] == "partition")
    assert partition["outputs"] == ["exp/partition.safetensors"]


def test_switches_in_command_lines_are_refused(recipe, run):
    text = AVERAGING.replace("evaluate knn", "evaluate knn {clients?}")
    done = run("plan", recipe(text))
    assert done.code == 65 and "{clients?}" in done.err and "stages" in done.err


def test_a_list_makes_a_run_for_each_combination(recipe, run):
    done = run(
        *("plan", recipe(), "seed=0,1", "preset=fedsimclr,fedae", "rounds=1"),
        *("--as", "json", "--dry-run"),
    )
    runs = json.loads(done.out)
    assert [one["out"] for one in runs] == [
        "exp/seed0/fedsimclr",
        "exp/seed0/fedae",
        "exp/seed1/fedsimclr",
        "exp/seed1/fedae",
    ]
    assert "--seed 1" in commands(runs[3]["steps"], "train")[0]
    assert "--preset fedae" in commands(runs[3]["steps"], "train")[0]


def test_out_names_the_folder_of_each_run(recipe, run):
    words = ("plan", recipe(), "preset=fedsimclr,fedae", "rounds=1,2", "seed=3")
    out = "out=exp/{preset}/seed{seed}"
    done = run(*words, out, "--as", "json", "--dry-run")
    assert [one["out"] for one in json.loads(done.out)] == [
        f"exp/{preset}/seed3/rounds{n}"
        for preset in ("fedsimclr", "fedae")
        for n in "12"
    ]
    done = run("plan", "recipe.toml", "seed=1,11", "rounds=1,11", "out=r{seed}{rounds}")
    assert (done.code, done.out) == (2, "")
    assert "r111 would be the folder of two runs" in done.err


def test_the_preset_goes_where_it_has_a_table(recipe, plan):
    Path("mine.toml").write_text("[init]\nwidth = 0.5\n[aggregate]\n")
    steps = plan(recipe(), "preset=mine.toml")
    assert "--preset mine.toml" in commands(steps, "init")[0]
    assert "--preset mine.toml" in commands(steps, "average")[0]
    assert "--preset" not in commands(steps, "train")[0]
    assert "--seed" not in commands(steps, "average")[0]


def test_keep_last_removes_what_no_later_step_reads(recipe, run):
    done = run(
        "plan", recipe(PRIVATE), "keep=last", "rounds=3", "--as", "sh", "--dry-run"
    )
    lines = done.out.splitlines()
    removed = [line for line in lines if line.startswith("rm ")]
    assert [line.count("client_") for line in removed] == [3, 3]
    at = lines.index(
        next(line for line in lines if "r001/client_0" in line and "rm" in line)
    )
    later = "\n".join(lines[at + 1 :])
    assert "r001/client_" not in later and "r001/private_" not in later
    assert "r003/client_0.safetensors" not in " ".join(removed)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["round=3"], 2, "did you mean rounds?"),
        (["seeds"], 2, "KEY=VALUE"),
        (["rounds=many"], 2, "whole number"),
        (["fraction=2"], 2, "(0, 1]"),
        (["keep=some"], 2, "all or last"),
        (["train=--epoch 3"], 65, "train: No such option"),
        (["train=--epochs many"], 65, "train"),
        (["train=--temperature 0.1 --objective rotation"], 65, "does not apply"),
        (["preset=nonsense"], 2, "known are"),
        (["preset=fedca"], 65, "does not apply without"),
        (["clients=1", "without=0"], 2, "no client"),
        (["seed=0,0"], 2, "twice"),
        (["out=a{client}"], 2, "folder"),
        (["out=a{sead}"], 2, "did you mean seed?"),
        (["download=perhaps"], 2, "yes or no"),
        (["without=3"], 2, "numbers of clients, 0 to 2"),
        (["without=a"], 2, "numbers of clients"),
        (["clients=0"], 2, "no client"),
        (["clients=-2"], 2, "no client"),
        (["rounds=-1"], 2, "0 or more"),
        (["rounds=9999999999"], 2, "10,000,000"),
        (["fraction=nan"], 2, "(0, 1]"),
        (["fraction=0.5", "rounding=up"], 2, "rounding=up"),
        (["fraction=a"], 2, "a number"),
        (["fraction=4/0"], 2, "a number"),
        (["threads=0"], 65, "threads"),
        (["seed=a"], 65, "seed"),
        (["preset=.toml"], 65, "no such file"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_printed(
    recipe, run, words, code, expected
):
    done = run("plan", recipe(), *words)
    assert (done.code, done.out) == (code, "")
    assert expected in done.err
    assert sorted(p.name for p in Path().iterdir()) == ["recipe.toml"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{global@last}", "{globl@last}", "did you mean global?"),
        ("{global@last}", "{global@next}", "no round"),
        ("local-train", "locl-train", "did you mean local-train?"),
        ("-o {upload}", "--features-out {rows}", "-o {name}"),
        ("-o {upload}", "[-o {upload}", "brackets"),
        ("-o {upload}", "-o 'x {upload}", "quotation"),
        ("aggregate {upload*}", "aggregate {upload}", "write *"),
        ("init --data {data} -o {global@0}", "init --data {data} -o {start}", "never runs"),
        ("knn = \"evaluate", "init2 = \"init --data {data} -o {global@0}\"\nknn = \"evaluate", "init and init2"),
        ("clients = 3", "clients = 3\nunused = 1", "used by no stage"),
        ("[files]", "[files]\nspare = \"x\"", "used by no stage"),
        ("[files]", "[fils]", "did you mean files"),
        ("[settings]", "[settings", "is not TOML"),
        ('"evaluate knn {global} --data {data} -o {knn}"', "3", "expected a command line"),
        ('"evaluate knn {global} --data {data} -o {knn}"',
         '{ run = "evaluate knn {global} --data {data} -o {knn}", rounds = "often" }',
         "every N"),
        ("clients = 3", "clients = 3\nday = 2020-01-01", "expected text"),
        ("clients = 3", "clients = [[3]]", "expected text"),
        ("clients = 3", "client = 3", "of a step"),
        ("[files]", "[files]\nround = \"x\"", "of a step"),
        ("average =", "seed =", "another name"),
        ("r{round}/knn", "r{rond}/knn", "did you mean round?"),
        ('"r{round}/knn.json"', '""', "expected a path"),
        ("-o {upload}", "-o {upload@last}", "current round"),
        ("r{round}/knn.json", "r{round}/global.safetensors", "written twice"),
        ("-o {upload}", "--features-out {upload} -o {upload}", "written twice"),
        ("client_{client}", "client", "in its name"),
        ("[stages]", "[data.digits]\nround = 1\n[stages]", "did you mean rounds?"),
        ("[stages]", "[data.digits]\nrounds = {a = 1}\n[stages]", "expected text"),
    ],
)  # fmt: skip
def test_a_wrong_recipe_is_refused_with_the_place(recipe, run, old, new, expected):
    assert old in AVERAGING
    done = run("plan", recipe(AVERAGING.replace(old, new)))
    assert (done.code, done.out) == (65, "")
    assert expected in done.err and "recipe.toml" in done.err


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("folder", None, "is a folder"),
        ("binary", b"\xff\x00\x80", "is not TOML"),
        ("far", b'extends = "elsewhere.toml"', "elsewhere.toml"),
        ("odd", b"extends = 3", "expected the path"),
        ("empty", b"", "has no [stages]"),
        ("none", ..., "no such file"),
    ],
)
def test_what_is_no_recipe_is_refused(tmp_path, run, name, content, expected):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    elif content is not ...:
        path.write_bytes(content)
    done = run("plan", path)
    assert (done.code, done.out) == (65, "")
    assert expected in done.err and name in done.err


def test_recipes_extend_one_another_in_a_chain(recipe, plan):
    recipe(AVERAGING, "a.toml")
    recipe('extends = "a.toml"\n[settings]\nrounds = 1\nclients = 4', "b.toml")
    steps = plan(recipe('extends = "b.toml"\n[settings]\nclients = 2', "c.toml"))
    assert [s["clients"] for s in steps if s["stage"] == "train"] == [[0], [1]]
    recipe('extends = "c.toml"', "a.toml")


def test_a_recipe_that_extends_itself_is_refused(recipe, run):
    done = run("plan", recipe('extends = "recipe.toml"\n' + AVERAGING))
    assert done.code == 65 and "extends itself" in done.err


def test_only_a_plan_is_replaced(recipe, run):
    Path("Makefile").write_text("all:\n\techo mine\n")
    for output in ("Makefile", "recipe.toml"):
        before = Path(recipe() if output == "recipe.toml" else output).read_text()
        done = run("plan", recipe(), "-o", output)
        assert done.code == 2 and output in done.err
        assert Path(output).read_text() == before and not Path("exp").exists()
    for form in ("make", "sh", "dot", "json"):
        for _ in range(2):
            assert run("plan", recipe(), "--as", form, "-o", "run.x").code == 0


def test_a_plan_that_cannot_be_written_changes_nothing(recipe, run):
    Path("file").write_text("")
    done = run("plan", recipe(), "-o", "file/run.mk")
    assert done.code == 74 and "file/run.mk" in done.err
    assert not Path("exp").exists()
    done = run("plan", recipe(), "out=file", "-o", "run.mk")
    assert done.code == 74 and "file/plan" in done.err


def test_no_round_is_the_untrained_network(recipe, plan):
    assert titles(plan(recipe(), "rounds=0")) == [
        ("partition", None, ()),
        ("init", 0, ()),
        ("knn", 0, ()),
    ]


def test_one_client_of_many_is_drawn(recipe, plan):
    steps = plan(recipe(), "clients=50", "fraction=1e-9", "rounds=3")
    assert [len(s["clients"]) for s in steps if s["stage"] == "train"] == [1, 1, 1]


@pytest.mark.parametrize("rounding", ["nearest", "down"])
def test_a_fraction_may_be_a_quotient_of_settings(recipe, plan, rounding):
    text = AVERAGING.replace("rounds = 2", 'rounds = 2\nfraction = "4/{clients}"')
    steps = plan(recipe(text), "clients=30", f"rounding={rounding}")
    same = plan(recipe(), "clients=30", "fraction=0.1334", f"rounding={rounding}")
    drawn = [s["clients"] for s in steps if s["stage"] == "train"]
    assert len(drawn) == 2 * 4
    assert drawn == [s["clients"] for s in same if s["stage"] == "train"]


def test_a_switch_is_on_or_off(recipe, plan):
    path = recipe()
    for word in ("yes", "true"):
        assert "--download" in commands(plan(path, f"download={word}"), "train")[0]
    for word in ("no", "false", ""):
        assert "--download" not in commands(plan(path, f"download={word}"), "train")[0]


def test_the_graph_has_every_file_and_step(recipe, run, plan):
    steps = plan(recipe(), "rounds=1")
    dot = run("plan", "recipe.toml", "rounds=1", "--as", "dot", "--dry-run").out
    assert dot.startswith("digraph") and dot.rstrip().endswith("}")
    for step in steps:
        for path in step["writes"]:
            assert f'-> "{path}"' in dot


def test_many_runs_and_long_values_keep_messages_short(recipe, run):
    seeds, out = "seed=0,1,2,3,4,5,6,7", "out=exp/{seed}"
    first = run("plan", recipe(), seeds, out, "-o", "run.mk")
    assert first.out.endswith(", exp/5 and 2 more\n")
    other = run(
        "plan", "recipe.toml", "seed=0", out, f"data={'x/' * 150}y", "-o", "run.mk"
    )
    assert "knn changes: --data; what" in other.err


def aged(path):
    """Date a file back: some file systems count times in seconds; return the time."""
    os.utime(path, (10**9, 10**9))
    return path.stat().st_mtime_ns


def test_a_plan_notes_the_settings_and_says_what_changes(recipe, run):
    first = run("plan", recipe(), "train=--epochs 2", "-o", "run.mk")
    assert first.code == 0 and "stale" not in first.err
    (record,) = Path("exp/plan").glob("train-*.txt")
    noted = aged(record)
    again = run("plan", "recipe.toml", "train=--epochs 2", "rounds=5", "-o", "run.mk")
    assert "stale" not in again.err
    assert record.stat().st_mtime_ns == noted
    other = run("plan", "recipe.toml", "train=--epochs 5", "-o", "run.mk")
    assert "train changes: --epochs 2 -> 5" in other.err
    # The old one is gone, so that the rules that depend on it do not run.
    (new,) = Path("exp/plan").glob("train-*.txt")
    assert new != record and new.stat().st_mtime_ns > noted


def test_a_strict_plan_does_not_make_a_run_stale(recipe, run, snapshot):
    assert run("plan", recipe(), "train=--epochs 2", "-o", "run.mk").code == 0
    before = snapshot(Path())
    other = ("plan", "recipe.toml", "train=--epochs 5", "-o", "run.mk", "--strict")
    assert run(*other).code == 65
    after = snapshot(Path())
    assert {k: after[k] for k in before} == before
    assert all(".lock" in name for name in after.keys() - before)


def test_a_stage_that_was_left_out_comes_back_up_to_date(recipe, run):
    text = AVERAGING.replace("[settings]", "[settings]\nvoters = 7")
    text = text.replace("evaluate knn", "evaluate knn --k {voters}")
    assert run("plan", recipe(text), "-o", "run.mk").code == 0
    (record,) = Path("exp/plan").glob("knn-*.txt")
    noted = aged(record)
    for voters in ("", "7"):
        assert run("plan", "recipe.toml", f"voters={voters}", "-o", "run.mk").code == 0
    assert record.stat().st_mtime_ns == noted


def test_a_changed_preset_is_a_changed_stage(recipe, run):
    Path("mine.toml").write_text('extends = "digits"\n')
    assert run("plan", recipe(), "preset=mine.toml", "-o", "run.mk").code == 0
    Path("mine.toml").write_text('extends = "digits"\n[local-train]\nepochs = 9\n')
    done = run("plan", "recipe.toml", "preset=mine.toml", "-o", "run.mk")
    assert "train changes: preset's epochs 5 -> 9" in done.err
    assert "partition changes" not in done.err


# --- inputs that are not there --------------------------------------------------------------


def test_missing_images_and_test_splits_are_reported(recipe, run):
    path = recipe()
    done = run("plan", path, "data=none.npz", "--dry-run")
    assert done.code == 0 and done.err.count("--data none.npz: ") == 1
    assert "none.npz: no such" in done.err
    done = run("plan", path, "data=none.npz", "--strict", "-o", "run.mk")
    assert done.code == 65 and "none.npz" in done.err and not Path("run.mk").exists()
    Path("there.npz").write_text("")
    done = run("plan", path, "data=there.npz", "--dry-run")
    assert "recipe.toml: --data there.npz: has no test split" in done.err
    assert "no such" not in done.err
    assert run("plan", path, "data=there.npz", "--strict", "-o", "run.mk").code == 65
    done = run("plan", path, "data=there.npz", "knn=--test-data digits", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert run("plan", path, "--strict", "-o", "run.mk").code == 0
    Path("idx").mkdir()
    for split in ("train", "t10k"):
        for name in ("images-idx3", "labels-idx1"):
            Path(f"idx/{split}-{name}-ubyte").write_bytes(b"")
    assert run("plan", path, "data=idx", "--strict", "--dry-run", "out=i").code == 0


def test_domains_of_a_dataset_without_domains_are_refused(recipe, run):
    done = run("plan", recipe(), "partition=--scheme domains")
    assert (done.code, done.out) == (65, "")
    assert "[stages] partition" in done.err and "domains" in done.err
    fedstyle = ROOT / "examples/fedstyle/recipe.toml"
    done = run("plan", fedstyle, "data=digits", "test=digits", "--dry-run")
    assert done.code == 65 and "digits has none" in done.err


def test_a_schedule_that_ends_before_the_run_is_refused(recipe, run):
    fcl = ROOT / "examples/fcl/recipe.toml"
    done = run("plan", fcl, "data=digits", "rounds=101", "--dry-run")
    assert (done.code, done.out) == (65, "")
    assert "--schedule-rounds 100" in done.err and "101 rounds" in done.err
    longer = ("rounds=101", "train=--schedule-rounds 101", "--dry-run")
    assert run("plan", fcl, "data=digits", *longer).code == 0
    assert run("plan", fcl, "data=digits", "rounds=100", "--dry-run").code == 0


def test_the_right_form_of_a_setting_is_suggested(recipe, run):
    path = recipe()
    done = run("plan", path, "epochs=2")
    assert done.code == 2 and "write train='--epochs 2'" in done.err
    done = run("plan", path, "batch_size=32")
    assert done.code == 2 and "write train='--batch-size 32'" in done.err
    done = run("plan", path, "--rounds", 2)
    assert done.code == 2 and "rounds=VALUE" in done.err


def test_every_change_of_a_stage_has_words(recipe, run):
    words = [
        "--k 5 --k 3",
        "--k 3 --k 5",
        "--k 3 --k 5 --temperature 0.2",
        "--k 9 --k 5",
    ]
    assert run("plan", recipe(), "-o", "run.mk").code == 0
    for options in words:
        done = run("plan", "recipe.toml", f"knn={options}", "-o", "run.mk")
        assert done.code == 0 and "knn changes: " in done.err
        assert "changes: ;" not in done.err


@pytest.mark.parametrize(
    ("train", "average", "words"),
    [
        (
            "--update astw --cycle 3 --exchanges 1",
            "--rule fedadam",
            ("astw", "fedadam"),
        ),
        ("--update astw --cycle 3 --exchanges 1", "--rule l-dawa", ("astw", "l-dawa")),
        ("--scaffold", "--rule clip --clip 1", ("--scaffold", "--rule clip")),
    ],
)
def test_a_rule_that_cannot_combine_the_uploads_is_refused(run, train, average, words):
    """Before any training: the first exchange of all parts would end the run."""
    recipe = ROOT / "examples/fedsimclr/recipe.toml"
    given = ("data=digits", f"train={train}", f"average={average}", "--dry-run")
    done = run("plan", recipe, *given)
    assert (done.code, done.out) == (65, "")
    assert "[stages] average" in done.err and all(word in done.err for word in words)


@pytest.mark.parametrize(
    ("train", "average"),
    [
        ("--update astw --cycle 3 --exchanges 1", "--rule median"),
        ("--update astw --cycle 3 --exchanges 3", "--rule fedadam"),
        ("--update fedu", "--rule fedadam"),
    ],
)
def test_rules_that_combine_the_uploads_are_planned(run, train, average):
    recipe = ROOT / "examples/fedsimclr/recipe.toml"
    preset = ("preset=fedbyol",) if "fedu" in train else ()
    given = ("data=digits", f"train={train}", f"average={average}", "--dry-run")
    done = run("plan", recipe, *preset, *given)
    assert done.code == 0, done.err


def test_more_images_than_the_dataset_has_are_refused(run):
    recipe = ROOT / "examples/fedca/recipe.toml"
    done = run("plan", recipe, "data=digits", "public=digits", "--dry-run")
    assert (done.code, done.out) == (65, "")
    assert "--images 3200: digits has 1,438" in done.err
    few = ("align=--images 300", "--dry-run")
    assert run("plan", recipe, "data=digits", "public=digits", *few).code == 0
