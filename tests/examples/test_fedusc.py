"""examples/fedusc: recipes, tables, pages, and a small run of the phases."""

import csv
import json
import re
import tomllib
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.metrics import write_metrics
from furlkit.files.neighbours import read_neighbours
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.training import loop
from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values
from tests.helpers import furlkit, tensor_bytes

FEDUSC = EXAMPLES / "fedusc"
PRETEXTS = (
    "pretext", "pretext_crop", "pretext_cutout", "pretext_rotation",
    "pretext_instance", "pretext_central", "pretext_small", "fedsimclr", "fedu",
)  # fmt: skip
CLUSTERINGS = {
    "fedusc": "pretext", "no_labelling": "pretext", "small": "pretext_small",
    "no_clustering": "pretext", "crop": "pretext_crop",
    "cutout": "pretext_cutout", "rotation": "pretext_rotation",
    "instance": "pretext_instance", "replace": "pretext", "fedprox": "pretext",
    "astw": "pretext", "fedema": "pretext", "scan": "pretext_central",
    "sum": "pretext",
}  # fmt: skip
LABELLED = ("fedavg", "fedmatch", "dsfl")
DATASETS = ("cifar10", "digits", "images")
OTHERS = ("svhn", "stl10", "mini-imagenet", "covid-xray")  # They differ by name alone.
SPLITS = ("uniform", "unbalanced", "dirichlet100", "dirichlet1")
TABLES = ("experiment", "claims", "headline", "datasets", "augmentation", "pretext",
          "update", "parts", "clients", "readings")  # fmt: skip


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_three_phases(plan):
    steps = plan(FEDUSC / "recipe.toml")
    assert len(of(steps, "learn")) == 100 * 4 and len(of(steps, "train")) == 50 * 4
    assert [s["round"] for s in of(steps, "label")] == [10, 20, 30, 40, 50]
    assert [s["round"] for s in of(steps, "cluster")] == [10, 20, 30, 40, 50]
    (heads,) = of(steps, "heads")
    assert values(heads["command"], "--from") == ["exp/pretext/r100/global.safetensors"]
    for step in of(steps, "train"):
        name = "labelled" if step["round"] % 10 == 1 and step["round"] > 1 else "global"
        assert f"exp/r{step['round'] - 1:03}/{name}.safetensors" in step["command"]
    for stage, preset in {"learn": "fedusc-pretext", "train": "fedusc"}.items():
        assert values(of(steps, stage)[0]["command"], "--preset") == [preset]


def test_a_client_continues_from_the_private_file_of_its_last_round(plan):
    last: dict[int, str] = {}
    for step in of(plan(FEDUSC / "recipe.toml", "rounds=9"), "train"):
        (client,) = step["clients"]
        given = values(step["command"], "--private")
        assert given == ([last[client]] if client in last else [])
        (last[client],) = values(step["command"], "--private-out")
    assert len(last) > 5


def test_the_slides_literal_numbers_are_a_preset(plan):
    steps = plan(FEDUSC / "recipe.toml", "preset=fedusc-slides")
    assert len(of(steps, "learn")) == len(of(steps, "train")) == 800
    preset = values(of(steps, "learn")[0]["command"], "--preset")
    assert preset == ["fedusc-slides-pretext"]


def test_the_preset_may_be_a_file_of_one_s_own(plan, tmp_path):
    own = tmp_path / "my.toml"
    own.write_text('extends = "fedusc"\n[local-train]\nlr = 1e-3\n')
    steps = plan(FEDUSC / "recipe.toml", f"preset={own}", "rounds=1")
    found = {
        s: values(of(steps, s)[0]["command"], "--preset") for s in ("learn", "train")
    }
    assert found == {"learn": ["fedusc-pretext"], "train": [str(own)]}


def test_every_client_mines_after_phase_1_whenever_it_takes_part_first(plan):
    steps = plan(FEDUSC / "recipe.toml", "rounds=9", "pretext_rounds=3")
    mined = {step["clients"][0]: step for step in of(steps, "mine")}
    assert [*mined] == [*range(10)]
    for step in mined.values():
        assert "exp/pretext/r003/global.safetensors" in step["reads"]
    for step in of(steps, "train"):
        (client,) = step["clients"]
        assert values(step["command"], "--neighbours-from") == mined[client]["outputs"]
    steps = plan(FEDUSC / "recipe.toml", "rounds=1", "mined=no", "train=--mine-every 5")
    assert not of(steps, "mine")
    assert "--neighbours-from" not in of(steps, "train")[0]["command"]


def test_joint_rounds_train_both_and_upload_once(plan):
    """One loop of 200 rounds; the clustering continues from the pretext epochs."""
    assert len((FEDUSC / "joint.toml").read_text().splitlines()) <= 25
    steps = plan(FEDUSC / "joint.toml", "rounds=3")
    for learn, train in zip(of(steps, "learn"), of(steps, "train"), strict=True):
        (client,), number = learn["clients"], learn["round"]
        folder = f"exp/r{number:03}"
        before = "global" if number == 1 else "labelled"
        start = f"exp/r{number - 1:03}/{before}.safetensors"
        assert (train["clients"], train["round"]) == ([client], number)
        assert start in learn["command"] and learn["outputs"][0] in train["command"]
        assert values(learn["command"], "--update") == ["dum"]
        assert values(train["command"], "--update") == ["continue"]
        assert train["outputs"] == [f"{folder}/client_{client}.safetensors"]
        presets = (values(s["command"], "--preset") for s in (learn, train))
        assert [*presets] == [["fedusc-slides-pretext"], ["fedusc-slides"]]
    assert [step["round"] for step in of(steps, "label")] == [1, 2, 3]
    for step in of(steps, "average"):
        uploads = {*step["reads"]} - {*values(step["command"], "--parent")}
        assert len(uploads) == 4 and all("client_" in path for path in uploads)
    assert len(of(plan(FEDUSC / "joint.toml"), "average")) == 200


def test_the_row_joint_is_joint_toml_with_the_settings_of_phases(plan):
    recipe = plan(FEDUSC / "joint.toml", "seed=3", "rounds=2")
    words = ("seed=3", "rounds=2", "every=1", "row=joint", "out=exp")
    steps = plan(FEDUSC / "paper.toml", *words)
    stages = [step["stage"] for step in steps]
    assert stages == [step["stage"] for step in recipe]
    for ours, theirs in zip(steps, recipe, strict=True):
        assert ours["reads"] == theirs["reads"]
    learn, train = (of(steps, s)[0]["command"] for s in ("learn", "train"))
    assert values(learn, "--update") == ["dum"]
    assert values(train, "--update") == ["continue"]
    digits = plan(FEDUSC / "paper.toml", *words, "dataset=digits")
    assert values(of(digits, "init")[0]["command"], "--heads") == ["5"]


@pytest.mark.parametrize("dataset", ["digits", "images"])
def test_the_sum_over_neighbours_differs_in_nothing_else(plan, dataset):
    words = (f"dataset={dataset}", "rounds=2", "out=exp")
    one, every = (
        plan(FEDUSC / "paper.toml", *words, f"row={r}") for r in ("fedusc", "sum")
    )
    for ours, theirs in zip(every, one, strict=True):
        if ours["stage"] == "train":
            ours["command"].remove("--nearest-used")
            ours["command"].remove("all")
        assert sorted(ours["command"]) == sorted(theirs["command"])


def test_the_phases_of_the_row_fedusc_are_those_of_the_recipe(plan):
    recipe = plan(FEDUSC / "recipe.toml", "seed=3")
    for row, stages in {
        "pretext": ("learn", "gather"),
        "fedusc": ("train", "average", "label"),
    }.items():
        steps = plan(FEDUSC / "paper.toml", "seed=3", f"row={row}", "out=exp")
        for stage in stages:
            found, expected = of(steps, stage), of(recipe, stage)
            assert len(found) == len(expected)
            for ours, theirs in zip(found, expected, strict=True):
                # The row repeats values of the preset.
                assert set(theirs["command"]) <= set(ours["command"])
                assert ours["reads"] == theirs["reads"]


@pytest.mark.parametrize("row", PRETEXTS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_pretext_is_planned_and_scored_by_k_means(plan, row, dataset):
    words = (f"row={row}", f"dataset={dataset}", "pretext_rounds=2", "rounds=2")
    steps = plan(FEDUSC / "paper.toml", *words, "out=exp")
    clients = 1 if row == "pretext_central" else 4
    assert len(of(steps, "learn")) == 2 * clients
    assert not {"train", "label", "average", "heads"} & {s["stage"] for s in steps}
    for stage, number in {"untrained": 0, "kmeans": 2}.items():
        (step,) = of(steps, stage)
        assert f"exp/pretext/r{number:03}/global.safetensors" in step["reads"]
        assert values(step["command"], "--kmeans") == ["10"]


@pytest.mark.parametrize("row", CLUSTERINGS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_clustering_starts_from_its_pretext(plan, row, dataset):
    words = (f"row={row}", f"dataset={dataset}", "rounds=10", "every=5", "runs=all")
    steps = plan(FEDUSC / "paper.toml", *words, "pretext_rounds=7", "seed=4", "out=exp")
    (heads,) = of(steps, "heads")
    learnt = f"all/{CLUSTERINGS[row]}/seed4/pretext/r007/global.safetensors"
    assert heads["reads"] == [learnt]
    clients = 1 if row in ("scan", "no_clustering") else 4  # Or the server alone.
    assert len(of(steps, "train")) == 10 * clients
    assert all(learnt in step["reads"] for step in of(steps, "mine"))
    labelled = [] if row in ("no_labelling", "small") else [5, 10]
    assert [s["round"] for s in of(steps, "label")] == labelled
    (final,) = of(steps, "cluster")
    name = "labelled" if labelled else "global"
    assert final["reads"] == [f"exp/r010/{name}.safetensors"]
    updates = {"replace": "replace", "fedprox": "replace", "astw": "astw",
               "fedema": "fedema", "no_clustering": "replace"}  # fmt: skip
    for step in of(steps, "train"):
        own = [updates[row]] if row in updates else []
        assert values(step["command"], "--update") == own


def test_without_clustering_the_server_clusters_and_labels_its_own_images(plan):
    words = ("row=no_clustering", "rounds=2", "every=1", "pretext_rounds=1")
    steps = plan(FEDUSC / "paper.toml", *words)
    assert [step["round"] for step in of(steps, "label")] == [1, 2]
    (mined,) = of(steps, "mine")
    assert values(mined["command"], "--part") == ["public"]
    assert len(of(steps, "train")) == 2
    for step in of(steps, "train"):
        assert values(step["command"], "--client") == ["public"]
        assert values(step["command"], "--neighbours-from") == mined["outputs"]


@pytest.mark.parametrize("dataset", DATASETS)
def test_rows_have_the_networks_of_the_slides(plan, dataset):
    found = {}
    for row in ("pretext", "pretext_small", "small", "dsfl", "fedmatch"):
        words = (f"row={row}", f"dataset={dataset}", "rounds=1", "pretext_rounds=1")
        first = next(s for s in plan(FEDUSC / "paper.toml", *words)
                     if s["stage"] in ("init", "heads"))["command"]  # fmt: skip
        found[row] = values(first, "--encoder") + values(first, "--width")
    if dataset == "cifar10":
        slides = [["resnet50"], ["resnet18"], ["resnet18"], ["torchvision:vgg16"],
                  ["resnet50"]]  # fmt: skip
        assert [*found.values()] == slides
    else:
        assert {encoder for encoder, _ in found.values()} == {"cnn5"}
        assert found["small"] == found["pretext_small"] != found["pretext"]


@pytest.mark.parametrize("dataset", OTHERS)
def test_other_datasets_differ_by_name_and_number_of_classes(plan, dataset):
    words = (f"dataset={dataset}", "rounds=1", "pretext_rounds=1", "split=dirichlet")
    (heads,) = of(plan(FEDUSC / "paper.toml", *words), "heads")
    assert values(heads["command"], "--data") == [dataset]
    classes = {"mini-imagenet": "100", "covid-xray": "4"}.get(dataset, "10")
    assert values(heads["command"], "--clusters") == [classes]
    for words in (("row=fedmatch",), ("row=fedsimclr", "pretext_rounds=1")):
        assert plan(FEDUSC / "paper.toml", f"dataset={dataset}", *words)


@pytest.mark.parametrize("dataset", DATASETS)
def test_with_astw_the_server_labels_where_all_parts_travel(plan, dataset):
    words = ("row=astw", f"dataset={dataset}", "pretext_rounds=1")
    steps = plan(FEDUSC / "paper.toml", *words)
    command = of(steps, "train")[0]["command"]
    cycle, last = (int(values(command, f)[0]) for f in ("--cycle", "--exchanges"))
    rounds = [step["round"] for step in of(steps, "label")]
    assert rounds and last < cycle
    assert all((number - 1) % cycle >= cycle - last for number in rounds)


@pytest.mark.parametrize("row", LABELLED)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_baseline_with_labels_is_planned(plan, row, dataset):
    words = (f"row={row}", f"dataset={dataset}", "rounds=2")
    steps = plan(FEDUSC / "paper.toml", *words, "out=exp")
    assert len(of(steps, "train")) == 8
    assert [s["round"] for s in of(steps, "label")] == [0, 1, 2] * (row == "fedmatch")
    (step,) = of(steps, "classifier")
    name = "labelled" if row == "fedmatch" else "global"
    assert step["reads"] == [f"exp/r002/{name}.safetensors"]


@pytest.mark.parametrize("split", [*SPLITS, "dirichlet"])
def test_all_rows_of_a_seed_have_the_same_partition(plan, run, tmp_path, split):
    found = {}
    for row in ("pretext", "fedusc", "fedmatch"):
        words = (f"row={row}", "dataset=digits", f"split={split}")
        steps = plan(FEDUSC / "paper.toml", *words, f"out={tmp_path / row}")
        (step,) = of(steps, "partition")
        assert run(*step["command"], "-q").code == 0
        found[row] = Path(step["outputs"][0]).read_bytes()
    assert len(set(found.values())) == 1
    sizes = read_partition(tmp_path / "fedusc/partition.safetensors").histogram.sum(1)
    # The parts of `unbalanced` decrease by gamma, but for the even share.
    even = np.ptp(sizes) <= 1
    assert len(sizes) == 10 and even == (split == "uniform")


# --- the tables and the page ----------------------------------------------------------


@pytest.mark.slow
@needs_make
def test_every_command_of_the_page_is_accepted(recorded, check_all):
    commands = [c for block in blocks(FEDUSC / "README.md") for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) >= 10
    check_all(commands)


def test_the_page_plans_every_table():
    page = " ".join(blocks(FEDUSC / "README.md"))
    planned = {name for words in re.findall(r"table=(\S+)", page)
               for name in words.split(",")}  # fmt: skip
    assert planned == {*TABLES}


SHORT = ("dataset=digits", "seed=4", "rounds=1", "pretext_rounds=1")


def shown(steps: list[dict]) -> list[list[str]]:
    """Commands that compare or draw runs."""
    commands = (step["command"] for step in steps)
    return [words for words in commands if words[0] in ("compare", "plot")]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_plans_the_phase_1_of_its_rows(plan, table):
    split = "dirichlet" if table == "datasets" else "dirichlet1"
    steps = plan(FEDUSC / "paper.toml", *SHORT, f"table={table}", f"split={split}")
    made = {path for step in steps for path in step["writes"]}
    assert {path for step in steps for path in step["reads"]} <= made
    drawn = {"clients": 4, "experiment": 2, "readings": 2}
    assert len(shown(steps)) == drawn.get(table, 1)
    for command in shown(steps):
        series = values(command, "--series")
        assert len(series) >= 3
        assert all(f"/{split}-" in text and "/seed4/" in text for text in series)


def test_four_clients_take_part_for_every_number_of_clients(plan):
    words = (*SHORT, "table=clients", "clients=10,50")
    steps = plan(FEDUSC / "paper.toml", *words)
    rows = ("pretext", "fedsimclr", "fedmatch", "fedusc")
    for number, row in product((10, 50), rows):
        folder = f"exp/digits/unbalanced-{number}/{row}/seed4/"
        named = (step for step in steps if step["outputs"][0].startswith(folder))
        trained = [s for s in named if s["stage"] in ("train", "learn")]
        assert len(trained) == 4, folder
    *tables, picture = shown(steps)
    titles = [values(command, "--title")[0].split()[0] for command in tables]
    assert titles == ["10", "50"]
    labels = [text.partition("=")[0] for text in values(picture, "--series")]
    names = ("FedSimCLR", "FedMatch", "FedUSC")
    assert labels == [f"{name}:{number}" for name in names for number in (10, 50)]


def test_a_table_has_the_slides_numbers_beside_ours(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("table=augmentation", "rounds=1", "pretext_rounds=1", "seed=0")
    (command,) = shown(plan(FEDUSC / "paper.toml", *words))
    for row, accuracy in {"crop": 0.6, "cutout": 0.61, "fedusc": 0.63}.items():
        folder = Path(f"exp/cifar10/unbalanced-10/{row}/seed0")
        folder.mkdir(parents=True)
        facts = {"round": 50, "role": "global"}
        document = {"protocol": "cluster", "accuracy": accuracy, "seed": 0}
        document["checkpoint"] = {"seed": None, "facts": facts}
        write_metrics(folder / "cluster.json", document)
    _, title, head, *rows = run(*command).out.splitlines()
    assert "ablation" in title and "published" in head
    numbers = ("65.16", "66.74", "68.35")
    assert all(n in line for n, line in zip(numbers, rows[:3], strict=True))


def test_the_slides_numbers_are_all_there_and_the_claims_are_theirs():
    with open(FEDUSC / "paper.csv", newline="") as file:
        found = {tuple(row[:-1]): float(row[-1]) for row in [*csv.reader(file)][1:]}
    assert len(found) == 2 + 6 * 4 + 4 + 3 + 3 + 5 + 8 + 36
    # Differences of the slides' columns, by hand.
    for dataset, ahead in {"svhn": 8.44, "stl10": 5.15, "mini-imagenet": 8.41,
                           "covid-xray": 9.5}.items():  # fmt: skip
        ours, theirs = (found["datasets", dataset, "dirichlet", method]
                        for method in ("FedUSC", "FedSimCLR"))  # fmt: skip
        assert ours - theirs == pytest.approx(ahead)
    tables = {
        "FedSimCLR + k-means": ("headline", "unbalanced", "FedSimCLR"),
        "without self-labelling": ("headline", "unbalanced", "without self-labelling"),
        "without clustering": ("parts", "dirichlet100", "without clustering"),
        "without RandAugment": ("parts", "dirichlet100", "without RandAugment"),
        "without DUM": ("update", "unbalanced", "FedAvg"),
        "SCAN (centralised)": ("headline", "uniform", "SCAN (centralised)"),
    }
    claims = tomllib.loads((FEDUSC / "paper.toml").read_text())["claims"]
    assert len(claims) == len(tables)
    for claim in claims.values():
        (other,) = {claim["higher"], claim["lower"]} - {"FedUSC"}
        table, split, method = tables[other]
        whole = "DUM" if table == "update" else "FedUSC"
        ours, theirs = (found[table, "cifar10", split, m] for m in (whole, method))
        sign = 1 if claim["higher"] == "FedUSC" else -1
        assert claim["paper"] == pytest.approx(sign * (ours - theirs))


def test_every_number_of_the_slides_is_beside_one_of_ours(plan):
    """Each line of paper.csv is an option of some table's comparison."""
    words = ("table=headline,augmentation,pretext,update,parts", "dataset=cifar10")
    calls = [words, *(("table=datasets", f"dataset={name}") for name in OTHERS)]
    steps = [s for c in calls for s in plan(FEDUSC / "paper.toml", *c, *SHORT[1:])]
    used = [value for c in shown(steps) for value in values(c, "--published")]
    with open(FEDUSC / "paper.csv", newline="") as file:
        lines = [*csv.reader(file)][1:]
    assert sorted(used) == sorted(f"{method}={value}" for *_, method, value in lines)


@pytest.mark.parametrize("group, named", [(1, "near_2.st"), (4, "near_{client}.st")])
def test_a_file_of_each_client_may_be_given_by_hand(plan, group, named):
    words = ("dataset=digits", "row=no_labelling", "rounds=1", "--group", group)
    given = ("mined=no", "train=--neighbours-from near_{client}.st")
    first, *_ = of(plan(FEDUSC / "paper.toml", *words, *given), "train")
    assert first["clients"][0] == 2
    assert values(first["command"], "--neighbours-from") == [named]


# --- neighbours that labels choose ----------------------------------------------------


SCRIPT = """import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_neighbours_that_labels_choose_are_of_the_same_class(run, python, tmp_path):
    model, near, same = (tmp_path / f"{name}.safetensors" for name in "gns")
    words = ("--encoder", "cnn5", "--width", 0.02, "--data", "digits")
    assert furlkit("init", *words, "-q", "-o", model) == 0
    words = ("neighbours", model, "--data", "digits", "--nearest", 7)
    assert furlkit(*words, "-q", "-o", near) == 0
    python(SCRIPT, FEDUSC / "same_class.py", near, "digits", same)
    found, before = read_neighbours(same), read_neighbours(near)
    assert found.nearest.shape == before.nearest.shape and found.facts == before.facts
    words = ("evaluate", "neighbours", same, "--data", "digits", "-o", tmp_path / "x")
    assert "100.0%" in run(*words).out


# --- a small run ----------------------------------------------------------------------

NET = "--encoder cnn5 --width 0.02 --projector 16,8"
VIEWS = "--epochs 1 --batch-size 64 --flip 0 --randaugment 1,5"
SMALL = (
    "clients=3", "fraction=0.67", "pretext_rounds=1", "rounds=2", "every=1", "clusters=5",
    f"init={NET}", f"heads={NET} --heads 2", f"learn={VIEWS}",
    f"train={VIEWS} --cutout 3 --mu 0",
    f"label={VIEWS} --cutout 3 --confidence 0.25 --lr 1e-3",
)  # fmt: skip


def carry_out(plan, run, folder, data):
    """All steps of a small run, but for scores where there are no labels."""
    for step in plan(FEDUSC / "recipe.toml", f"data={data}", f"out={folder}", *SMALL):
        if step["stage"] != "cluster" or data == "digits":
            done = run(*step["command"], "-q")
            assert done.code == 0, done.err
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of the run, which the first test that needs it makes."""
    return tmp_path_factory.mktemp("fedusc") / "exp"


@pytest.fixture
def small(kept, plan, run):
    return kept if kept.exists() else carry_out(plan, run, kept, "digits")


def test_three_phases_end_in_clusters_that_are_scored(small):
    metrics = json.loads((small / "r002" / "cluster.json").read_text())
    assert metrics["protocol"] == "cluster" and 0 < metrics["accuracy"] < 1
    final = read_checkpoint(small / "r002" / "labelled.safetensors")
    average = read_checkpoint(small / "r002" / "global.safetensors")
    assert final.facts.cluster_head == average.facts.cluster_head in (0, 1)
    assert not np.array_equal(
        final.tensors["encoder.fc.bias"], average.tensors["encoder.fc.bias"]
    )


def test_clients_continue_from_what_the_server_labelled_and_what_they_kept(small):
    labelled = read_checkpoint(small / "r001" / "labelled.safetensors")
    rounds = [
        {int(path.stem[-1]) for path in (small / name).glob("client_*.safetensors")}
        for name in ("r001", "r002")
    ]
    both = rounds[0] & rounds[1]
    assert both and all(len(found) == 2 for found in rounds)
    for client in rounds[1]:
        upload = read_checkpoint(small / "r002" / f"client_{client}.safetensors")
        assert upload.facts.parent == labelled.content


def test_a_client_that_comes_late_has_the_neighbours_of_the_phase_1_model(
    small, tmp_path
):
    """By the encoder and projector at the end of phase 1, not by those of its round."""
    first = {path.stem[-1] for path in (small / "r001").glob("client_*.safetensors")}
    second = {path.stem[-1] for path in (small / "r002").glob("client_*.safetensors")}
    (late,) = second - first
    private = read_private(small / "r002" / f"private_{late}.safetensors", int(late))
    found = {}
    for name in ("pretext/r001/global", "r001/labelled"):
        words = ("neighbours", small / f"{name}.safetensors", "--data", "digits")
        words += ("--partition", small / "partition.safetensors", "--part", late)
        assert furlkit(*words, "-q", "-o", tmp_path / "near.safetensors") == 0
        found[name] = read_neighbours(tmp_path / "near.safetensors").nearest
        (tmp_path / "near.safetensors").unlink()
    kept = private.memory["neighbours.nearest"]
    assert np.array_equal(kept, found["pretext/r001/global"])
    assert not np.array_equal(kept, found["r001/labelled"])


def test_no_label_is_read_in_any_phase(small, plan, run, tmp_path):
    data = tmp_path / "packed.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-q", "-o", data) == 0
    folder = carry_out(plan, run, tmp_path / "exp", data)
    names = {
        str(path.relative_to(small))
        for path in small.rglob("*.safetensors") if path.parent != small
    }  # fmt: skip
    assert len(names) == (1 + 2 + 1) + 3 + 1 + 2 * (2 + 2 + 1 + 1)
    for name in names:
        assert tensor_bytes(folder / name) == tensor_bytes(small / name), name


def test_a_run_stopped_in_any_phase_ends_with_the_same_bytes(
    small, plan, run, tmp_path, until_done
):
    """Trainings of the first round of each phase, killed before every step."""
    folder = tmp_path / "exp"
    for step in plan(FEDUSC / "recipe.toml", "data=digits", f"out={folder}", *SMALL):
        if step["trains"] and step["round"] == 1:
            words = (*step["command"], "-q", "--save-every", 0)
            assert until_done(loop.Trainer, "step", *words) > 1
        else:
            assert run(*step["command"], "-q").code == 0
    for name in ("r001/labelled", "r002/labelled", "pretext/r001/global"):
        path = f"{name}.safetensors"
        assert (folder / path).read_bytes() == (small / path).read_bytes()
