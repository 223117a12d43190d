"""examples/flesd: every command of the recipes, the tables and the pages."""

import csv
import re
from glob import glob
from itertools import product
from pathlib import Path, PurePath

import pytest

from furlkit.files.metrics import write_metrics
from tests.examples.conftest import (
    EXAMPLES,
    blocks,
    labels,
    needs_make,
    of,
    shown,
    values,
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
PAPER = FLESD / "paper.toml"


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_25_lines_at_most():
    assert len((FLESD / "recipe.toml").read_text().splitlines()) <= 25


def test_the_row_flesd_is_the_recipe(plan):
    recipe = plan(FLESD / "recipe.toml", "seed=3")
    row = plan(PAPER, "seed=3", "score=0 last", "out=exp")
    row = [step for step in row if step["stage"] in {s["stage"] for s in recipe}]
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
    steps = plan(PAPER, f"row={row}", f"dataset={dataset}", "alpha=0.1")
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
    # The untrained network is scored, and the clients' models of the last round.
    assert {s["round"] for s in of(steps, "linear")} == {
        *range(rounds + 1 if row not in ("simclr", "supervised") else 1)
    }
    assert {s["clients"][0] for s in of(steps, "local")} == clients
    assert len(of(steps, "classifier")) == (6 if row == "supervised" else 0)


@pytest.mark.parametrize("dataset", ["tinyimagenet", "imagenet100", "images"])
def test_test_images_are_those_of_the_test_file(plan, dataset):
    words = (f"dataset={dataset}", "row=supervised")
    steps = plan(PAPER, *words)
    for stage in ("linear", "local", "classifier"):
        (file,) = values(of(steps, stage)[0]["command"], "--test-data")
        assert file.endswith("test.safetensors")


@pytest.mark.parametrize("row", ["cc", "fedavg", "nonfl", "supervised"])
def test_the_partition_of_a_row_can_be_made(plan, run, tmp_path, row):
    """Only the partition itself shows what a scheme refuses."""
    words = (f"row={row}", "dataset=digits", f"out={tmp_path}")
    alpha = () if row == "nonfl" else ("alpha=0.01",)
    (step,) = of(plan(PAPER, *words, *alpha), "partition")
    done = run(*step["command"])
    assert done.code == 0, done.err
    assert f"{1 if row == 'nonfl' else 6} clients of" in done.out
    assert ("--concentration" in step["command"]) == (row != "nonfl")


def test_an_unknown_row_is_refused(refused, tmp_path):
    words = ("plan", PAPER, "row=flsed", f"out={tmp_path / 'exp'}")
    refused(tmp_path, 2, ["flsed", "fedprox"], *words)


def moved(command: list[str], *folders: str) -> list[str]:
    """A command as if its files were in one folder."""
    for folder in folders:
        command = [word.replace(f"{folder}/", "") for word in command]
    return command


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoding_changes_what_is_sent_and_nothing_else(plan, encoding):
    words = ("dataset=digits", "seed=2", "alpha=1", "score=last")
    cc = plan(PAPER, *words, "row=cc")
    steps = plan(PAPER, *words, "row=encoded", f"encoding={encoding}")
    folders = ("exp/digits/alpha1/cc/seed2", f"exp/digits/alpha1/{encoding}/seed2")
    expected = [
        step for step in cc
        if step["stage"] in ("embed", "ensemble", "distill", "linear", "bytes")
    ]  # fmt: skip
    assert [s["stage"] for s in steps] == [s["stage"] for s in expected]
    for step, plain in zip(steps[:-1], expected, strict=False):
        words = ENCODINGS[encoding] if step["stage"] == "embed" else []
        found = moved(step["command"], *folders)
        assert found == [*moved(plain["command"], *folders), *words]
    made = {path for step in cc for path in step["writes"]}
    read = {path for step in steps for path in step["reads"]}
    assert {path for path in read if path.startswith(folders[0])} <= made
    # The bytes are those of the same clients, with the uploads of this encoding.
    counted = set(moved(expected[-1]["reads"], *folders))
    counted -= {"r001/global.safetensors"}  # Nobody receives that of the last round.
    assert set(moved(steps[-1]["reads"], *folders)) == counted


# --- the tables and the pages ---------------------------------------------------------


@needs_make
@pytest.mark.parametrize(
    "page, plans",
    [pytest.param("README.md", 9, marks=pytest.mark.slow), ("RESULTS.md", 4)],
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


def test_the_panels_of_figure_4_have_the_rounds_and_epochs_they_say(plan):
    steps = plan(PAPER, "table=figure4", "dataset=digits", "alpha=1", "seed=0")
    runs: dict[str, list[dict]] = {}
    for step in steps:
        folders = PurePath(step["outputs"][0]).parts
        if "tables" not in folders:
            runs.setdefault(folders[3], []).append(step)
    left = {"1x40", "2x20", "4x10", "10x4", "20x2", "40x1"}
    lengths = left | {"5x10", "2x5", "2x10", "2x20", "2x40"}
    names = {f"{row}-{length}" for row in ("flesd", "fedavg") for length in lengths}
    assert set(runs) == names
    for name in names:
        rounds, epochs = name.partition("-")[2].split("x")
        trained = of(runs[name], "train")
        assert {s["round"] for s in trained} == {*range(1, int(rounds) + 1)}
        assert all(values(s["command"], "--epochs")[-1] == epochs for s in trained)
        scored = {s["round"] for s in of(runs[name], "linear")}
        every = name.endswith("5x10")  # The middle panel has every round.
        assert scored == ({0, 1, 2, 3, 4, 5} if every else {int(rounds)})
    found = {
        Path(*values(c, "-o")).stem: (*values(c, "--over"), "--last" in c)
        for c in shown(steps)
    }
    assert found == {
        "figure4-left-1": ("rounds", True), "figure4-middle-1": ("rounds", False),
        "figure4-right-1": ("epochs", True), "figure4-bytes-1": ("bytes", False),
    }  # fmt: skip


@pytest.mark.parametrize(
    "dataset, total", [("digits", 40), ("images", 20), ("cifar100", 200)]
)
def test_the_left_panel_has_as_many_epochs_in_all(plan, dataset, total):
    words = ("table=figure4-left", f"dataset={dataset}", "alpha=1", "seed=0")
    (left,) = shown(plan(PAPER, *words))
    found = re.findall(r"flesd-(\d+)x(\d+)/", values(left, "--series")[0])
    assert len(found) >= 5
    assert {int(rounds) * int(epochs) for rounds, epochs in found} == {total}


TINY = (
    "dataset=digits", "alpha=1", "seed=0", "min_size=10", "linear=--epochs 1",
    "init=--width 0.02 --projector 8,16", "train=--epochs 1", "local=--epochs 1",
    "distill=--epochs 1 --anchors 16 --batch-size 8", "supervise=--epochs 1",
)  # fmt: skip


def test_tables_and_figure_2_are_made(carry_out_tables):
    words = ("table=1,figure2", "rounds=1", *TINY)
    tables = carry_out_tables(PAPER, *words)
    averaged = ["FedAvg", "FedProx", "FLESD", "FLESD-cc"]
    first = ["untrained", "Non-FL", "Min-Local", *averaged]
    alone = ["SimCLR of client 4", "SimCLR of client 5"]
    expected = {
        "1-linear-1": first,
        "1-bytes-1": averaged,
        "figure2-scores-1": ["untrained", "SimCLR", *alone, "supervised",
                             "own classifier"],
    }  # fmt: skip
    assert tables.keys() == expected.keys()
    for name, rows in expected.items():
        lines = tables[name][-len(rows) :]
        assert [line.split("  ")[0] for line in lines] == rows
    for name in ("figure2-bars", "figure2-bubbles-1", "figure2-clients-1"):
        picture = Path(f"exp/digits/tables/flesd/{name}.png")
        assert picture.read_bytes()[1:4] == b"PNG"


def test_other_encodings_are_compared_with_the_bytes_they_cost(carry_out_tables):
    words = ("table=encodings", "encoding=float16,int8,full", *TINY)
    tables = carry_out_tables(PAPER, *words)
    names = ["float32", "float16", "int8", "full"]
    linear = [line.split()[0] for line in tables["encodings-linear-1"][-5:]]
    assert linear == ["untrained", *names]
    rows = [line.split() for line in tables["encodings-bytes-1"][-4:]]
    count = {row[0]: int(row[2].replace(",", "")) for row in rows}
    assert [*count] == names
    assert count["int8"] < count["float16"] < count["float32"] < count["full"]
    uploads = Path("exp/digits/alpha1/int8/seed0/r001").glob("public_*.safetensors")
    assert count["int8"] == sum(path.stat().st_size for path in uploads)


def test_figures_4_and_5_are_drawn(carry_out_tables):
    """plot cost and plot loss find the runs around the files of the lines."""
    tables = "table=figure4-middle,figure4-bytes,figure5"
    carry_out_tables(PAPER, tables, "middle=2x10", "rounds=2", *TINY)
    for name in ("figure4-middle-1", "figure4-bytes-1", "figure5-1"):
        picture = Path(f"exp/digits/tables/flesd/{name}.png")
        assert picture.read_bytes()[1:4] == b"PNG"


def score(
    folder: str, name: str, accuracy: float, number: int, seed: int = 0, **facts
) -> None:
    path = Path("exp/cifar10", folder, f"r{number:03d}", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"round": number, "role": "global", **facts}
    document = {"protocol": "linear", "accuracy": accuracy, "seed": seed}
    write_metrics(path, {**document, "checkpoint": {"seed": None, "facts": facts}})


def test_a_table_has_the_paper_s_numbers_beside_ours(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    score("alpha0.01/fedavg/seed0", "linear.json", 0.3, 0)
    score("nonfl/seed0", "linear.json", 0.9, 1)
    for row, rounds in (("fedavg", 10), ("fedprox", 10), ("flesd", 2), ("cc", 1)):
        score(f"alpha0.01/{row}/seed0", "linear.json", 0.4 + rounds / 100, rounds)
    for client, accuracy in enumerate((0.4, 0.3, 0.42, 0.44, 0.45), start=1):
        facts = {"role": "client", "client": client}
        score("alpha0.01/cc/seed0", f"linear_{client}.json", accuracy, 1, **facts)
    (command,) = shown(plan(PAPER, "table=1-linear", "alpha=0.01", "seed=0"))
    *_, head, _, _, _, _, _, _, _ = lines = run(*command).out.splitlines()
    rows = lines[-7:]
    assert "published" in head and rows[0].split()[:3] == ["untrained", "1", "30.00"]
    assert rows[1].split()[:4] == ["Non-FL", "1", "90.00", "86.30"]
    assert rows[2].split()[:4] == ["Min-Local", "1", "30.00", "60.40"]
    assert rows[3].split() == ["FedAvg", "1", "50.00", "69.90"]
    assert rows[5].split()[:5] == ["FLESD", "1", "42.00", "69.60", "-8.00"]


@pytest.mark.slow
def test_every_number_of_the_paper_is_shown(plan):
    numbers = set()
    for dataset in ("cifar10", "cifar100", "tinyimagenet", "imagenet100"):
        more = ",figure2-scores" if dataset == "cifar10" else ""
        words = (f"table=1-linear,search{more}", f"dataset={dataset}", "seed=0")
        for command in shown(plan(PAPER, *words, "rounds=1")):
            *_, name = values(command, "-o")[0].split("/")
            table, alpha = name.removesuffix(".csv").rsplit("-", 1)
            table = {"1-linear": "table1", "figure2-scores": "figure2"}.get(
                table, table
            )
            for text in values(command, "--published"):
                label, number = text.split("=")
                numbers.add((table, dataset, alpha, label, number))
    with open(FLESD / "paper.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert numbers == {tuple(row) for row in rows}


def test_the_search_has_the_paper_s_grids(plan):
    steps = plan(PAPER, "table=search", "dataset=cifar100", "alpha=1", "seed=0")
    runs: dict[str, set] = {}
    for step in of(steps, "train"):
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
    (command,) = shown(steps)
    assert len(labels(command)) == 16
    assert {*values(command, "--published")} == {
        "FedAvg, 10x20=43.2",
        "FLESD, 2x100=43.8",
    }


def test_claims_are_judged_by_both_alphas(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = {"fedavg": (0.50, 10), "flesd": (0.52, 2), "cc": (0.45, 1)}
    for seed, noise in enumerate((0, 0.001, 0.003)):
        score(f"nonfl/seed{seed}", "linear.json", 0.7, 1, seed=seed)
        for alpha, (row, (accuracy, rounds)) in product((100, 0.01), rows.items()):
            run_ = f"alpha{alpha}/{row}/seed{seed}"
            score(run_, "linear.json", accuracy + noise * rounds, rounds, seed=seed)
            total = {"bytes": (1000 + seed) * rounds}
            path = Path(f"exp/cifar10/{run_}/bytes.json")
            write_metrics(path, {"protocol": "ledger", "seed": seed, "total": total})
        for client, alpha in product(range(1, 6), (100, 0.01)):
            facts = {"role": "client", "client": client, "seed": seed}
            worst = f"alpha{alpha}/cc/seed{seed}"
            score(worst, f"linear_{client}.json", 0.5 - client / 25, 1, **facts)
    (command,) = shown(plan(PAPER, "table=claims"))
    found = run(*command).out.splitlines()[-8:]
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
    # The search: FLESD and FedAvg, with the numbers of Table 1.
    assert len(found) == 6 * 4 * 3 + 3 * 2 + 2 + 2 * 4 * 3
    assert found["table1", "cifar10", "1", "FLESD"] == "76.2"
    assert found["figure2", "cifar10", "0.01", "own classifier"] == "18.5"
    assert "76.2 %" in (FLESD / "recipe.toml").read_text()
