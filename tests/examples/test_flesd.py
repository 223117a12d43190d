"""examples/flesd: every row at every scale is a plan the program understands."""

import csv
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from furlkit.files.metrics import write_metrics

FLESD = Path(__file__).resolve().parents[2] / "examples" / "flesd"
ENCODED = ("float16", "int8", "top1", "top1-int8", "full")
IMAGES = ("SCALE=cpu", "DATASET=images", "DATA=a", "TEST=b")
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.mark.parametrize("row", ["flesd", "cc", "fedavg", "fedprox", "nonfl"])
@pytest.mark.parametrize(
    "scale",
    [
        ("SCALE=cpu",),
        IMAGES,
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


@pytest.mark.parametrize("row", ["cc", "fedavg", "nonfl", "simclr", "supervised"])
def test_the_partition_of_a_row_can_be_made(planned, run, tmp_path, row):
    """Only the partition itself shows what a scheme refuses."""
    words = (f"ROW={row}", "ALPHA=0.01", "all")
    stage, *_ = planned(tmp_path, FLESD / "row.mk", *words)
    place = stage.index("-o") + 1
    done = run(*stage[:place], tmp_path / "p.safetensors")
    clients = 1 if row == "nonfl" else 6
    assert stage[0] == "partition" and done.code == 0, done.err
    assert f"{clients} clients of" in done.out


def test_the_whole_table_names_every_row_alpha_and_seed(make_in, tmp_path):
    done = make_in(tmp_path, FLESD / "Makefile", "-n", "table1", "SEEDS=3 7")
    assert done.returncode == 0, done.stderr
    for row in ("nonfl", "cc", "fedavg", "fedprox", "flesd"):
        for run in ("100", "0.01") if row != "nonfl" else ("all",):
            assert f"digits-{run}/{row}/seed3" in done.stdout
            assert f"digits-{run}/{row}/seed7" in done.stdout


def words_after(stage, flag):
    return stage[stage.index(flag) + 1]


@pytest.mark.parametrize("row", ENCODED)
def test_an_encoding_changes_what_is_sent_and_nothing_else(planned, tmp_path, row):
    words = ("ALPHA=100", "EVALUATE=linear:last", "OUT=exp")
    plain = planned(tmp_path, FLESD / "row.mk", *words, "ROW=cc")
    stages = planned(tmp_path, FLESD / "row.mk", *words, f"ROW={row}")
    flags = {
        "float16": ["--encoding", "float16"],
        "int8": ["--encoding", "int8"],
        "top1": ["--similarity", "--top", "1"],
        "top1-int8": ["--similarity", "--top", "1", "--encoding", "int8"],
        "full": ["--similarity"],
    }
    embeds = [stage for stage in stages if stage[0] == "embed"]
    assert len(embeds) == 5
    for stage in embeds:
        at = stage.index(flags[row][0])
        assert stage[at : at + len(flags[row])] == flags[row]
        del stage[at : at + len(flags[row])]
    assert stages == plain


@pytest.mark.parametrize("row, epochs", [("simclr", "200"), ("supervised", "100")])
@pytest.mark.parametrize("scale", [IMAGES, ("SCALE=paper", "DATASET=cifar10")])
def test_clients_that_nobody_aggregates_are_all_scored(
    planned, tmp_path, row, epochs, scale
):
    words = (f"ROW={row}", "ALPHA=0.01", *scale, "alone")
    stages = planned(tmp_path, FLESD / "row.mk", *words)
    kinds = [stage[0] for stage in stages]
    assert not {"aggregate", "distill", "embed"} & set(kinds)
    for score in ("linear", "classifier"):
        models = {stage[2] for stage in stages if stage[:2] == ["evaluate", score]}
        trained = {f"exp/r001/client_{k}.safetensors" for k in range(6)}
        assert models == (
            trained if row == "supervised" or score == "linear" else set()
        )
    trained = [stage for stage in stages if stage[0] == "local-train"]
    if "SCALE=paper" in scale:
        assert [words_after(stage, "--epochs") for stage in trained] == [epochs] * 6


def test_an_unknown_row_is_refused(make_in, tmp_path):
    done = make_in(tmp_path, FLESD / "row.mk", "-n", "ROW=flsed")
    assert done.returncode == 2
    assert "ROW=flsed" in done.stderr


PLOTS = {
    "figure2": {
        *(
            f"{name}-{a}"
            for a in ("100", "1", "0.01")
            for name in ("bubbles", "clients")
        ),
        "alphas",
    },
    "figure4": {
        f"{panel}-{a}"
        for a in ("100", "0.01")
        for panel in ("left", "middle", "right", "bytes")
    },
    "figure5": {"loss"},
}
FEW = ("ROUNDS4=1 2", "MIDDLE4=3", "EPOCHS4=5 10")


@pytest.mark.parametrize("goal", PLOTS)
@pytest.mark.parametrize("scale", [(), ("SCALE=paper", "DATASET=cifar100")])
def test_a_figure_is_drawn_of_runs_that_were_made(planned, tmp_path, goal, scale):
    stages = planned(tmp_path, FLESD / "Makefile", goal, "SEEDS=4", *scale, *FEW)
    plots = [stage for stage in stages if stage[0] == "plot"]
    pictures = [Path(words_after(stage, "-o")) for stage in plots]
    assert {picture.stem for picture in pictures} == PLOTS[goal]
    assert len(pictures) == len(PLOTS[goal])
    assert {picture.parent.name.partition("-")[2] for picture in pictures} == {goal}
    drawn = {
        Path(name)
        for stage in plots
        for word in stage
        if "=exp/" in word
        for name in word.partition("=")[2].split(",")
    }
    made = {Path(words_after(s, "-o")) for s in stages if s[0] != "plot"}
    folders = {folder for path in made for folder in path.parents}
    assert drawn and drawn <= made | folders


def test_the_panels_of_figure_4_have_the_rounds_and_epochs_they_say(planned, tmp_path):
    words = ("figure4", "SEEDS=0", "ALPHA4=1", "TOTAL4=12", "ROUNDS4=1 2", "MIDDLE4=3")
    stages = planned(tmp_path, FLESD / "Makefile", *words, "LOCAL4=7", "EPOCHS4=6 10")
    trained, scored = {}, {}
    for stage in stages:
        run = Path(words_after(stage, "-o")).parent.parent.parent.name
        if stage[0] == "local-train":
            round_ = int(Path(words_after(stage, "-o")).parent.name[1:])
            trained.setdefault(run, set()).add((round_, words_after(stage, "--epochs")))
        elif stage[:2] == ["evaluate", "linear"]:
            scored[run] = scored.get(run, 0) + 1
    # Two rounds of six epochs are in the left panel and in the right one, but made once.
    schemes = {"t01-e12": (1, 12, 1), "t02-e06": (2, 6, 1), "t02-e10": (2, 10, 1),
               "t03-e07": (3, 7, 4)}  # fmt: skip
    assert set(trained) == {f"{r}-{s}" for r in ("flesd", "fedavg") for s in schemes}
    for run, rounds in trained.items():
        T, E, scores = schemes[run.partition("-")[2]]
        assert rounds == {(n, str(E)) for n in range(1, T + 1)}
        assert scored[run] == scores
    by_name = {Path(words_after(s, "-o")).stem: s for s in stages if s[0] == "plot"}
    over = {k.partition("-")[0]: words_after(s, "--over") for k, s in by_name.items()}
    assert over.pop("left") == over.pop("middle") == "rounds"
    assert over == {"right": "epochs", "bytes": "bytes"}
    lasts = {name for name, stage in by_name.items() if "--last" in stage}
    assert lasts == {"left-1", "right-1"}


def test_other_encodings_train_no_client_twice(planned, tmp_path):
    stages = planned(tmp_path, FLESD / "Makefile", "encodings", "SEEDS=0", "ALPHAS=1")
    made = {}
    for stage in stages:
        run = Path(words_after(stage, "-o")).relative_to("exp/digits-1").parts[0]
        made.setdefault(run, set()).add(stage[0])
    training = made.pop("cc")
    assert {"partition", "init", "local-train", "distill"} <= training
    assert set(made) == set(ENCODED) - {"full"}
    for kinds in made.values():
        assert kinds == {"embed", "aggregate", "distill", "evaluate"}


def test_a_copy_is_whole_dated_as_the_original_and_made_once(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    (one / "r001").mkdir(parents=True)
    (one / "r001" / "client_1").write_text("trained")
    os.utime(one / "r001" / "client_1", (1000, 1000))
    command = ["sh", FLESD / "copy.sh", one, other, "r001/client_1"]
    assert subprocess.run(command).returncode == 0
    copy = other / "r001" / "client_1"
    assert copy.read_text() == "trained" and copy.stat().st_mtime == 1000
    copy.write_text("kept")
    assert subprocess.run(command).returncode == 0 and copy.read_text() == "kept"
    done = subprocess.run([*command, "r001/client_2"], capture_output=True, text=True)
    assert done.returncode != 0 and "client_2" in done.stderr
    assert [path.name for path in copy.parent.iterdir()] == ["client_1"]


def score(path, accuracy, round_=1, role="global", seed=0, client=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"round": round_, "role": role, "client": client}
    document = {"protocol": "linear", "accuracy": accuracy, "seed": seed}
    checkpoint = {"seed": None, "facts": facts}
    write_metrics(path, {**document, "checkpoint": checkpoint})


def summary(make_in, tmp_path):
    done = make_in(tmp_path, FLESD / "Makefile", "summary", "DATASET=cifar10")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def test_the_summary_puts_the_paper_s_numbers_beside_ours(make_in, tmp_path):
    with open(FLESD / "paper.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4 * 3 * 6
    runs = tmp_path / "exp" / "cifar10-0.01"
    score(tmp_path / "exp" / "cifar10-all/nonfl/seed0/r001/linear.json", 0.9)
    score(runs / "flesd" / "seed0" / "r002" / "linear.json", 0.5, round_=2)
    for client, accuracy in ((1, 0.4), (2, 0.3), (5, 0.45)):
        path = runs / "cc" / "seed0" / "r001" / f"linear_{client}.json"
        score(path, accuracy, role="client", client=client)
    lines = summary(make_in, tmp_path)
    at = lines.index("Linear evaluation (Table 1), cifar10, alpha 0.01")
    head, whole, lowest, flesd = lines[at + 1 : at + 5]
    assert "published" in head
    assert whole.split() == ["all", "in", "one", "place", "1", "90.00", "86.30"]
    assert lowest.split() == ["Min-Local", "1", "30.00", "60.40"]
    assert flesd.split() == ["FLESD", "1", "50.00", "69.60"]


def test_the_summary_has_clients_alone_and_other_encodings(make_in, tmp_path):
    runs = tmp_path / "exp" / "cifar10-100"
    for client, accuracy in ((0, 0.4), (3, 0.6)):
        for row, name in (("simclr", "linear"), ("supervised", "classifier")):
            path = runs / row / "seed0" / "r001" / f"{name}_{client}.json"
            score(path, accuracy, role="client", client=client)
    for row, accuracy in (("cc", 0.5), ("int8", 0.48)):
        score(runs / row / "seed0" / "r001" / "linear.json", accuracy)
    lines = summary(make_in, tmp_path)
    at = lines.index("Clients and seeds, each alone (Figure 2), cifar10, alpha 100")
    assert lines[at + 2].split() == ["SimCLR", "2", "50.00", "14.14", "72.80"]
    head = ["supervised,", "own", "head"]
    assert lines[at + 3].split() == [*head, "2", "50.00", "14.14", "73.00"]
    at = lines.index("What is sent in other encodings, cifar10, alpha 100")
    assert lines[at + 2].split() == ["FLESD-cc", "1", "50.00", "73.20"]
    assert lines[at + 3].split() == ["int8", "1", "48.00", "-2.00"]


def test_the_summary_counts_bytes_as_the_ledger_does(make_in, tmp_path, run, world):
    place = tmp_path / "exp" / "cifar10-100" / "fedavg"
    for seed in (0, 1):
        folder = place / f"seed{seed}"
        score(folder / "r010" / "linear.json", 0.5, round_=10, seed=seed)
        shutil.copytree(world.folder, folder / "r001")
        (folder / "r001" / world.output.name).unlink()
        clients = [folder / "r001" / client.name for client in world.clients]
        model = folder / "r002" / "global.safetensors"
        assert run("aggregate", *clients[: 3 - seed], "-o", model).code == 0
    sent = sum(client.stat().st_size for client in world.clients)
    received = 3 * world.model.stat().st_size
    sent -= world.clients[2].stat().st_size / 2
    lines = summary(make_in, tmp_path)
    (line,) = (line for line in lines if line.startswith("FedAvg") and "," in line)
    assert lines[lines.index(line) - 1].split()[0] == "bytes"
    numbers = (f"{number:,.0f}" for number in (sent, received, sent + received))
    assert line.split() == ["FedAvg", "2", *numbers]


def test_clean_leaves_nothing(make_in, tmp_path):
    names = ("all", "100", "1", "0.01", "figure2", "figure4", "figure5")
    for name in names:
        (tmp_path / "exp" / f"digits-{name}" / "x").mkdir(parents=True)
    assert make_in(tmp_path, FLESD / "Makefile", "clean").returncode == 0
    assert list(tmp_path.iterdir()) == []
