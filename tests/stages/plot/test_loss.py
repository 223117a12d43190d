"""plot loss on runs of a few bytes: numbers, jumps, what it draws and refuses."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from furlkit.files.container import read as container
from furlkit.files.container.header import Header
from furlkit.files.journal import Journal
from furlkit.reports.figures.loss import Loss, draw_loss


def client(folder, round_, number, losses, epochs=None, kind="checkpoint", **facts):
    """A client's checkpoint of a round, with the journal of its epochs beside it."""
    path = folder / f"r{round_:03}" / f"client_{number}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"client": number, "round": round_, "role": "client", **facts}
    plan = {"epochs": len(losses) if epochs is None else epochs}
    header = Header(kind, "local-train", {"plan": plan}, None, {}, facts)
    container.write(path, {"w": np.full(2, number, "f4")}, header)
    for epoch, terms in enumerate(losses, start=1):
        terms = terms if isinstance(terms, dict) else {"simclr": terms}
        entry = {"event": "epoch", "epoch": epoch, "step": 5 * epoch, "losses": terms}
        Journal(path).write(entry)
    return path


@pytest.fixture
def make(tmp_path):
    """The folder of a run: for each round the losses of its clients, by number."""

    def build(name, *rounds):
        folder = tmp_path / name
        for round_, clients in enumerate(rounds, start=1):
            for number, losses in clients.items():
                client(folder, round_, number, losses)
        return folder

    return build


@pytest.fixture
def folder(make):
    """Two rounds of two epochs; the loss of client 2 is always higher by 1."""
    return make("run", {1: [4, 3], 2: [5, 4]}, {1: [3.5, 2], 2: [4.5, 3]})


@pytest.fixture
def draw(run, tmp_path):
    """Call plot loss with --json, but draw nothing; gives its lines."""

    def call(*series, more=()):
        words = [word for one in series for word in ("--series", one)]
        output = tmp_path / "loss.png"
        done = run("plot", "loss", *words, "-o", output, "--json", "--dry-run", *more)
        assert done.code == 0 and done.err == "", done
        return json.loads(done.out)["lines"]

    return call


def test_epochs_of_all_rounds_with_mean_and_spread_of_clients(folder, run, tmp_path):
    output = tmp_path / "loss.png"
    done = run("plot", "loss", "--series", f"A={folder}", "-o", output, "--json")
    assert done.code == 0 and done.err == ""
    assert json.loads(done.out) == {
        "output": str(output),
        "term": None,
        "lines": [
            {"label": "A", "rounds": [1, 1, 2, 2], "epochs": [1, 2, 3, 4],
             "mean": [4.5, 3.5, 4.0, 2.5], "std": [0.5**0.5] * 4, "clients": [2] * 4,
             "runs": [1] * 4, "aggregation": [0.5]}
        ],
    }  # fmt: skip
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_what_is_told_of_each_line(folder, make, run, tmp_path):
    other = make("b", {0: [1.25]}, {0: [1]}, {0: [0.5]})
    once = make("c", {0: [3, 2]})
    words = [f"FLESD={folder}", "--series", f"FedAvg={other}", "--series", f"cc={once}"]
    done = run("plot", "loss", "--series", *words, "-o", tmp_path / "x.png")
    assert done.out == (
        f"{tmp_path}/x.png: FLESD 2.5 after round 2, aggregation +0.5 on average; "
        "FedAvg 0.5 after round 3, aggregation -0.375 on average; "
        "cc 2 after its only round\n"
    )


def test_same_numbers_give_the_same_bytes(folder, run, tmp_path):
    pictures = []
    for name in ("a.svg", "b.svg"):
        words = ("--series", f"A={folder}", "--title", "$x", "-o", tmp_path / name)
        assert run("plot", "loss", *words).code == 0
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]


def test_a_single_client_has_no_spread(make, draw):
    (line,) = draw(f"A={make('a', {3: [2, 1]})}")
    assert line["std"] == [0, 0] and line["clients"] == [1, 1]
    assert line["aggregation"] == []


def test_means_are_of_the_clients_that_are_there(make, draw):
    """Round 1 has clients of one and of three epochs, round 2 another client."""
    place = make("a", {0: [6], 1: [4, 3, 2]}, {2: [2.5]})
    (line,) = draw(f"A={place}")
    assert line["mean"] == [5, 3, 2, 2.5] and line["clients"] == [2, 1, 1, 1]
    assert line["rounds"] == [1, 1, 1, 2] and line["epochs"] == [1, 2, 3, 4]
    assert line["aggregation"] == [0.5]


def test_the_terms_of_a_loss_are_added_up_or_one_is_taken(make, draw):
    place = make("a", {0: [{"simclr": 4, "proximal": 0.5}]})
    assert draw(f"A={place}")[0]["mean"] == [4.5]
    assert draw(f"A={place}", more=("--term", "simclr"))[0]["mean"] == [4]
    assert draw(f"A={place}", more=("--term", "proximal"))[0]["mean"] == [0.5]


def test_several_runs_have_the_mean_of_their_means(make, draw):
    """A run with more clients counts no more; the band is over all clients."""
    one, other = make("a", {0: [1], 1: [2], 2: [6]}), make("b", {0: [7]})
    (line,) = draw(f"A={one},{other}")
    assert line["mean"] == [5] and line["std"] == [np.std([1, 2, 6, 7], ddof=1)]
    assert line["clients"] == [4] and line["runs"] == [2]
    assert draw(f"A={other},{one}") == [line]
    # The same run twice is one.
    assert draw(f"A={other},{other}")[0]["clients"] == [1]


def test_runs_of_different_length_are_told(make, run, tmp_path):
    one, other = make("a", {0: [3]}, {0: [2]}), make("b", {0: [5]})
    words = ("--series", f"A={one},{other}", "-o", tmp_path / "x.png", "--json")
    done = run("plot", "loss", *words)
    assert json.loads(done.out)["lines"][0]["mean"] == [4, 2]
    assert done.err == (
        f"warning: --series A: {other} has other rounds or epochs than {one}; means are "
        "of the runs that have them, so some jumps are between runs\n"
    )


def test_a_real_training_is_read(world, draw):
    world.output.unlink()
    journals = [path.with_name(f"{path.stem}.log.jsonl") for path in world.clients]
    losses = [json.loads(path.read_text())["losses"]["simclr"] for path in journals]
    (line,) = draw(f"A={world.folder}")
    assert line["mean"] == pytest.approx([np.mean(losses)])
    assert line["clients"] == [3] and line["rounds"] == [1]


def test_other_files_and_copies_do_not_count(folder, draw):
    wanted = draw(f"A={folder}")
    client(folder, 1, 7, [99], kind="features")
    client(folder / ".hidden", 1, 8, [99])
    (folder / "aaa").mkdir()
    shutil.copy(folder / "r001/client_1.safetensors", folder / "aaa")
    assert draw(f"A={folder}") == wanted


def test_an_epoch_that_two_jobs_wrote_counts_once(make, draw):
    place = make("a", {0: [3, 2]})
    journal = place / "r001/client_0.log.jsonl"
    journal.write_text(2 * journal.read_text() + '{"event": "done"}\n')
    assert draw(f"A={place}")[0]["mean"] == [3, 2]


@pytest.mark.parametrize("rest", ["", '{"event": "epo'])
def test_a_journal_that_was_cut_short_is_told(folder, run, tmp_path, rest):
    journal = folder / "r001/client_1.log.jsonl"
    journal.write_text(journal.read_text().splitlines()[0] + "\n" + rest)
    done = run("plot", "loss", "--series", f"A={folder}", "-o", tmp_path / "x.png")
    assert done.err == (
        f"warning: {journal}: was cut short, it ends with epoch 1 of 2; only what is "
        "there is drawn\n"
    )
    assert "aggregation +0 on average" in done.out  # From client 2's 4 to 4.


def test_a_broken_checkpoint_is_left_out(folder, run, tmp_path):
    (folder / "r001/client_2.safetensors").write_bytes(b"x" * 5)
    done = run("plot", "loss", "--series", f"A={folder}", "-o", tmp_path / "x.png")
    assert done.code == 0 and "aggregation +1 on average" in done.out
    assert "client_2.safetensors: has 5 bytes" in done.err and "left out" in done.err


def test_dry_run_draws_nothing(folder, run, tmp_path):
    output = tmp_path / "x.png"
    words = ("--series", f"A={folder}", "-o", output, "--dry-run")
    done = run("plot", "loss", *words)
    assert done.code == 0 and done.out.startswith(f"would draw {output}: A 2.5 after")
    assert not output.exists()


ADVICE = (
    "; the losses of client_1.safetensors were wanted: local-train writes them there, "
    "beside the checkpoint, so copy both"
)


def edited(path, **changes):
    entry = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**entry, **changes}) + "\n")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda log: log.unlink(), ": no such file" + ADVICE),
        (lambda log: log.write_text(""), ": has no epoch in it" + ADVICE),
        (lambda log: log.write_text('{"event"'), ": has no epoch in it" + ADVICE),
        (
            lambda log: edited(log, losses={"simclr": float("nan")}),
            ": its loss simclr in epoch 1 is nan, a finite number was wanted; copy it "
            "again, or train this client anew",
        ),
        (
            lambda log: edited(log, losses={"simclr": "4"}),
            ": its loss simclr in epoch 1 is '4', a finite number was wanted; copy it "
            "again, or train this client anew",
        ),
        (
            lambda log: edited(log, losses={}),
            ": its epoch 1 has the losses {}; was it edited? Copy it again",
        ),
        (
            lambda log: edited(log, epoch=0, losses=[1]),
            ": its epoch 0 has the losses [1]; was it edited? Copy it again",
        ),
    ],
)
def test_journals_that_cannot_be_drawn(folder, run, tmp_path, change, message):
    journal, output = folder / "r001/client_1.log.jsonl", tmp_path / "x.png"
    change(journal)
    done = run("plot", "loss", "--series", f"A={folder}", "-o", output)
    assert done == (65, "", f"error: {journal}{message}\n") and not output.exists()


def test_a_term_that_is_not_there(make, run, tmp_path):
    place = make("a", {0: [{"simclr": 4, "proximal": 0.5}]})
    words = ("--series", f"A={place}", "--term", "kl", "-o", tmp_path / "x.png")
    assert run("plot", "loss", *words) == (
        65, "", f"error: {place}/r001/client_0.log.jsonl: has no term 'kl' in epoch 1; "
        "it has proximal, simclr\n",
    )  # fmt: skip


def test_folders_that_are_no_run(folder, make, run, tmp_path):
    (tmp_path / "empty").mkdir()
    gap = make("gap", {0: [3]}, {}, {0: [2]})
    odd = tmp_path / "odd"
    path = client(odd, 1, 0, [3], round="one")
    two = tmp_path / "two"
    shutil.copytree(folder, two / "seed0")
    client(two / "seed1", 2, 1, [3], role="other")
    for place, message in (
        (tmp_path / "no", "no: is no folder; --series A wants the folder of a run"),
        (
            tmp_path / "empty",
            "empty: has no checkpoint of local-train; give the folder of a run, with "
            "its clients' models and their journals",
        ),
        (
            gap,
            "gap: has clients' models of round 3, but none of round 2; every round is "
            "wanted, so copy those files too",
        ),
        (odd, f"{path}: was made by local-train, but its round is 'one'"),
        (
            two,
            f"{two}/seed0/r002/client_1.safetensors and {two}/seed1/r002/"
            "client_1.safetensors: are both of client 1 in round 2; are these files of "
            "several runs? Give each as a RUN of its own",
        ),
    ):
        done = run("plot", "loss", "--series", f"A={place}", "-o", tmp_path / "x.png")
        assert done.code == 65 and done.err.endswith(f"{message}\n"), done
        assert done.out == "" and not (tmp_path / "x.png").exists()


def test_wrong_usage(folder, run, tmp_path):
    for message, *words in (
        ("--series A: is there twice", f"A={folder}", "--series", f"A={folder}"),
        ("expected LABEL=FILE", "A"),
        ("cannot draw '.txt'", f"A={folder}", "-o", "x.txt"),
    ):
        done = run("plot", "loss", "-o", tmp_path / "x.png", "--series", *words)
        assert done.code == 2 and message in done.err and done.out == ""


def line(label, rounds, mean, clients=2):
    ones = np.ones(len(mean), int)
    return Loss(label, np.array(rounds), ones.cumsum(), np.array(mean), 0.5 * ones,
                clients * ones, ones)  # fmt: skip


def drawn(axes):
    """Each line's style, marker and points."""
    return [
        (x.get_linestyle(), x.get_marker(), x.get_xydata().tolist()) for x in axes.lines
    ]


def words(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_rounds_are_dashed_and_jumps_are_solid_with_markers():
    figure = draw_loss([line("a", [1, 1, 2, 2], [4, 3, 3.5, 2])], "training loss")
    (axes,) = figure.axes
    assert drawn(axes) == [
        ("--", "None", [[1, 4], [2, 3]]),
        ("--", "None", [[3, 3.5], [4, 2]]),
        ("-", "o", [[2, 3], [3, 3.5]]),
    ]
    bands = [band.get_paths()[0].vertices for band in axes.collections]
    assert [(b[:, 0].min(), b[:, 0].max()) for b in bands] == [(1, 2), (3, 4)]
    assert [(b[:, 1].min(), b[:, 1].max()) for b in bands] == [(2.5, 4.5), (1.5, 4)]
    keys = ["clients' mean", "one standard deviation", "aggregation"]
    assert words(axes.get_legend()) == keys
    assert words(figure.legends[0]) == ["a"]
    assert [text.get_text() for text in axes.texts] == ["2"]
    assert axes.get_ylabel() == "training loss"


def test_rounds_of_one_epoch_are_points_with_bars():
    figure = draw_loss([line("", [1, 2], [4, 3])], "training loss")
    (axes,) = figure.axes
    assert [marker for _, marker, _ in drawn(axes)] == ["o", "o", "o"]
    assert drawn(axes)[2] == ("-", "o", [[1, 4], [2, 3]])
    bars = [bar[2][0].get_segments()[0].tolist() for bar in axes.containers]
    assert bars == [[[1, 3.5], [1, 4.5]], [[2, 2.5], [2, 3.5]]]
    mean, *_ = axes.get_legend().get_lines()
    assert (mean.get_linestyle(), mean.get_marker()) == ("None", "o")
    assert not figure.legends


def test_nothing_is_explained_that_is_not_there():
    (axes,) = draw_loss([line("a", [1, 1], [4, 3], clients=1)], "loss").axes
    assert words(axes.get_legend()) == ["clients' mean"] and not axes.collections


def test_more_lines_than_colours_differ_by_their_markers():
    lines = [line(f"{k}", [1, 2], [4 + k, 3 + k]) for k in range(9)]
    handles = draw_loss(lines, "loss", "title").legends[0].get_lines()
    looks = {(handle.get_color(), handle.get_marker()) for handle in handles}
    assert len(looks) == 9


def test_the_stage_is_imported_without_matplotlib_and_torch():
    code = (
        "import sys, furlkit.stages.plot.loss; "
        "sys.exit(bool({'matplotlib', 'torch'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
