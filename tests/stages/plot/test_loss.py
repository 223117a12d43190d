"""plot loss on runs of a few bytes: numbers, jumps, what it draws and refuses."""

import json
import shutil

import numpy as np
import pytest

from furlkit.files.container import write as container
from furlkit.files.container.header import Header
from furlkit.files.journal import Journal


def client(
    folder,
    round_,
    number,
    losses,
    epochs=None,
    kind="checkpoint",
    objective=None,
    **facts,
):
    """A client's checkpoint of a round, with the journal of its epochs beside it."""
    path = folder / f"r{round_:03}" / f"client_{number}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"client": number, "round": round_, "role": "client", **facts}
    plan = {"epochs": len(losses) if epochs is None else epochs}
    options = {"plan": plan} | ({"objective": objective} if objective else {})
    header = Header(kind, "local-train", options, None, {}, facts)
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


def test_the_result_line(folder, make, run, tmp_path):
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


def test_the_loss_of_a_clients_own_model_is_not_that_of_the_model_it_sends(make, draw):
    """Own losses of the same step, as APFL has them; and own epochs, as Ditto has them."""
    place = make("a", {0: [{"simclr": 4, "own.simclr": 3}]})
    later = {"event": "epoch", "own": 1, "epoch": 1, "losses": {"simclr": 2.0}}
    Journal(place / "r001" / "client_0.safetensors").write(later)
    assert draw(f"A={place}")[0]["mean"] == [4]
    assert draw(f"A={place}", more=("--term", "own.simclr"))[0]["mean"] == [3]


def test_several_runs_have_the_mean_of_their_means(make, draw):
    """A run with more clients counts no more; the band is over all clients."""
    one, other = make("a", {0: [1], 1: [2], 2: [6]}), make("b", {0: [7]})
    (line,) = draw(f"A={one},{other}")
    assert line["mean"] == [5] and line["std"] == [np.std([1, 2, 6, 7], ddof=1)]
    assert line["clients"] == [4] and line["runs"] == [2]
    assert draw(f"A={other},{one}") == [line]
    # The same run twice is one.
    assert draw(f"A={other},{other}")[0]["clients"] == [1]


def test_runs_of_different_length_are_warned_of(make, run, tmp_path):
    one, other = make("a", {0: [3]}, {0: [2]}), make("b", {0: [5]})
    words = ("--series", f"A={one},{other}", "-o", tmp_path / "x.png", "--json")
    done = run("plot", "loss", *words)
    assert json.loads(done.out)["lines"][0]["mean"] == [4, 2]
    assert "warning" in done.err and f"{other} has other rounds" in done.err


def test_a_real_training_is_read(world, draw):
    world.output.unlink()
    losses = [Journal(path).read()[1]["losses"]["simclr"] for path in world.clients]
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
def test_an_incomplete_journal_is_warned_of(folder, run, tmp_path, rest):
    journal = folder / "r001/client_1.log.jsonl"
    journal.write_text(journal.read_text().splitlines()[0] + "\n" + rest)
    done = run("plot", "loss", "--series", f"A={folder}", "-o", tmp_path / "x.png")
    assert f"{journal}: is incomplete" in done.err and "epoch 1 of 2" in done.err
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


def edited(path, **changes):
    entry = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**entry, **changes}) + "\n")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda log: log.unlink(), "no such file"),
        (lambda log: log.write_text(""), "no epoch"),
        (lambda log: log.write_text('{"event"'), "no epoch"),
        (lambda log: edited(log, losses={"simclr": float("nan")}), "nan"),
        (lambda log: edited(log, losses={"simclr": "4"}), "'4'"),
        (lambda log: edited(log, losses={}), "has the losses {}"),
        (lambda log: edited(log, epoch=0, losses=[1]), "has the losses [1]"),
    ],
)
def test_journals_that_cannot_be_drawn(folder, refused, tmp_path, change, message):
    journal, output = folder / "r001/client_1.log.jsonl", tmp_path / "x.png"
    change(journal)
    words = ("plot", "loss", "--series", f"A={folder}", "-o", output)
    refused(tmp_path, 65, (journal, message), *words)


def test_a_term_that_is_not_there(make, refused, tmp_path):
    place = make("a", {0: [{"simclr": 4, "proximal": 0.5}]})
    words = ("--series", f"A={place}", "--term", "kl", "-o", tmp_path / "x.png")
    log = place / "r001/client_0.log.jsonl"
    refused(tmp_path, 65, (log, "'kl'", "proximal, simclr"), "plot", "loss", *words)


def test_folders_that_are_not_a_run(folder, make, refused, tmp_path):
    (tmp_path / "empty").mkdir()
    gap = make("gap", {0: [3]}, {}, {0: [2]})
    odd = tmp_path / "odd"
    path = client(odd, 1, 0, [3], round="one")
    two = tmp_path / "two"
    shutil.copytree(folder, two / "seed0")
    client(two / "seed1", 2, 1, [3], role="other")
    pair = (two / f"seed{k}/r002/client_1.safetensors" for k in (0, 1))
    for place, *words in (
        (tmp_path / "no", "no such file"),
        (tmp_path / "empty", "no checkpoint of local-train"),
        (gap, "round 3, but not of round 2"),
        (odd, path, "round is 'one'"),
        (two, *pair, "several runs"),
    ):
        line = ("plot", "loss", "--series", f"A={place}", "-o", tmp_path / "x.png")
        refused(tmp_path, 65, (place, *words), *line)


def test_a_label_given_twice(folder, refused, tmp_path):
    words = ("--series", f"A={folder}", "--series", f"A={folder}", "-o", "x.png")
    refused(tmp_path, 2, ("--series A: given twice",), "plot", "loss", *words)


def test_one_phase_of_a_run_is_drawn(tmp_path, draw, run):
    """Both phases of the run have a round 1 of client 0."""
    folder = tmp_path / "run"
    client(folder / "pretext", 1, 0, [9, 8], objective="simclr")
    client(folder, 1, 0, [{"cluster": -1}, {"cluster": -2}], objective="cluster")
    for objective, means in (("simclr", [9, 8]), ("cluster", [-1, -2])):
        (line,) = draw(f"a={folder}", more=("--objective", objective))
        assert line["mean"] == means
    words = ("plot", "loss", "--series", f"a={folder}", "-o", tmp_path / "l.png")
    for more, word in (
        ((), "cluster and simclr"),
        (("--objective", "x"), "no clients"),
    ):
        done = run(*words, *more)
        assert done.code == 65 and f"{folder}: has" in done.err and word in done.err


def test_a_logarithmic_axis_needs_losses_above_0(make, run, refused, tmp_path):
    folder = make("run", {1: [0.5, -0.25]})
    words = ("plot", "loss", "--series", f"A={folder}", "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ["--log", "-0.25"], *words, "--log")
    assert run(*words).code == 0
    other = make("other", {1: [0.5, 0.25]})
    words = ("plot", "loss", "--series", f"A={other}", "-o", tmp_path / "x.png")
    assert run(*words, "--log").code == 0


def test_files_of_a_planned_run_stand_for_the_run(folder, draw):
    (folder / "plan").mkdir()
    (folder / "plan/recipe.json").write_text("{}")
    files = [folder / f"r00{number}/client_1.safetensors" for number in (1, 2)]
    assert draw(f"A={files[0]},{files[1]}") == draw(f"A={folder}")
