"""examples/fcl: recipes, tables, the page, and files that leave a client."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.metrics import write_metrics
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.weights import parts_of
from tests.examples.conftest import (
    EXAMPLES,
    blocks,
    labels,
    needs_make,
    of,
    shown,
    values,
)
from tests.helpers import furlkit

FCL = EXAMPLES / "fcl"
PAPER = FCL / "paper.toml"
SYSTEMS = ("fcl-fusion", "fcl-remote", "fcl")
# Rows, and whether their rate follows FedMoCo's schedule over all rounds.
EVAL = ("fusion_eval", "remote_eval", "fcl_eval")  # Shared rows in eval mode.
SCHEDULED = (
    "fedmoco", "fusion", "remote", "fcl", *EVAL, "feddc", "fedswav", "moco"
)  # fmt: skip
ROWS = (*SCHEDULED, "fedrot", "fedsimclr", "fedca", "fedavg")
SHARING = ("fusion", "remote", "fcl", *EVAL, "fedca")
DATASETS = ("cifar10", "cifar100", "fmnist", "digits", "images", "long")
SPLITS = ("iid", "noniid1", "noniid2")


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_25_lines_at_most():
    assert len((FCL / "recipe.toml").read_text().splitlines()) <= 25


def test_files_pass_from_round_to_round(plan):
    steps = plan(FCL / "recipe.toml")
    assert len(of(steps, "train")) == 500 and len(of(steps, "average")) == 100
    for step in of(steps, "train"):
        (client,), number, command = step["clients"], step["round"], step["command"]
        before = f"exp/r{number - 1:03}"
        given = {"--dictionary": "dictionary", "--private": f"private_{client}"}
        for flag, name in given.items():
            expected = [f"{before}/{name}.safetensors"] if number > 1 else []
            assert values(command, flag) == expected
        assert values(command, "--participants") == ["5"]
        assert values(command, "--preset") == ["fcl"]
    (first, *_) = of(steps, "pool")
    assert first["reads"] == [f"exp/r001/features_{c}.safetensors" for c in range(5)]
    assert [step["round"] for step in of(steps, "linear")] == [0, 100]


def test_a_late_client_has_a_bank_made_for_it(plan):
    words = ("clients=6", "fraction=0.5", "rounds=4", "train=--schedule-rounds 4")
    steps = plan(FCL / "banks.toml", *words)
    for step in of(steps, "train"):
        (client,), number = step["clients"], step["round"]
        bank = f"exp/r{number:03}/dictionary_{client}.safetensors"
        expected = [bank] if number > 1 else []
        assert values(step["command"], "--dictionary") == expected


def test_the_row_fcl_is_the_recipe(plan):
    recipe = plan(FCL / "recipe.toml", "seed=3")
    row = plan(PAPER, "seed=3", "out=exp")
    row = [step for step in row if step["stage"] in {s["stage"] for s in recipe}]
    # The row says itself what the preset has.
    same = {
        "init": ["--encoder", "resnet18"],
        "train": ["--schedule-rounds", "100", "--queue", "4096", "--dictionary-size",
                  "20480", "--neighbour-candidates", "4096"],
        "pool": ["--dictionary-size", "20480"],
        "linear": ["--preset", "fedmoco"],
    }  # fmt: skip
    for step in row:
        for word in same.get(step["stage"], []):
            step["command"].remove(word)
    for step in of(recipe, "linear"):
        step["command"].remove("--preset")
        step["command"].remove("fcl")
    assert [sorted(s["command"]) for s in row] == [sorted(s["command"]) for s in recipe]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_row_is_planned_on_every_dataset(plan, row, dataset):
    words = (f"row={row}", f"dataset={dataset}", "rounds=2")
    for split in SPLITS[:1] if row == "moco" else SPLITS:
        steps = plan(PAPER, *words, f"split={split}")
        clients = 1 if row == "moco" else 10 if split == "noniid2" else 5
        trained = [step["command"] for step in of(steps, "train")]
        assert len(trained) == 2 * clients
        over = ["2"] if row in SCHEDULED else []
        assert all(values(words, "--schedule-rounds") == over for words in trained)
        shared = row in SHARING
        assert all(("--features-out" in words) == shared for words in trained)
        assert any("--dictionary" in words for words in trained) == shared
        assert all(("--align" in words) == (row == "fedca") for words in trained)
        assert len(of(steps, "align")) == (row == "fedca")
        assert len(of(steps, "linear")) == 2
        assert len(of(steps, "classifier")) == (row == "fedavg")
        scores = ("semi1", "semi10", "finetune1", "finetune10", "bytes")
        assert all(len(of(steps, stage)) == 1 for stage in scores)


@pytest.mark.parametrize("row", ["fusion", "remote", "fcl"])
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_client_shares_as_many_rows_as_its_queue_has(plan, row, dataset):
    for split, clients in zip(SPLITS, (5, 5, 10), strict=True):
        words = (f"row={row}", f"dataset={dataset}", f"split={split}", "rounds=1")
        steps = plan(PAPER, *words)
        queue = int(values(of(steps, "train")[0]["command"], "--queue")[-1])
        for step in (*of(steps, "train"), *of(steps, "pool")):
            size = values(step["command"], "--dictionary-size")[-1]
            assert int(size) == clients * queue


def test_protocols_are_the_paper_s_at_its_scale(plan):
    steps = plan(PAPER, "row=fedsimclr", "rounds=1")
    few, tenth, *_ = (of(steps, stage)[0]["command"] for stage in ("semi1", "semi10"))
    assert values(few, "--lr") == ["0.02"] and values(few, "--head-lr") == ["5"]
    assert "--lr" not in tenth
    for stage in ("linear", "semi1", "semi10", "finetune1", "finetune10"):
        (step, *_) = of(steps, stage)
        assert values(step["command"], "--preset") == ["fedmoco"]


@pytest.mark.parametrize("row", ROWS)
def test_statistics_of_rows_reach_rows_of_encrypted_images_alone(plan, row):
    words = (f"row={row}", "statistics=running", "rounds=1", "dataset=digits")
    commands = [s["command"] for s in of(plan(PAPER, *words), "train")]
    expected = ["running"] if row in ("fusion", "remote", "fcl", *EVAL) else []
    assert all(values(words, "--rows-statistics") == expected for words in commands)


@pytest.mark.parametrize("row", EVAL)
def test_rows_in_eval_mode_differ_in_the_mode_alone(plan, row):
    words = ("dataset=long", "split=noniid1", "rounds=2", "out=exp")
    printed = plan(PAPER, *words, f"row={row.removesuffix('_eval')}")
    for ours, theirs in zip(plan(PAPER, *words, f"row={row}"), printed, strict=True):
        mode = values(ours["command"], "--rows-statistics")
        assert mode == ["running"] * (ours["stage"] == "train")
        for word in ("--rows-statistics", *mode) if mode else ():
            ours["command"].remove(word)
        assert sorted(ours["command"]) == sorted(theirs["command"])


def test_settings_of_swav_and_deepcluster_reach_them_alone(plan):
    words = ("dataset=images", "prototypes=17")
    for row in ("fedswav", "feddc", "fcl"):
        steps = plan(PAPER, *words, f"row={row}", "rounds=1")
        init, train = (of(steps, stage)[0]["command"] for stage in ("init", "train"))
        swav, clustered = row == "fedswav", row == "feddc"
        assert values(init, "--prototypes") == (["17"] if swav else [])
        assert values(train, "--batch-size") == (["128"] if swav else [])
        assert values(train, "--epsilon") == (["0.02"] if swav else [])
        assert values(train, "--clusters") == (["30,30,30"] if clustered else [])


@pytest.mark.parametrize("row, split", [*(("fcl", s) for s in SPLITS), ("moco", "iid")])
def test_the_partition_of_a_row_can_be_made(plan, run, tmp_path, row, split):
    """Only the partition itself shows what a scheme refuses, and who has which class."""
    words = (f"row={row}", "dataset=digits", f"split={split}", f"out={tmp_path}")
    (step,) = of(plan(PAPER, *words), "partition")
    assert run(*step["command"], "-q").code == 0
    found = read_partition(Path(step["outputs"][0]))
    clients = 1 if row == "moco" else {"noniid2": 10}.get(split, 5)
    assert found.histogram.shape == (clients, 10) and len(found.public)
    each, copies = {"noniid1": (2, 1), "noniid2": (2, 2)}.get(split, (10, clients))
    assert ((found.histogram > 0).sum(axis=1) == each).all()
    assert ((found.histogram > 0).sum(axis=0) == copies).all()


@pytest.mark.parametrize("split, copies", [("noniid1", 1), ("noniid2", 2)])
def test_clients_of_cifar_100_have_20_classes(plan, run, tmp_path, split, copies):
    """The same number of images for each, as all classes have as many."""
    labels = np.repeat(np.arange(100), 4)
    images = np.zeros((400, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "hundred.npz", images=images, labels=labels)
    words = ("dataset=cifar100", f"data={tmp_path / 'hundred.npz'}", f"split={split}")
    steps = plan(PAPER, *words, f"out={tmp_path / 'exp'}", "rounds=1")
    (step,) = of(steps, "partition")
    assert run(*step["command"], "-q").code == 0
    histogram = read_partition(Path(step["outputs"][0])).histogram
    assert histogram.shape == (5 * copies, 100)
    assert ((histogram > 0).sum(axis=1) == 20).all()
    assert ((histogram > 0).sum(axis=0) == copies).all()
    assert (histogram.sum(axis=1) == 80 // copies).all()


# --- the tables and the page ----------------------------------------------------------


@needs_make
def test_every_command_of_the_page_is_accepted(recorded, check_all):
    commands = [c for block in blocks(FCL / "README.md") for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) >= 8
    ratios = [c for c in commands if values(c, "--value") == ["false_negative_ratio"]]
    assert len(ratios) == 1 and len(values(ratios[0], "--series")) == 12
    check_all(commands)


PARTS = ["FedSimCLR", "FedMoCo", "+ fusion", "+ fusion, remote alone",
         "+ fusion and matching", "FedSwAV", "FedDC"]  # fmt: skip
BASELINES = ["FedRot", "FedDC", "FedSwAV", "FedSimCLR", "FedCA", "FCL"]
MOCO, FEDAVG = ["MoCo (centralised)"], ["FedAvg (supervised)"]
STEPS = ["CL", "CL+FF", "CL+FF+NM"]
MODES = [f"{part}, rows in eval mode" for part in PARTS[2:5]]


def test_every_table_has_its_lines(plan):
    tables = "table=ablation,modes,1,2,3,figure4,figure5,claims"
    commands = shown(plan(PAPER, tables, "dataset=digits", "rounds=1", "seed=4"))
    found = {Path(values(c, "-o")[0]).name: labels(c) for c in commands}
    every = ["untrained", *BASELINES, *MOCO, *FEDAVG]
    expected = {
        "ablation-bytes-noniid1.csv": PARTS,
        **{
            f"ablation-linear-noniid1.{e}": ["untrained", *PARTS]
            for e in ("csv", "png")
        },
        **{f"modes-noniid1.{e}": [*PARTS[1:5], *MODES] for e in ("csv", "png")},
        "claims-noniid1.csv": PARTS,
        "figure4-iid.png": every,
        **{f"1-{split}.csv": every for split in SPLITS},
    }
    for split in SPLITS[:2]:
        for percent in (1, 10):
            expected[f"2-{split}-{percent}.csv"] = [*BASELINES, *MOCO]
            expected[f"3-{split}-{percent}.csv"] = [*BASELINES, *FEDAVG]
        for file in ("linear", "semi1"):
            expected |= {f"figure5-{split}-{file}.{e}": STEPS for e in ("csv", "png")}
    assert found == expected


TINY = (
    "dataset=digits", "seed=0", "clients=2", "each=5", "rounds=1", "linear=--epochs 1",
    "init=--width 0.02 --projector 8,4", "finetune_rounds=1",
    "align=--images 60 --epochs 1 --batch-size 30",
    "train=--epochs 1 --batch-size 240 --flip 0", "semi1=--epochs 1",
    "finetune1=--epochs 1", "scratch1=--epochs 1",
)  # fmt: skip


def test_tables_are_made(carry_out_tables):
    chosen = ("table=1,3,figure5,claims", "split=noniid1", *TINY, "semi10=--epochs 1")
    more = ("finetune10=--epochs 1", "scratch10=--epochs 1")
    tables = carry_out_tables(PAPER, *chosen, *more)
    linear = " ".join(tables["1-noniid1"])
    assert all(label in linear for label in [*BASELINES, *MOCO, *FEDAVG])
    assert "Feature fusion helps MoCo" in " ".join(tables["claims-noniid1"])
    picture = Path("exp/digits/tables/fcl/figure5-noniid1-semi1.png")
    assert picture.read_bytes()[1:4] == b"PNG"


def test_a_table_has_the_paper_s_numbers_beside_ours(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("table=figure5", "split=noniid1", "rounds=1", "seed=0")
    (command,) = (
        c for c in shown(plan(PAPER, *words))
        if values(c, "-o") == ["exp/cifar10/tables/fcl/figure5-noniid1-semi1.csv"]
    )  # fmt: skip
    for row, accuracy in {"fedmoco": 0.6, "fusion": 0.61, "fcl": 0.63}.items():
        folder = Path(f"exp/cifar10/noniid1/{row}/seed0")
        folder.mkdir(parents=True)
        facts = {"round": 100, "role": "global"}
        document = {"protocol": "semi", "accuracy": accuracy, "seed": 0}
        document["checkpoint"] = {"seed": None, "facts": facts}
        write_metrics(folder / "semi1.json", document)
    *_, head, first, second, third = run(*command).out.splitlines()
    assert "published" in head
    assert [line.split()[:4] for line in (first, second, third)] == [
        ["CL", "1", "60.00", "64.00"], ["CL+FF", "1", "61.00", "66.12"],
        ["CL+FF+NM", "1", "63.00", "67.87"],
    ]  # fmt: skip


def test_every_number_of_the_paper_is_beside_one_of_ours(plan):
    """Each line of paper.csv is an option of a table's comparison."""
    used = []
    for dataset in ("cifar10", "cifar100", "fmnist"):
        words = ("table=1,2,3,figure5", f"dataset={dataset}", "rounds=1", "seed=0")
        commands = shown(plan(PAPER, *words))
        used += [value for c in commands for value in values(c, "--published")]
    with open(FCL / "paper.csv", newline="") as file:
        lines = [*csv.reader(file)][1:]
    assert sorted(used) == sorted(f"{method}={value}" for *_, method, value in lines)


def test_the_paper_s_numbers_are_all_there_and_agree_with_its_text():
    with open(FCL / "paper.csv", newline="") as file:
        found = {tuple(row[:-1]): float(row[-1]) for row in [*csv.reader(file)][1:]}
    # Tables 1 to 3, and the text on Figure 5; MoCo has no number of its own if not IID.
    assert len(found) == (8 * 9 - 6) + 7 * 12 + 7 * 12 + 6

    def ahead(dataset, split, other):
        ours, theirs = (found["linear", dataset, split, m] for m in ("FCL", other))
        return round(ours - theirs, 2)

    assert ahead("cifar10", "iid", "FedCA") == 10.92
    assert ahead("cifar10", "iid", "FedSwAV") == 5.28
    assert ahead("cifar10", "iid", "MoCo (centralised)") == -0.38
    assert ahead("cifar100", "iid", "FedCA") == 12.98
    assert ahead("cifar100", "iid", "MoCo (centralised)") == -1.81
    swav = [ahead("cifar100", split, "FedSwAV") for split in SPLITS]
    assert swav == [6.4, 6.09, 4.86]
    steps = ("CL", "CL+FF", "CL+FF+NM")
    linear, semi = (
        [found[f"figure5_{kind}", "cifar10", "noniid1", step] for step in steps]
        for kind in ("linear", "semi1")
    )
    assert np.diff(linear) == pytest.approx([3.68, 0.43])
    assert np.diff(semi) == pytest.approx([2.12, 1.75])
    assert linear[-1] == found["linear", "cifar10", "noniid1", "FCL"]
    assert semi[-1] == found["semi1", "cifar10", "noniid1", "FCL"]
    assert found["finetune1", "fmnist", "noniid1", "FedAvg (supervised)"] == 66.03


# --- false negatives, and what leaves a client ----------------------------------------


def test_false_negatives_by_number_of_clients_and_classes(plan, run, tmp_path):
    """Digits have 142 to 147 images of each class, so that ratios are nearly exact."""
    found = {}
    for row in ("5x2", "5x4", "10x2"):
        for step in plan(FCL / "negatives.toml", f"row={row}", f"out={tmp_path / row}"):
            assert run(*step["command"], "-q").code == 0
        document = json.loads((tmp_path / row / "fused.json").read_text())
        found[row] = [document["measured"][k] for k in ("local", "fused", "remote")]
    assert found["5x2"] == pytest.approx([0.5, 0.1, 0], abs=0.01)
    assert found["5x4"] == pytest.approx([0.25, 0.1, 0.25 / 4], abs=0.01)
    assert found["10x2"] == pytest.approx([0.5, 0.1, 0.5 / 9], abs=0.01)


SMALL = (
    "data=digits", "clients=3", "rounds=2",
    "init=--encoder cnn5 --width 0.05 --projector 16,8",
    "train=--epochs 2 --batch-size 60 --queue 50 --schedule constant "
    "--schedule-rounds 1 --dictionary-size 60",
)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where the run of each preset lies, which the first test that needs it makes."""
    return {name: tmp_path_factory.mktemp(name) / "exp" for name in SYSTEMS}


@pytest.fixture
def carried_out(folders, plan, run):
    """The folder of two small rounds with a preset."""

    def call(preset):
        out = folders[preset]
        if not out.exists():
            steps = plan(FCL / "recipe.toml", f"preset={preset}", f"out={out}", *SMALL)
            for step in (s for s in steps if s["stage"] != "linear"):
                done = run(*step["command"], "-q")
                assert done.code == 0, done.err
        return out

    return call


@pytest.mark.parametrize("preset", SYSTEMS)
def test_what_leaves_a_client_is_its_two_networks_and_unit_rows(carried_out, preset):
    folder = carried_out(preset) / "r002"
    dataset = Container(folder.parent / "partition.safetensors").header.facts["dataset"]
    for client in range(3):
        upload = folder / f"client_{client}.safetensors"
        shared = folder / f"features_{client}.safetensors"
        parts = ["encoder", "projector", "target.encoder", "target.projector"]
        assert parts_of(load_file(upload)) == parts
        tensors = load_file(shared)
        assert tensors.keys() == {"rows", "index"}
        assert tensors["index"].tolist() == list(range(20))
        np.testing.assert_allclose(
            np.linalg.norm(tensors["rows"], axis=1), 1, rtol=1e-6
        )
        private = read_private(folder / f"private_{client}.safetensors", client)
        keys = private.tensors["queue.rows"]
        assert keys.shape == (50, 8) and np.abs(keys).sum() > 0
        for path in (upload, shared):
            raw = path.read_bytes()
            assert not any(key.tobytes() in raw for key in keys)
            for secret in (dataset["images"], dataset["labels"]):
                assert secret.encode() not in raw
        header = Container(shared).header
        assert header.facts["share_rows"] == "instahide"
        assert header.facts.keys() == {"layer", "dataset", "part", "client", "round",
                                       "examples", "parent", "run", "share_rows"}  # fmt: skip


@pytest.mark.parametrize("preset", SYSTEMS)
def test_no_shared_row_is_that_of_a_clean_image(carried_out, preset, forge, tmp_path):
    """Neither by f_q nor by f_k; plain rows, of the same images, are found by it."""
    folder = carried_out(preset)
    rows = read_features(folder / "r002" / "features_0.safetensors").rows
    upload = folder / "r002" / "client_0.safetensors"
    slow = {k: v for k, v in load_file(upload).items() if k.startswith("target.")}
    (tmp_path / "f_q").write_bytes(upload.read_bytes())
    (tmp_path / "f_k").write_bytes(upload.read_bytes())
    forge(tmp_path / "f_k", {k.removeprefix("target."): v for k, v in slow.items()})
    for name in ("f_q", "f_k"):
        part = ("--partition", folder / "partition.safetensors", "--part", 0)
        words = ("embed", tmp_path / name, "--data", "digits", *part, "--layer", "z")
        assert furlkit(*words, "-o", tmp_path / "z") == 0
        z = read_features(tmp_path / "z").rows
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        nearest = np.linalg.norm(rows[:, None] - z, axis=2).min(axis=1)
        assert nearest.min() > 1e-4


def test_a_bank_for_each_client_gives_the_same_models(carried_out, plan, run, tmp_path):
    """The server leaves a client's rows out, with two clients in one process."""
    words = ("preset=fcl", f"out={tmp_path}", *SMALL, "--group", "2")
    steps = [s for s in plan(FCL / "banks.toml", *words) if s["stage"] != "linear"]
    for step in steps:
        assert run(*step["command"], "-q").code == 0
    assert len(of(steps, "pool")) == 3
    bank = read_features(tmp_path / "r002" / "dictionary_1.safetensors")
    assert bank.facts.owners == [[0, 20], [1, 0], [2, 20]]
    one, each = (
        load_file(folder / "r002" / "global.safetensors")
        for folder in (carried_out("fcl"), tmp_path)
    )
    assert {k: v.tobytes() for k, v in one.items()} == {
        k: v.tobytes() for k, v in each.items()
    }


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_client_trains_with_the_rows_of_others_alone(carried_out, preset):
    folder = carried_out(preset)
    first, second = (
        Container(folder / f"r00{number}" / "client_0.safetensors").header
        for number in (1, 2)
    )
    bank = Container(folder / "r001" / "dictionary.safetensors")
    assert bank.header.facts["owners"] == [[0, 20], [1, 20], [2, 20]]
    assert "dictionary" not in first.inputs and "leave-own-out" not in first.options
    assert second.inputs["dictionary"] == bank.content
    assert second.options["leave-own-out"] is True
    remote = "remote" if preset == "fcl-remote" else None
    assert (
        second.options.get("negatives") == remote and "negatives" not in first.options
    )
    assert second.options.get("neighbours") == (5 if preset == "fcl" else None)
