"""examples/fedca: every row at every scale is a plan the program understands."""

import csv
import shutil
from pathlib import Path

import pytest

from furlkit.files.metrics import write_metrics

FEDCA = Path(__file__).resolve().parents[2] / "examples" / "fedca"
ROWS = ("fedae", "fedpr", "fedsimclr", "align", "dictionary", "ensemble", "fedca")
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "scale",
    [
        ("SCALE=cpu",),
        ("SCALE=cpu", "DATASET=images", "DATA=a", "TEST=b", "PUBLIC=c"),
        ("SCALE=paper", "DATASET=cifar100", "ENCODER=resnet50", "TARGET=cifar10"),
    ],
)
def test_every_command_of_every_row_is_understood(planned, tmp_path, row, scale):
    goals = ("all", "semi", "transfer", "angles", "features", "ROUNDS=2")
    words = (f"ROW={row}", "SETTING=noniid", *scale, *goals)
    stages = planned(tmp_path, FEDCA / "row.mk", *words)
    aligned = [stage for stage in stages if stage[0] == "pretrain-align"]
    assert len(aligned) == (row in ("align", "fedca"))
    trained = [stage for stage in stages if stage[0] == "local-train"]
    shared = row in ("dictionary", "ensemble", "fedca")
    assert all(("--features-out" in stage) == shared for stage in trained)
    assert any("--dictionary" in stage for stage in trained) == shared
    scores = {stage[1] for stage in stages if stage[0] == "evaluate"}
    assert scores == {"linear", "semi", "transfer", "angles"}


@pytest.mark.parametrize("goal", ["table1", "table2", "table3", "ablation", "figure3",
                                  "figure4"])  # fmt: skip
def test_every_target_names_runs(make_in, tmp_path, goal):
    words = ("-n", goal, "SEEDS=4", "SCALE=paper", "DATASET=cifar10")
    done = make_in(tmp_path, FEDCA / "Makefile", *words, "SETTINGS=iid noniid")
    assert done.returncode == 0, done.stderr
    assert "fedsimclr/seed4" in done.stdout and "fedca/seed4" in done.stdout


def test_the_paper_s_numbers_are_all_there():
    with open(FEDCA / "paper.csv", newline="") as file:
        found = {
            (r["file"], r["dataset"], r["encoder"], r["setting"], r["row"]): r[
                "percent"
            ]
            for r in csv.DictReader(file)
        }
    # Tables 1 to 3: 48, 2 x 60 and 60 numbers (random init is in both settings).
    assert len(found) == 48 + 120 + 60
    assert found["linear", "cifar10", "cnn5", "noniid", "fedca"] == "63.02"
    assert found["semi1", "miniimagenet", "resnet50", "iid", "fedca"] == "20.22"
    assert found["to_cifar100", "miniimagenet", "cnn5", "iid", "fedsimclr"] == "59.08"


def test_the_summary_puts_the_paper_s_numbers_beside_ours(make_in, tmp_path):
    for seed in (0, 1):
        for row, accuracy in (("fedsimclr", 0.5), ("fedca", 0.52 + seed / 100)):
            folder = (
                tmp_path / "exp" / "cifar10-cnn5-iid" / row / f"seed{seed}" / "r020"
            )
            folder.mkdir(parents=True)
            facts = {"round": 20, "role": "global"}
            document = {"protocol": "linear", "accuracy": accuracy + seed / 50}
            document.update(seed=seed, checkpoint={"seed": None, "facts": facts})
            write_metrics(folder / "linear.json", document)
    words = ("summary", "SCALE=paper", "DATASET=cifar10")
    done = make_in(tmp_path, FEDCA / "Makefile", *words)
    assert done.returncode == 0, done.stderr
    title, head, first, second = done.stdout.strip().splitlines()
    assert title.endswith("iid, cifar10-cnn5, round 20") and "published" in head
    assert first.split() == ["FedSimCLR", "2", "51.00", "1.41", "61.62"]
    assert second.split()[:5] == ["FedCA", "2", "53.50", "2.12", "64.87"]
    assert second.split()[5] == "+2.50"
