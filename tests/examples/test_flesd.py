"""examples/flesd: every command of its recipes, its Makefile and its pages."""

import csv
import re
import shlex
from glob import glob
from itertools import product
from pathlib import Path, PurePath

import pytest

from furlkit.files.metrics import write_metrics
from tests.examples.conftest import (
    EXAMPLES,
    blocks,
    needs_make,
    of,
    values,
    without_output,
)

FLESD = EXAMPLES / "flesd"
ROWS = ("flesd", "cc", "fedavg", "fedprox", "nonfl", "simclr", "supervised")
DATASETS = ("cifar10", "cifar100", "tinyimagenet", "imagenet100", "digits", "images")
ENCODINGS = {
    "float16": ["--encoding", "float16"],
    "int8": ["--encoding", "int8"],
    "top1": ["--similarity", "--top", "1"],
    "top1_int8": ["--similarity", "--top", "1", "--encoding", "int8"],
    "full": ["--similarity"],
}
MAKE = "make -f examples/flesd/Makefile"


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_25_lines_at_most():
    assert len((FLESD / "recipe.toml").read_text().splitlines()) <= 25


def test_the_row_flesd_is_the_recipe(plan):
    recipe = plan(FLESD / "recipe.toml", "seed=3")
    row = plan(FLESD / "tables.toml", "seed=3", "score=0 last")
    assert row.pop()["stage"] == "bytes"
    # The row says itself what the preset has.
    same = {"init": ["--encoder", "resnet18"], "train": ["--epochs", "100"]}
    for step in row:
        for word in same.get(step["stage"], []):
            step["command"].remove(word)
    assert [sorted(s["command"]) for s in row] == [sorted(s["command"]) for s in recipe]
    assert max(step["round"] or 0 for step in recipe) == 2


EPOCHS = dict(zip(ROWS, (100, 200, 20, 20, 200, 200, 100), strict=True))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_row_is_planned_on_every_dataset(plan, row, dataset):
    steps = plan(FLESD / "tables.toml", f"row={row}", f"dataset={dataset}", "alpha=0.1")
    rounds = {"flesd": 2, "fedavg": 10, "fedprox": 10}.get(row, 1)
    trained = [s for s in steps if s["stage"] in ("train", "supervise")]
    whole = {"nonfl": {0}, "flesd": {1, 2, 3, 4, 5}, "cc": {1, 2, 3, 4, 5}}
    clients = whole.get(row, {0, 1, 2, 3, 4, 5})
    assert {(s["round"], *s["clients"]) for s in trained} == {
        (number, client) for number in range(1, rounds + 1) for client in clients
    }
    epochs = EPOCHS[row] // (10 if dataset in ("digits", "images") else 1)
    assert all(values(s["command"], "--epochs") == [str(epochs)] for s in trained)
    assert len(of(steps, "distill")) == {"flesd": 2, "cc": 1}.get(row, 0)
    averaged = rounds if row in ("fedavg", "fedprox", "nonfl") else 0
    assert len(of(steps, "average")) == averaged
    # What a client trained itself stays with it: only what embed made of it is sent.
    if row in ("flesd", "cc"):
        sent = [path for s in of(steps, "ensemble") for path in s["reads"]]
        assert sent and not any("client_" in path for path in sent)
    # The untrained network is scored, and clients' own models where they count.
    assert {s["round"] for s in of(steps, "linear")} == {
        *range(rounds + 1 if row not in ("simclr", "supervised") else 1)
    }
    scored = clients if row in ("cc", "simclr", "supervised") else set()
    assert {s["clients"][0] for s in of(steps, "local")} == scored
    assert len(of(steps, "classifier")) == (6 if row == "supervised" else 0)


@pytest.mark.parametrize("dataset", ["tinyimagenet", "imagenet100", "images"])
def test_test_images_are_those_of_the_test_file(plan, dataset):
    words = (f"dataset={dataset}", "row=supervised")
    steps = plan(FLESD / "tables.toml", *words)
    for stage in ("linear", "local", "classifier"):
        (file,) = values(of(steps, stage)[0]["command"], "--test-data")
        assert file.endswith("test.safetensors")


@pytest.mark.parametrize("row", ["cc", "fedavg", "nonfl", "supervised"])
def test_the_partition_of_a_row_can_be_made(plan, run, tmp_path, row):
    """Only the partition itself shows what a scheme refuses."""
    words = (f"row={row}", "dataset=digits", f"out={tmp_path}")
    alpha = () if row == "nonfl" else ("alpha=0.01",)
    (step,) = of(plan(FLESD / "tables.toml", *words, *alpha), "partition")
    done = run(*step["command"])
    assert done.code == 0, done.err
    assert f"{1 if row == 'nonfl' else 6} clients of" in done.out
    assert ("--concentration" in step["command"]) == (row != "nonfl")


def test_an_unknown_row_is_refused(refused, tmp_path):
    words = ("plan", FLESD / "tables.toml", "row=flsed", f"out={tmp_path / 'exp'}")
    refused(tmp_path, 2, ["flsed", "fedprox"], *words)


def moved(command: list[str], *folders: str) -> list[str]:
    """A command as if its files were in one folder."""
    for folder in folders:
        command = [word.replace(f"{folder}/", "") for word in command]
    return command


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoding_changes_what_is_sent_and_nothing_else(plan, encoding):
    words = ("dataset=digits", "seed=2")
    cc = plan(FLESD / "tables.toml", *words, "row=cc", "out=all/seed2", "score=last")
    words = (*words, f"encoding={encoding}", "runs=all", "out=sent")
    steps = plan(FLESD / "encodings.toml", *words, "score=last")
    expected = [
        step for step in cc
        if step["stage"] in ("embed", "ensemble", "distill", "linear", "bytes")
    ]  # fmt: skip
    assert [s["stage"] for s in steps] == [s["stage"] for s in expected]
    for step, plain in zip(steps[:-1], expected, strict=False):
        words = ENCODINGS[encoding] if step["stage"] == "embed" else []
        found = moved(step["command"], "all/seed2", "sent")
        assert found == [*moved(plain["command"], "all/seed2"), *words]
    made = {path for step in cc for path in step["writes"]}
    assert {p for s in steps for p in s["reads"] if p.startswith("all/")} <= made
    # The bytes are those of the same clients, with the uploads of this encoding.
    counted = set(moved(expected[-1]["reads"], "all/seed2"))
    counted -= {"r001/global.safetensors"}  # Nobody receives that of the last round.
    assert set(moved(steps[-1]["reads"], "all/seed2", "sent")) == counted


# --- the Makefile and the pages -------------------------------------------------------


@needs_make
@pytest.mark.parametrize(
    "page, plans",
    [pytest.param("README.md", 30, marks=pytest.mark.slow), ("RESULTS.md", 8)],
)
def test_every_command_of_the_pages_is_planned(recorded, check_all, page, plans):
    commands = [c for block in blocks(FLESD / page) for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) >= plans
    check_all(commands)


def test_one_round_by_hand(recorded, run):
    first, second = (
        b for b in blocks(FLESD / "README.md") if "public_" in b or "ledger ." in b
    )
    small = {
        "init": ("--width", 0.02, "--projector", "8,4"),
        "local-train": ("--epochs", 1),
        "distill": ("--epochs", 1, "--anchors", 64),
    }
    for command in recorded(f"{first}\n{second}"):
        # The shell leaves a pattern as it is while there are no such files.
        words = [w for word in command for w in sorted(glob(word)) or [word]]
        done = run(*words, *small.get(command[0], ()))
        assert done.code == 0, done.err
    assert Path("r001/global.safetensors").exists()


def test_the_makefile_s_own_examples_are_those_of_the_pages():
    shown = re.findall(
        r"^# +make .* (\w+) {2,}", (FLESD / "Makefile").read_text(), re.M
    )
    expected = "table1 search figure2 figure4 figure5 encodings claims"
    assert shown == expected.split()
    pages = " ".join(blocks(FLESD / "README.md"))
    assert all(f" {target} " in pages for target in shown)


@needs_make
def test_the_panels_of_figure_4_have_the_rounds_and_epochs_they_say(recorded, plan):
    words = "figure4-1 SEEDS=0 LEFT='1x12 2x6' MIDDLE=3x7 RIGHT='2x6 2x10'"
    commands = recorded(f"{MAKE} {words}")
    runs: dict[str, list[dict]] = {}
    for command in commands:
        if command[0] == "plan":
            for step in plan(*without_output(command)):
                name = PurePath(step["outputs"][0]).parts[3]
                runs.setdefault(name, []).append(step)
    schemes = {"1x12": 2, "2x6": 2, "2x10": 2, "3x7": 4}
    assert set(runs) == {f"{row}-{s}" for row in ("flesd", "fedavg") for s in schemes}
    for name, steps in runs.items():
        rounds, epochs = name.partition("-")[2].split("x")
        trained = of(steps, "train")
        assert {s["round"] for s in trained} == {*range(1, int(rounds) + 1)}
        assert all(values(s["command"], "--epochs")[-1] == epochs for s in trained)
        scored = {s["round"] for s in of(steps, "linear")}
        assert {0, int(rounds)} <= scored
        assert len(scored) == schemes[name.partition("-")[2]]
    plots = {values(c, "-o")[0]: c for c in commands if c[0] == "plot"}
    shown = {
        name.removeprefix("exp/figure4-1-"): (*values(c, "--over"), "--last" in c)
        for name, c in plots.items()
    }
    assert shown == {
        "left.png": ("rounds", True), "middle.png": ("rounds", False),
        "right.png": ("epochs", True), "bytes.png": ("bytes", False),
    }  # fmt: skip
    assert values(plots["exp/figure4-1-left.png"], "--series")[0] == (
        "FLESD=exp/digits/alpha1/flesd-1x12/seed*,exp/digits/alpha1/flesd-2x6/seed*"
    )


@needs_make
@pytest.mark.parametrize("dataset, total", [("digits", 20), ("cifar100", 200)])
def test_the_left_panel_has_as_many_epochs_in_all(recorded, dataset, total):
    commands = recorded(f"{MAKE} figure4-1 DATASET={dataset}")
    (left,) = (c for c in commands if "exp/figure4-1-left.png" in c)
    found = re.findall(r"flesd-(\d+)x(\d+)/", values(left, "--series")[0])
    assert len(found) >= 5
    assert {int(rounds) * int(epochs) for rounds, epochs in found} == {total}


TINY = """min_size=10 init="--width 0.02 --projector 8,16" linear="--epochs 1"
    distill="--epochs 1 --anchors 16 --batch-size 8"
"""


def small(*more: str) -> str:
    return shlex.quote(f"SETTINGS={' '.join(' '.join([TINY, *more]).split())}")


@needs_make
def test_tables_and_figure_2_are_made(recorded, carry_out):
    once = 'rounds=1 local="--epochs 1" train="--epochs 1" supervise="--epochs 1"'
    words = "table1-1 figure2 ALPHAS=1 SEEDS=0"
    tables = carry_out(recorded(f"{MAKE} {words} {small(once)}"))
    labels = [[line.split("  ")[0] for line in t.splitlines()[1:]] for t in tables]
    averaged = ["FedAvg", "FedProx", "FLESD", "FLESD-cc"]
    alone = ["SimCLR of client 4", "SimCLR of client 5"]
    assert labels == [
        ["untrained", "Non-FL", "Min-Local", *averaged],
        averaged,
        ["untrained", "SimCLR", *alone, "supervised", "own classifier"],
    ]
    assert [line.split()[1] for line in tables[2].splitlines()[1:3]] == ["1", "6"]
    for name in ("figure2", "figure2-1-bubbles", "figure2-1-clients"):
        assert Path(f"exp/{name}.png").stat().st_size


@needs_make
def test_other_encodings_are_compared_with_the_bytes_they_cost(recorded, carry_out):
    words = "encodings-1 SEEDS=0 ENCODINGS=float16,int8,full"
    commands = recorded(f"{MAKE} {words} {small('once=1')}")
    plans = [command for command in commands if command[0] == "plan"]
    assert [PurePath(command[1]).name for command in plans] == [
        "tables.toml", "encodings.toml"
    ]  # fmt: skip
    accuracy, sent = carry_out(commands)
    names = ["float32", "float16", "int8", "full"]
    rows = [line.split() for line in accuracy.splitlines()[1:]]
    assert [row[0] for row in rows] == ["untrained", *names]
    rows = [line.split() for line in sent.splitlines()[1:]]
    assert [row[0] for row in rows] == names
    count = {
        name: int(row[2].replace(",", ""))
        for name, row in zip(names, rows, strict=True)
    }
    assert count["int8"] < count["float16"] < count["float32"] < count["full"]
    uploads = Path("exp/digits/alpha1/int8/seed0/r001").glob("public_*.safetensors")
    assert count["int8"] == sum(path.stat().st_size for path in uploads)


@needs_make
def test_figures_4_and_5_are_drawn(recorded, carry_out):
    schemes = "LEFT='1x1 2x1' MIDDLE=2x1 RIGHT='2x1 2x2' FLESD5=1x2 FEDAVG5=2x1"
    carry_out(recorded(f"{MAKE} figure4-1 figure5 SEEDS=0 {schemes} {small()}"))
    for name in ("4-1-left", "4-1-middle", "4-1-right", "4-1-bytes", "5-1"):
        assert Path(f"exp/figure{name}.png").stat().st_size


def score(
    folder: str, name: str, accuracy: float, number: int, seed: int = 0, **facts
) -> None:
    path = Path("exp/cifar10", folder, f"r{number:03d}", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"round": number, "role": "global", **facts}
    document = {"protocol": "linear", "accuracy": accuracy, "seed": seed}
    write_metrics(path, {**document, "checkpoint": {"seed": None, "facts": facts}})


@needs_make
def test_a_table_has_the_paper_s_numbers_beside_ours(recorded, run):
    score("alpha0.01/fedavg/seed0", "linear.json", 0.3, 0)
    score("nonfl/seed0", "linear.json", 0.9, 1)
    for row, rounds in (("fedavg", 10), ("fedprox", 10), ("flesd", 2), ("cc", 1)):
        score(f"alpha0.01/{row}/seed0", "linear.json", 0.4 + rounds / 100, rounds)
    for client, accuracy in ((1, 0.4), (2, 0.3), (5, 0.45)):
        facts = {"role": "client", "client": client}
        score("alpha0.01/cc/seed0", f"linear_{client}.json", accuracy, 1, **facts)
    commands = recorded(f"{MAKE} table1-0.01 DATASET=cifar10")
    first, *_ = (command for command in commands if command[0] == "compare")
    head, *rows = run(*first).out.splitlines()
    assert "published" in head and rows[0].split()[:3] == ["untrained", "1", "30.00"]
    assert rows[1].split()[:4] == ["Non-FL", "1", "90.00", "86.30"]
    assert rows[2].split()[:4] == ["Min-Local", "1", "30.00", "60.40"]
    assert rows[3].split() == ["FedAvg", "1", "50.00", "69.90"]
    assert rows[5].split()[:5] == ["FLESD", "1", "42.00", "69.60", "-8.00"]


@needs_make
def test_every_number_of_the_paper_is_shown(recorded):
    shown = {}
    for dataset in ("cifar10", "cifar100", "tinyimagenet", "imagenet100"):
        goals = "table1 figure2" if dataset == "cifar10" else "table1"
        for command in recorded(f"{MAKE} {goals} DATASET={dataset}"):
            if command[0] == "compare":
                alpha = re.search("alpha([0-9.]+)/", " ".join(command))[1]
                for text in values(command, "--published"):
                    label, number = text.split("=")
                    shown[dataset, alpha, label] = number
    with open(FLESD / "paper.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert shown == {tuple(row[1:4]): row[4] for row in rows}


@needs_make
def test_the_search_has_the_paper_s_grids(recorded, plan):
    commands = recorded(f"{MAKE} search-1 DATASET=cifar100 SEEDS=0")
    runs = {}
    for command in (c for c in commands if c[0] == "plan"):
        for step in of(plan(*without_output(command)), "train"):
            name = PurePath(step["outputs"][0]).parts[3]
            epochs, mu = (
                values(step["command"], o)[-1:] for o in ("--epochs", "--proximal")
            )
            runs.setdefault(name, set()).add((step["round"], *epochs, *mu))
    grid = {1: "200", 2: "100", 4: "50", 10: "20", 20: "10", 40: "5"}
    expected = {
        f"{row}-{rounds}x{epochs}": {(n, epochs) for n in range(1, rounds + 1)}
        for row in ("flesd", "fedavg") for rounds, epochs in grid.items()
    }  # fmt: skip
    for mu in ("0.001", "0.01", "0.1", "1"):
        name = f"fedprox-10x20-mu{mu}"
        expected[name] = {(n, "20", mu) for n in range(1, 11)}
    assert runs == expected
    (command,) = (c for c in commands if c[0] == "compare")
    assert values(command, "--published") == [
        "FedAvg, T 10=43.2",
        "FLESD, T 2=43.8",
    ]


@needs_make
def test_claims_are_judged_by_both_alphas(recorded, run):
    rows = {"fedavg": (0.50, 10), "flesd": (0.52, 2), "cc": (0.45, 1)}
    for seed, noise in enumerate((0, 0.001, 0.003)):
        score(f"nonfl/seed{seed}", "linear.json", 0.7, 1, seed=seed)
        for alpha, (row, (accuracy, rounds)) in product((100, 0.01), rows.items()):
            run_ = f"alpha{alpha}/{row}/seed{seed}"
            score(run_, "linear.json", accuracy + noise * rounds, rounds, seed=seed)
            total = {"bytes": (1000 + seed) * rounds}
            path = Path(f"exp/cifar10/{run_}/bytes.json")
            write_metrics(path, {"protocol": "ledger", "seed": seed, "total": total})
        for client, alpha in product((1, 2), (100, 0.01)):
            facts = {"role": "client", "client": client, "seed": seed}
            worst = f"alpha{alpha}/cc/seed{seed}"
            score(worst, f"linear_{client}.json", 0.5 - client / 10, 1, **facts)
    *_, command = recorded(f"{MAKE} claims DATASET=cifar10")
    _, _, *found = run(*command).out.splitlines()
    assert [line.split(" | ")[-2] for line in found] == [
        "undecided", "confirmed", "confirmed", "undecided", "confirmed", "confirmed",
        "confirmed", "confirmed",
    ]  # fmt: skip


def test_the_paper_s_numbers_are_all_there():
    with open(FLESD / "paper.csv", newline="") as file:
        *keys, percent = csv.DictReader(file).fieldnames
        file.seek(0)
        found = {tuple(r[k] for k in keys): r[percent] for r in csv.DictReader(file)}
    # Table 1: six methods, four datasets, three alphas; Figure 2: three bars, two alphas,
    # and two clients.
    assert len(found) == 6 * 4 * 3 + 3 * 2 + 2
    assert found["table1", "cifar10", "1", "FLESD"] == "76.2"
    assert found["figure2", "cifar10", "0.01", "own classifier"] == "18.5"
    assert "76.2 %" in (FLESD / "recipe.toml").read_text()
