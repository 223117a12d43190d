"""examples/fedca: every command of its recipes, its Makefile and its pages."""

import csv
import re
import shlex
import tomllib
from glob import glob
from pathlib import Path

import pytest

from furlkit.files.container.read import Container
from furlkit.files.metrics import write_metrics
from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values

FEDCA = EXAMPLES / "fedca"
ROWS = ("fedae", "fedpr", "fedsimclr", "align", "dictionary", "ensemble", "fedca")
# The open readings, and what distinguishes their local-train.
OWN, FROM_GLOBAL = ("--dictionary-positive", "own"), ("--dictionary-from", "global")
READINGS = {
    "oneway": ("--form", "oneway"),
    "from_global": FROM_GLOBAL,
    "own_client": OWN,
    "own_global": (*FROM_GLOBAL, *OWN),
    "official": ("--form", "oneway"),
    "official_literal": (),
    "align_mean": ("--form", "oneway", "--align-reduction", "mean", "--beta", "1e-3"),
    "stable": (),
}
DATASETS = ("cifar10", "cifar100", "miniimagenet", "digits", "images")
EVERYTHING = ("semi=yes", "target=cifar10", "figure3=yes", "figure4=yes")


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_25_lines_at_most():
    assert len((FEDCA / "recipe.toml").read_text().splitlines()) <= 25


def test_the_row_fedca_is_the_recipe(plan):
    recipe = plan(FEDCA / "recipe.toml", "seed=3")
    row = plan(FEDCA / "tables.toml", "seed=3")
    row[1]["command"].remove("--encoder")
    row[1]["command"].remove("cnn5")
    assert [sorted(s["command"]) for s in row] == [sorted(s["command"]) for s in recipe]
    assert max(step["round"] or 0 for step in recipe) == 20


def test_fedca_s_files_pass_from_round_to_round(plan):
    steps = plan(FEDCA / "recipe.toml", "fraction=0.6", "rounds=9", "seed=1")
    last: dict[int, int] = {}
    returned = 0
    for step in of(steps, "train"):
        (client,), number, command = step["clients"], step["round"], step["command"]
        kept = last.get(client)
        own = [f"exp/r00{kept}/private_{client}.safetensors"] if kept else []
        assert values(command, "--private") == own
        shared = [f"exp/r00{number - 1}/dictionary.safetensors"] if number > 1 else []
        assert values(command, "--dictionary") == shared
        assert values(command, "--participants") == ["3"]
        assert values(command, "--align") == ["exp/targets.safetensors"]
        returned += kept is not None and kept < number - 1
        last[client] = number
    assert returned, "no client was away for a round: choose another seed"
    (first, *_) = of(steps, "pool")
    clients = [step["clients"][0] for step in of(steps, "train")[:3]]
    assert first["reads"] == [f"exp/r001/features_{c}.safetensors" for c in clients]


def test_a_client_that_comes_back_goes_on_with_its_own_file(plan, run, tmp_path):
    """Clients 0, 1 and 0 again, each on its own in its round."""
    out = tmp_path / "exp"
    words = ("clients=2", "rounds=3", "fraction=0.5", "seed=10", f"out={out}")
    small = ("public=digits", "data=digits", "init=--width 0.02 --projector 8,4",
             "align=--images 60 --epochs 1 --batch-size 30",
             "train=--epochs 1 --batch-size 240 --dictionary-size 64")  # fmt: skip
    for step in plan(FEDCA / "recipe.toml", *words, *small):
        assert run(*step["command"], "-q").code == 0

    def header(name):
        return Container(out / f"{name}.safetensors").header

    came_back, private = header("r003/client_0"), header("r003/private_0")
    assert came_back.inputs["private"] == header("r001/private_0").content
    assert came_back.inputs["dictionary"] == header("r002/dictionary").content
    assert came_back.inputs["targets"] == header("targets").content
    assert private.facts["memory"] == ["averaged_features"]
    assert header("r003/features_0").facts["examples"] == 64
    assert header("r002/dictionary").facts["owners"] == [[1, 64]]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_row_is_planned_on_every_dataset(plan, row, dataset):
    words = (f"row={row}", f"dataset={dataset}", "rounds=2", *EVERYTHING)
    for split in ("iid", "noniid"):
        steps = plan(FEDCA / "tables.toml", *words, f"split={split}")
        partition = of(steps, "partition")[0]["command"]
        each = {"cifar100": "20", "miniimagenet": "20"}.get(dataset, "2")
        noniid = [each] if split == "noniid" else []
        assert values(partition, "--classes-per-client") == noniid
        assert len(of(steps, "align")) == (row in ("align", "fedca"))
        trained = [step["command"] for step in of(steps, "train")]
        assert len(trained) == 10
        shared = row in ("dictionary", "ensemble", "fedca")
        assert all(("--features-out" in words) == shared for words in trained)
        assert any("--dictionary" in words for words in trained) == shared
        averaged = row in ("ensemble", "fedca")
        assert all(("--private-out" in words) == averaged for words in trained)
        assert all(("--align" in words) == (row in ("align", "fedca"))
                   for words in trained)  # fmt: skip
        assert [step["round"] for step in of(steps, "linear")] == [0, 2]
        assert [step["round"] for step in of(steps, "angles")] == [1, 2]
        finetuned = ("semi1", "semi10", "fedavg1", "fedavg10", "transfer", "scratch")
        assert all(len(of(steps, stage)) == 1 for stage in (*finetuned, "embed"))


@pytest.mark.parametrize("row", READINGS)
@pytest.mark.parametrize(
    "dataset, widths",
    [("cifar10", "2048,128"), ("digits", "512,128"), ("images", "256,64")],
)
def test_every_open_reading_is_planned(plan, row, dataset, widths):
    steps = plan(FEDCA / "tables.toml", f"row={row}", f"dataset={dataset}", "rounds=2")
    init = of(steps, "init")[0]["command"]
    assert (values(init, "--projector-norm") == ["all"]) == row.startswith("official")
    assert (values(init, "--projector")[-1:] == [widths]) == row.startswith("official")
    aligned, plain = ("align_mean", "stable"), ("oneway", "official", "align_mean")
    assert len(of(steps, "align")) == (row in aligned)
    for step in of(steps, "train"):
        command, words = step["command"], READINGS[row]
        assert " ".join(words) in " ".join(command)
        assert ("--dictionary-positive" in command) == ("own" in words)
        assert ("--features-out" in command) == (row not in plain)
        kept = row in ("own_client", "official_literal", "stable")
        assert ("--private-out" in command) == kept


def test_test_images_are_those_of_the_test_file(plan):
    steps = plan(FEDCA / "tables.toml", "dataset=images", "rounds=1", *EVERYTHING)
    for stage in ("linear", "semi1", "fedavg10"):
        assert values(of(steps, stage)[0]["command"], "--test-data") == [
            "test.safetensors"
        ]
    for stage in ("embed", "angles"):
        command = of(steps, stage)[0]["command"]
        assert values(command, "--data")[-1] == "test.safetensors"


def test_what_is_not_asked_for_is_not_scored(plan):
    steps = plan(FEDCA / "tables.toml", "row=fedsimclr", "rounds=1")
    assert {step["stage"] for step in steps} == {
        *("partition", "init", "train", "average", "linear"),
    }


# --- the Makefile and the pages -------------------------------------------------------


@needs_make
@pytest.mark.parametrize("page", ["README.md", "RESULTS.md"])
def test_every_command_of_the_pages_is_planned(recorded, check_all, page):
    # Both encoders have the same plans.
    text = "\n".join(blocks(FEDCA / page)).replace("in cnn5 resnet50;", "in resnet50;")
    commands = recorded(text)
    assert sum(command[0] == "plan" for command in commands) >= 4
    check_all(commands)


def test_two_rounds_by_hand(recorded, run):
    (block,) = (b for b in blocks(FEDCA / "README.md") if "local-train" in b)
    small = {"init": ("--width", 0.02, "--projector", "8,4")}
    small |= dict.fromkeys(("pretrain-align", "local-train"), ("--epochs", 1))
    for command in recorded(block):
        # The shell leaves a pattern as it is while there are no such files.
        words = [w for word in command for w in sorted(glob(word)) or [word]]
        done = run(*words, *small.get(command[0], ()))
        assert done.code == 0, done.err
    assert Path("r002/angles.json").exists()


def test_the_makefile_s_own_examples_are_those_of_the_pages():
    shown = re.findall(
        r"^# +make .* (\w+) {2,}", (FEDCA / "Makefile").read_text(), re.M
    )
    assert shown == ["ablation", "table1", "table2", "table3",
                     "figure3", "figure4", "figure5", "readings", "claims"]  # fmt: skip
    pages = " ".join(blocks(FEDCA / "README.md"))
    assert all(f" {target} " in pages for target in shown)


SMALL = """clients=2 each=5 rounds=1 linear="--epochs 1" semi_rounds=1
    init="--width 0.02 --projector 8,4" align="--images 60 --epochs 1 --batch-size 30"
    train="--epochs 1 --batch-size 240 --flip 0" semi1="--epochs 1" semi10="--epochs 1"
    fedavg1="--epochs 1" fedavg10="--epochs 1" transfer="--epochs 1" scratch="--epochs 1"
"""


@needs_make
def test_every_target_makes_its_table_or_figure(recorded, carry_out):
    """For non-IID clients: figure5, which needs the others too, is planned above."""
    targets = "ablation-noniid table1-noniid table2-noniid table3-noniid figure3"
    settings = shlex.quote(f"SETTINGS={' '.join(SMALL.split())}")
    makefile = "make -f examples/fedca/Makefile"
    words = f"{targets} figure4-noniid readings-0.1 claims SEEDS=0 {settings}"
    *tables, claims = carry_out(recorded(f"{makefile} {words}"))
    assert all(Path(f"exp/figure{number}.png").stat().st_size for number in (3, 4))
    labels = [[line.split("  ")[0] for line in t.splitlines()[1:]] for t in tables]
    baselines = ["FedAE", "FedPR", "FedSimCLR", "FedCA"]
    parts = ["+ alignment", "+ dictionary", "+ ensembled dictionary"]
    assert labels == [
        ["untrained", "FedSimCLR", *parts, "FedCA"],
        ["untrained", *baselines],
        ["FedAvg", *baselines],
        ["FedAvg", *baselines],
        ["random-init", *baselines],
        ["untrained", "no dictionary", "dictionary, alpha 0", "dictionary, ensembled",
         "rows of the global model", "own row of Z as positive", "own row of the global model",
         "official head, no dictionary", "official head, ensembled",
         "alignment, mean, 1e-3", "fedca-stable"],
    ]  # fmt: skip
    assert claims.count("| undecided |") == 5  # One seed says nothing.


@needs_make
def test_a_table_has_the_paper_s_numbers_beside_ours(recorded, run):
    scores = {"fedae": 0.4, "fedpr": 0.4, "fedsimclr": 0.5, "fedca": 0.52}
    for (row, accuracy), seed in ((each, n) for each in scores.items() for n in (0, 1)):
        for number in (0, 20):
            folder = Path(f"exp/cifar10-cnn5/iid/{row}/seed{seed}/r{number:03d}")
            folder.mkdir(parents=True)
            facts = {"round": number, "role": "global"}
            more = seed / 100 * (row == "fedca") + seed / 50
            document = {"protocol": "linear", "accuracy": accuracy + more}
            document.update(seed=seed, checkpoint={"seed": None, "facts": facts})
            write_metrics(folder / "linear.json", document)
    makefile = "make -f examples/fedca/Makefile table1-iid DATASET=cifar10"
    _, command = recorded(makefile)
    head, untrained, *_, simclr, fedca = run(*command).out.splitlines()
    assert "published" in head and untrained.startswith("untrained")
    assert simclr.split() == ["FedSimCLR", "2", "51.00", "1.41", "61.62"]
    assert fedca.split()[:6] == ["FedCA", "2", "53.50", "2.12", "64.87", "+2.50"]


@needs_make
def test_every_number_of_the_paper_is_shown(recorded):
    """By the commands of the page for the paper's scale."""
    (block,) = (b for b in blocks(FEDCA / "README.md") if "TARGET=cifar10" in b)
    files = {"semi1.json": "semi1", "semi10.json": "semi10"}
    files |= {f"to_cifar{n}.json": f"to_cifar{n}" for n in (10, 100)}
    shown = {}
    for command in recorded(block):
        if command[0] != "compare":
            continue
        where = dict(text.split("=", 1) for text in values(command, "--series"))
        path = Path(where["FedCA"])
        table = files.get(path.name, "linear")
        for text in values(command, "--published"):
            label, number = text.split("=")
            shown[table, *path.parts[1].split("-"), path.parts[2], label] = number
    with open(FEDCA / "paper.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert shown == {tuple(row[:-1]): row[-1] for row in rows}


@pytest.mark.parametrize(
    "name, split", [("claims.toml", "noniid"), ("claims-iid.toml", "iid")]
)
def test_the_claim_about_the_whole_is_table_1_s_difference(name, split):
    claims = tomllib.loads((FEDCA / name).read_text())["claims"]
    with open(FEDCA / "paper.csv", newline="") as file:
        linear = {row[4]: float(row[5]) for row in csv.reader(file)
                  if row[:4] == ["linear", "cifar10", "cnn5", split]}  # fmt: skip
    assert claims[0]["paper"] == pytest.approx(linear["FedCA"] - linear["FedSimCLR"])


def test_the_paper_s_numbers_are_all_there():
    with open(FEDCA / "paper.csv", newline="") as file:
        *keys, percent = csv.DictReader(file).fieldnames
        file.seek(0)
        found = {
            tuple(r[k] for k in keys): r[percent] for r in csv.DictReader(file)
        }  # fmt: skip
    # Tables 1 to 3: 48, 2 x 60 and 60 numbers (random init is in both settings).
    assert len(found) == 48 + 120 + 60
    assert found["linear", "cifar10", "cnn5", "noniid", "FedCA"] == "63.02"
    assert found["semi1", "miniimagenet", "resnet50", "iid", "FedCA"] == "20.22"
    assert found["to_cifar100", "miniimagenet", "cnn5", "iid", "FedSimCLR"] == "59.08"
