"""examples/fedca: every command of the recipes, the tables and the pages."""

import csv
import tomllib
from glob import glob
from pathlib import Path

import pytest

from furlkit.files.container.read import Container
from furlkit.files.metrics import write_metrics
from tests.examples.conftest import (
    EXAMPLES,
    blocks,
    labels,
    needs_make,
    of,
    shown,
    values,
    without_output,
)

FEDCA = EXAMPLES / "fedca"
PAPER = FEDCA / "paper.toml"
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
DATASETS = ("cifar10", "cifar100", "miniimagenet", "digits", "images", "long")

# Options of local-train that decide how far a client trains.
LONG = ("--data", "--epochs", "--batch-size", "--temperature", "--crop-scale", "--blur")


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_25_lines_at_most():
    assert len((FEDCA / "recipe.toml").read_text().splitlines()) <= 25


def test_the_row_fedca_is_the_recipe(plan):
    recipe = plan(FEDCA / "recipe.toml", "seed=3")
    row = plan(PAPER, "seed=3", "out=exp")
    row = [step for step in row if step["stage"] in {s["stage"] for s in recipe}]
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
    words = (f"row={row}", f"dataset={dataset}", "rounds=2")
    for split in ("iid", "noniid"):
        steps = plan(PAPER, *words, f"split={split}")
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
    steps = plan(PAPER, f"row={row}", f"dataset={dataset}", "rounds=2")
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
    steps = plan(PAPER, "dataset=images", "rounds=1")
    for stage in ("linear", "semi1", "fedavg10"):
        assert values(of(steps, stage)[0]["command"], "--test-data") == [
            "test.safetensors"
        ]
    for stage in ("embed", "angles"):
        command = of(steps, stage)[0]["command"]
        assert values(command, "--data")[-1] == "test.safetensors"


def test_a_table_plans_only_the_scores_that_it_shows(plan):
    words = ("table=1", "dataset=digits", "split=iid", "rounds=1", "seed=0")
    stages = {step["stage"] for step in plan(PAPER, *words)}
    assert stages == {
        *(
            "partition",
            "init",
            "align",
            "train",
            "average",
            "linear",
            "table_1_iid_csv",
        ),
    }


def test_long_comparisons_have_the_settings_of_the_learning_curves(plan):
    """100 local epochs of equal batches, images and temperature; clients and public."""
    words = ("dataset=long", "split=noniid", "seed=0")
    curve = plan(EXAMPLES / "curves" / "recipe.toml", "seed=0")
    expected = [values(of(curve, "train")[0]["command"], o)[-1] for o in LONG]
    for row in ("fedsimclr", "align", "dictionary", "ensemble", "fedca", "stable"):
        trained = of(plan(PAPER, *words, f"row={row}"), "train")
        assert len(trained) == 20 * 5
        found = [values(trained[0]["command"], option)[-1] for option in LONG]
        assert found == expected, row


# --- the tables and the pages ---------------------------------------------------------


@needs_make
@pytest.mark.parametrize("page", ["README.md", "RESULTS.md"])
def test_every_command_of_the_pages_is_planned(recorded, check_all, page):
    # Both encoders have the same plans.
    text = "\n".join(blocks(FEDCA / page)).replace("in cnn5 resnet50;", "in resnet50;")
    commands = recorded(text)
    assert sum(command[0] == "plan" for command in commands) >= 2
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


BASELINES = ["FedAE", "FedPR", "FedSimCLR", "FedCA"]
PARTS = ["FedSimCLR", "+ alignment", "+ dictionary", "+ ensembled dictionary", "FedCA"]
FURTHER = ["fedca-stable", "alignment model alone"]
CONTROLS = ["alignment, mean, beta 1e-3", "alignment, cosine rate"]
ANGLES = ["angles of FedSimCLR", "angles with alignment"]


def test_every_table_has_its_lines(plan):
    tables = "table=ablation,1,2,3,figure4,figure5,readings,claims,claims-iid,controls"
    commands = shown(plan(PAPER, tables, "dataset=digits", "rounds=1", "seed=4"))
    found = {Path(values(c, "-o")[0]).name: labels(c) for c in commands}
    bars = ["untrained", *PARTS]
    expected = {
        "figure4-iid.png": ["FedSimCLR", "+ alignment", "FedCA"],
        "figure5.png": [f"{s}:{label}" for label in bars for s in ("iid", "noniid")],
        "claims-noniid.csv": [*PARTS, *ANGLES],
        "claims-iid-iid.csv": [*PARTS, *ANGLES],
    }
    controls = [*PARTS[:2], *(f"+ {control}" for control in CONTROLS), "fedca-stable"]
    for value in ("linear", "angles"):
        expected[f"controls-{value}-noniid.csv"] = controls
    for split in ("iid", "noniid"):
        for form in ("csv", "png"):
            expected[f"ablation-{split}.{form}"] = [*bars, *FURTHER]
        expected[f"1-{split}.csv"] = ["untrained", *BASELINES]
        expected[f"3-{split}.csv"] = ["random-init", *BASELINES]
        for percent in (1, 10):
            expected[f"2-{split}-{percent}.csv"] = ["FedAvg", *BASELINES]
    for temperature in ("0.1", "0.5"):
        expected[f"readings-{temperature}.csv"] = [
            "untrained", "no dictionary", "dictionary, alpha 0", "dictionary, ensembled",
            "rows of the global model", "own row of Z as positive",
            "own row of the global model", "official head, no dictionary",
            "official head, ensembled", "alignment, mean, 1e-3", "fedca-stable",
        ]  # fmt: skip
    assert found == expected


SMALL = (
    "dataset=digits", "seed=0", "clients=2", "each=5", "rounds=1", "linear=--epochs 1",
    "init=--width 0.02 --projector 8,4", "align=--images 60 --epochs 1 --batch-size 30",
    "train=--epochs 1 --batch-size 240 --flip 0", "transfer=--epochs 1",
    "scratch=--epochs 1", "split=noniid",
)  # fmt: skip


def test_tables_and_figures_are_made(carry_out_tables):
    chosen = "table=1,3,figure3,figure4,claims"
    tables = carry_out_tables(PAPER, chosen, *SMALL)
    for number in (3, 4):
        picture = Path(f"exp/digits-cnn5/tables/figure{number}-noniid.png")
        assert picture.read_bytes()[1:4] == b"PNG"
    for name, first in (("1-noniid", "untrained"), ("3-noniid", "random-init")):
        rows = [line.split()[0] for line in tables[name][-5:]]
        assert rows == [first, *BASELINES]
    claims = " ".join(tables["claims-noniid"])
    assert claims.count("| undecided |") == 5  # One seed says nothing.


def test_a_table_has_the_paper_s_numbers_beside_ours(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    (command,) = shown(plan(PAPER, "table=1", "split=iid", "seed=0,1"))
    *_, head, untrained, _, _, simclr, fedca = run(*command).out.splitlines()
    assert "published" in head and untrained.startswith("untrained")
    assert simclr.split() == ["FedSimCLR", "2", "51.00", "1.41", "61.62"]
    assert fedca.split()[:6] == ["FedCA", "2", "53.50", "2.12", "64.87", "+2.50"]


@needs_make
def test_every_number_of_the_paper_is_shown(recorded, plan):
    """By the commands of the page for the paper's scale."""
    (block,) = (b for b in blocks(FEDCA / "README.md") if "target=cifar10" in b)
    files = {"semi1.json": "semi1", "semi10.json": "semi10"}
    files |= {f"to_cifar{n}.json": f"to_cifar{n}" for n in (10, 100)}
    numbers = {}
    calls = [c for c in recorded(block) if c[0] == "plan"]
    short = [[*without_output(c), "rounds=1", "seed=0"] for c in calls]
    for command in (c for words in short for c in shown(plan(*words))):
        where = dict(text.split("=", 1) for text in values(command, "--series"))
        path = Path(where.get("FedCA", ""))
        table = files.get(path.name, "linear")
        for text in values(command, "--published"):
            label, number = text.split("=")
            numbers[table, *path.parts[1].split("-"), path.parts[2], label] = number
    with open(FEDCA / "paper.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert numbers == {tuple(row[:-1]): row[-1] for row in rows}


@pytest.mark.parametrize(
    "name, split", [("paper.toml", "noniid"), ("claims-iid.toml", "iid")]
)
def test_the_claim_about_the_whole_is_table_1_s_difference(name, split):
    claims = tomllib.loads((FEDCA / name).read_text())["claims"]
    with open(FEDCA / "paper.csv", newline="") as file:
        linear = {row[4]: float(row[5]) for row in csv.reader(file)
                  if row[:4] == ["linear", "cifar10", "cnn5", split]}  # fmt: skip
    whole = claims["FedCA is better than FedSimCLR"]["paper"]
    assert whole == pytest.approx(linear["FedCA"] - linear["FedSimCLR"])


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
