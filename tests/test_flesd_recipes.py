"""examples/flesd: every row at every scale is a plan the program understands."""

import csv
import shutil
from pathlib import Path

import pytest

from furlkit.files.metrics import write_metrics

FLESD = Path(__file__).resolve().parent.parent / "examples" / "flesd"
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.mark.parametrize("row", ["flesd", "cc", "fedavg", "fedprox", "nonfl"])
@pytest.mark.parametrize(
    "scale",
    [
        ("SCALE=cpu",),
        ("SCALE=cpu", "DATASET=images", "DATA=a", "TEST=b"),
        ("SCALE=paper", "DATASET=cifar100"),
    ],
)
def test_every_command_of_every_row_is_understood(planned, tmp_path, row, scale):
    words = (f"ROW={row}", "ALPHA=0.01", *scale, "all", "locals")
    stages = planned(tmp_path, FLESD / "row.mk", *words)
    distilled = [stage for stage in stages if stage[0] == "distill"]
    averaged = [stage for stage in stages if stage[0] == "aggregate"]
    assert len(distilled) == {"flesd": 2, "cc": 1}.get(row, 0)
    assert all(("--rule" in stage) == bool(distilled) for stage in averaged)
    trained = [s[s.index("--client") + 1] for s in stages if s[0] == "local-train"]
    clients = {client for group in trained for client in group.split(",")}
    whole = {"nonfl": {"0"}, "flesd": set("12345"), "cc": set("12345")}
    assert clients == whole.get(row, set("012345"))
    # What a client trained itself stays with it: only what embed made of it is sent.
    if distilled:
        assert not any("client_" in word for stage in averaged for word in stage)


def test_the_whole_table_names_every_row_alpha_and_seed(make_in, tmp_path):
    done = make_in(tmp_path, FLESD / "Makefile", "-n", "table1", "SEEDS=3 7")
    assert done.returncode == 0, done.stderr
    for row in ("nonfl", "cc", "fedavg", "flesd"):
        for run in ("100", "0.01"):
            assert f"digits-{run}/{row}/seed3" in done.stdout
            assert f"digits-{run}/{row}/seed7" in done.stdout


def test_the_summary_puts_the_paper_s_numbers_beside_ours(make_in, tmp_path):
    with open(FLESD / "paper.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * 3 * 6
    for row, round_, name in (("flesd", 2, "linear"), ("cc", 1, "linear_3")):
        folder = tmp_path / "exp" / "cifar10-0.01" / row / "seed0" / f"r00{round_}"
        folder.mkdir(parents=True)
        facts = {"round": round_, "role": "global"}
        document = {"protocol": "linear", "accuracy": 0.5, "seed": 0}
        checkpoint = {"seed": None, "facts": facts}
        write_metrics(folder / f"{name}.json", {**document, "checkpoint": checkpoint})
    done = make_in(tmp_path, FLESD / "Makefile", "summary", "DATASET=cifar10")
    assert done.returncode == 0, done.stderr
    title, head, client, flesd = done.stdout.strip().splitlines()
    assert title.endswith("cifar10, alpha 0.01") and "published" in head
    assert client.split() == ["client", "3", "alone", "1", "50.00"]
    assert flesd.split() == ["FLESD", "1", "50.00", "69.60"]
