import json

import numpy as np
import pytest

from furlkit.files.container import write as container
from furlkit.files.container.header import Header
from furlkit.reports.ledger import read_ledger


def write(path, stage, inputs=None, size=10, epochs=None, **facts):
    options = {} if epochs is None else {"plan": {"epochs": epochs}}
    header = Header("checkpoint", stage, options, None, inputs or {}, facts)
    return container.write(path, {"w": np.zeros(size, "f4")}, header)


@pytest.fixture
def make(tmp_path, metrics):
    """The folder of a run of one client, with a linear score after each round.

    `epochs` are those of its training in each round; without them no file names any.
    """

    def build(name, accuracies=(0.1, 0.5, 0.6), size=10, epochs=()):
        folder = tmp_path / name
        model = write(folder / "r0/g.safetensors", "init", None, size, round=0)
        metrics(folder / "r0", "linear", accuracies[0], 0)
        for number, accuracy in enumerate(accuracies[1:], start=1):
            here, facts = folder / f"r{number}", {"client": 0, "round": number}
            if epochs:
                facts["epochs"] = epochs[number - 1]
            sent = write(
                here / "c.safetensors", "local-train", {"global": model}, size, **facts
            )
            inputs = {"client 0": sent}
            model = write(
                here / "g.safetensors", "aggregate", inputs, size, round=number
            )
            metrics(here, "linear", accuracy, number)
        return folder

    return build


@pytest.fixture
def draw(run, tmp_path):
    """The numbers of a picture, a line for each list of runs; or what went wrong."""

    def call(*series, flags=()):
        words = [f"--series=L{i}={','.join(map(str, s))}" for i, s in enumerate(series)]
        words += [*flags, "--dry-run", "--json"]
        done = run("plot", "cost", *words, "-o", tmp_path / "x.png")
        return json.loads(done.out)["lines"] if done.code == 0 else done

    return call


def size(folder, *names):
    return sum((folder / f"{name}.safetensors").stat().st_size for name in names)


def test_scores_stand_over_the_bytes_until_then(make, run, tmp_path):
    folder, output = make("a"), tmp_path / "cost.png"
    done = run("plot", "cost", "--series", f"A={folder}", "-o", output, "--json")
    assert done.code == 0 and done.err == ""
    found = json.loads(done.out)
    assert found["over"] == "bytes"
    (line,) = found["lines"]
    first = size(folder, "r0/g", "r1/c")
    assert line == {
        "label": "A", "rounds": [1, 2], "epochs": [None, None],
        "bytes": [first, first + size(folder, "r1/g", "r2/c")],
        "mean": [0.5, 0.6], "std": [0, 0], "runs": [1, 1],
    }  # fmt: skip
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_axes_name_protocol_and_scale(make, run, tmp_path, drawn):
    words = ("plot", "cost", "--series", f"A={make('a')}", "-o", tmp_path / "x.png")
    assert run(*words).code == 0
    (axes,) = drawn[0].axes
    assert axes.get_ylabel() == "linear accuracy (%)"
    assert axes.get_xscale() == "log" and "(log scale)" in axes.get_xlabel()
    assert run(*words, "--over", "rounds").code == 0
    assert "log" not in drawn[1].axes[0].get_xlabel()


def test_one_line_per_method_and_their_ends(make, run, tmp_path):
    one, other = make("a"), make("b", (0.1, 0.7), size=3)
    words = ("--series", f"B={other}", "--series", f"A={one}", "-o", tmp_path / "x.svg")
    done = run("plot", "cost", *words)
    few, many = (read_ledger([folder]).until(9) for folder in (other, one))
    assert done.out == (
        f"{tmp_path}/x.svg: linear accuracy of B 70.00 % after round 1 and {few} "
        f"bytes; A 60.00 % after round 2 and {many / 1000:.1f} kB\n"
    )
    before = (tmp_path / "x.svg").read_bytes()
    assert run("plot", "cost", *words).code == 0
    assert (tmp_path / "x.svg").read_bytes() == before


def test_several_runs_give_a_mean_and_a_deviation(make, run, tmp_path):
    one, other = make("a", (0, 0.5)), make("b", (0, 0.7), size=30)
    found = []
    for runs in (f"{one},{other}", f"{other},{one}"):
        words = ("--series", f"A={runs}", "-o", tmp_path / "x.png", "--json")
        found.append(json.loads(run("plot", "cost", *words).out)["lines"])
    assert found[0] == found[1]
    (line,) = found[0]
    assert line["mean"] == pytest.approx([0.6]) and line["runs"] == [2]
    assert line["std"] == pytest.approx([0.02**0.5])
    wanted = [(read_ledger([one]).until(1) + read_ledger([other]).until(1)) / 2]
    assert line["bytes"] == wanted


def test_only_global_models_of_the_protocol_count(make, run, tmp_path, metrics):
    folder = make("a", (0, 0.5))
    metrics(folder, "knn", 0.25, protocol="knn", rank=3.5)
    metrics(folder, "client", 0.9, role="client")
    metrics(folder, "copy")
    (folder / "config.json").write_text("{}")
    (folder / "broken.json").write_text('{"kind": "met')
    words = ("--series", f"A={folder}", "-o", tmp_path / "x.png", "--json")
    done = run("plot", "cost", *words)
    assert json.loads(done.out)["lines"][0]["mean"] == [0.5]
    assert len(done.err.splitlines()) == 1 and "broken.json: is not JSON" in done.err
    more = ("--protocol", "knn", "--value", "rank")
    found = json.loads(run("plot", "cost", *words, *more).out)
    assert found["lines"][0]["mean"] == [3.5]


def test_dry_run_draws_nothing(make, run, tmp_path):
    output = tmp_path / "x.png"
    done = run("plot", "cost", "--series", f"A={make('a')}", "-o", output, "--dry-run")
    assert done.code == 0 and done.out.startswith(f"would draw {output}: linear")
    assert not output.exists()


def test_what_cannot_be_drawn(make, run, tmp_path):
    folder, output = make("a"), tmp_path / "x.png"
    for code, message, *words in (
        (65, "no knn metrics of a global model", f"A={folder}", "--protocol", "knn"),
        (65, "has no number 'rank'", f"A={folder}", "--value", "rank"),
        (65, f"{tmp_path / 'no'}: no such file", f"A={tmp_path / 'no'}"),
        (2, "--series A: given twice", f"A={folder}", "--series", f"A={folder}"),
        (2, "'time' is not one of", f"A={folder}", "--over", "time"),
    ):
        done = run("plot", "cost", "-o", output, "--series", *words)
        assert done.code == code and message in done.err, done
        assert done.out == "" and not output.exists()


def test_warnings_of_the_ledger_are_passed_on(make, run, tmp_path):
    folder = make("a")
    (folder / "r0/g.safetensors").unlink()
    done = run("plot", "cost", "--series", f"A={folder}", "-o", tmp_path / "x.png")
    assert done.code == 0 and "is not among the files" in done.err


@pytest.mark.parametrize(
    "over, place, end",
    [("rounds", [0, 1, 2], "round 2"),
     ("epochs", [0, 3, 8], "round 2 and 8 local epochs")],
)  # fmt: skip
def test_round_0_has_its_place_over_rounds_and_epochs(
    make, run, draw, over, place, end
):
    folder = make("a", epochs=(3, 5))
    (line,) = draw([folder], flags=("--over", over))
    assert line[over] == place and line["mean"] == [0.1, 0.5, 0.6]
    assert line["rounds"] == [0, 1, 2] and line["epochs"] == [0, 3, 8]
    ledger = read_ledger([folder])
    assert line["bytes"] == [0, ledger.until(1), ledger.until(2)]
    words = ("--series", f"A={folder}", "--over", over, "-o", folder / "x.svg")
    done = run("plot", "cost", *words)
    wanted = f"{folder}/x.svg: linear accuracy of A 60.00 % after {end}\n"
    assert (done.code, done.out, done.err) == (0, wanted, "")


def test_the_last_rounds_of_runs_of_different_length_are_a_line(make, draw):
    long = make("t4", (0, 0.1, 0.2, 0.3, 0.4), epochs=(1,) * 4)
    short, middle = make("t1", (0, 0.7), epochs=(4,)), make("t2", epochs=(2, 2))
    for over in ("rounds", "bytes"):
        flags = ("--over", over, "--last")
        (line,) = draw([long, short, middle], flags=flags)
        assert line["rounds"] == [1, 2, 4] and line["mean"] == [0.7, 0.6, 0.4]
        assert line["epochs"] == [4, 4, 4] and line["runs"] == [1, 1, 1]
        amounts = [read_ledger([f]).until(9) for f in (short, middle, long)]
        assert line["bytes"] == amounts


def test_two_rounds_with_more_local_epochs_are_a_line_over_epochs(make, draw):
    folders = [make(f"e{e}", (0, 0.5, e / 100), epochs=(e, e)) for e in (9, 4, 30)]
    (line,) = draw(folders, flags=("--over", "epochs", "--last"))
    assert line["epochs"] == [8, 18, 60] and line["mean"] == [0.04, 0.09, 0.3]
    assert line["rounds"] == [2, 2, 2]


def test_seeds_are_averaged_where_rounds_and_epochs_agree(make, draw):
    same = [make(f"s{n}", (0, 0.5, n / 10), epochs=(2, 2)) for n in (6, 8)]
    other = make("other", (0, 0.9), epochs=(6,))
    for over in ("rounds", "bytes", "epochs"):
        (line,) = draw([*same, other], flags=("--over", over, "--last"))
        place = slice(None, None, 1 if over == "epochs" else -1)
        assert line["rounds"] == [2, 1][place] and line["runs"] == [2, 1][place]
        assert line["mean"] == pytest.approx([0.7, 0.9][place])
        assert line["std"] == pytest.approx([0.02**0.5, 0][place])
    (line,) = draw(same, flags=("--over", "epochs"))
    assert line["epochs"] == [0, 2, 4] and line["runs"] == [2, 2, 2]


def test_known_epochs_do_not_change_the_default_picture(make, draw):
    silent = draw([make("a"), make("b", (0, 0.3, 0.9, 1), size=30)])
    named = draw([make("c", epochs=(2, 2)), make("d", (0, 0.3, 0.9, 1), 30, (2, 2, 2))])
    for line in (*silent, *named):
        del line["epochs"], line["bytes"]  # A header with epochs is longer.
    assert silent == named and named[0]["runs"] == [2, 2, 1]


def test_a_run_of_unknown_epochs_joins_the_others_of_its_round(make, draw):
    folders = [make("a"), make("b", epochs=(2, 2)), make("c")]
    (line,) = draw(folders, flags=("--over", "rounds"))
    assert line["runs"] == [3, 3, 3] and line["epochs"] == [0, 2, 4]
    done = draw([*folders, make("d", epochs=(3, 3))], flags=("--over", "rounds"))
    assert done.code == 2 and f"{folders[1]} (round 1, 2 local" in done.err


def test_of_different_epochs_in_a_round_the_largest_counts(make, draw):
    folder = make("a", epochs=(3, 5))
    facts = {"client": 1, "round": 1}
    write(folder / "r1/d.safetensors", "local-train", None, 10, 7, **facts)
    (line,) = draw([folder], flags=("--over", "epochs"))
    assert line["epochs"] == [0, 7, 12]


def test_epochs_that_are_not_known_are_refused_over_epochs_only(make, draw):
    gone, silent = make("gone", epochs=(2, 2)), make("silent", epochs=(2, True))
    (gone / "r1/c.safetensors").unlink()
    for folder, first in ((gone, 1), (silent, 2)):
        done = draw([folder], flags=("--over", "epochs"))
        assert done.code == 65 and done.out == ""
        assert f"{folder}: no file of round {first}" in done.err
        (line,) = draw([folder], flags=("--over", "rounds"))
        assert line["epochs"] == [0, *([None, None] if first == 1 else [2, None])]


def test_runs_that_would_share_a_place_are_refused(make, draw):
    one, two, single = (
        make("e2", epochs=(2, 2)), make("e3", epochs=(3, 3)), make("t1", (0, 1), epochs=(4,))
    )  # fmt: skip
    at_1 = f"{one} (round 1, 2 local epochs) and {two} (round 1, 3 local epochs)"
    at_2 = f"{one} (round 2, 4 local epochs) and {two} (round 2, 6 local epochs)"
    at_4 = f"{single} (round 1, 4 local epochs) and {one} (round 2, 4 local epochs)"
    for message, folders, *flags in (
        (at_2, (one, two), "--over", "rounds", "--last"),
        (at_2, (one, two), "--last"),
        (at_1, (one, two)),
        (at_1, (one, two), "--over", "epochs"),
        (at_4, (one, single), "--over", "epochs", "--last"),
    ):
        done = draw(folders, flags=flags)
        assert done.code == 2 and f"--series L0: {message}" in done.err
        assert len(draw(*([folder] for folder in folders), flags=flags)) == 2


def test_without_a_score_of_its_last_round_a_run_has_no_last_point(make, draw):
    folder = make("a", epochs=(1, 1))
    (folder / "r2/linear.json").unlink()
    done = draw([folder], flags=("--over", "rounds", "--last"))
    assert done.code == 65 and f"{folder}: has no linear metrics" in done.err
    assert "round 2" in done.err


def test_a_file_of_a_planned_run_stands_for_the_run(make, draw, refused, tmp_path):
    folder = make("a")
    files = [folder / "r1/linear.json", folder / "r2/linear.json"]
    words = ("plot", "cost", "--series", f"A={files[0]}", "-o", tmp_path / "x.png")
    refused(tmp_path, 65, [str(files[0]), "planned run"], *words)
    (folder / "plan").mkdir()
    (folder / "plan/recipe.json").write_text("{}")
    (line,) = draw(files)
    assert [line] == draw([folder])
    assert line["mean"] == [0.5, 0.6] and line["runs"] == [1, 1]
