import json
import subprocess
import sys

import numpy as np
import pytest

from furlkit.cost_figures import Cost, byte_tick, draw_cost
from furlkit.files import container
from furlkit.files.header import Header
from furlkit.files.metrics import write_metrics
from furlkit.ledger import read_ledger


def write(path, stage, inputs=None, size=10, **facts):
    header = Header("checkpoint", stage, {}, None, inputs or {}, facts)
    return container.write(path, {"w": np.zeros(size, "f4")}, header).content


def metrics(folder, name, round_, accuracy, protocol="linear", role="global", **more):
    checkpoint = {"facts": {"round": round_, "role": role}}
    values = {"protocol": protocol, "accuracy": accuracy, "checkpoint": checkpoint}
    write_metrics(folder / f"r{round_}" / f"{name}.json", {**values, **more})


@pytest.fixture
def make(tmp_path):
    """The folder of a run of one client, with a linear score after each round."""

    def build(name, accuracies=(0.1, 0.5, 0.6), size=10):
        folder = tmp_path / name
        model = write(folder / "r0/g.safetensors", "init", None, size, round=0)
        metrics(folder, "linear", 0, accuracies[0])
        for number, accuracy in enumerate(accuracies[1:], start=1):
            here, facts = folder / f"r{number}", {"client": 0, "round": number}
            sent = write(
                here / "c.safetensors", "local-train", {"global": model}, size, **facts
            )
            inputs = {"client 0": sent}
            model = write(
                here / "g.safetensors", "aggregate", inputs, size, round=number
            )
            metrics(folder, "linear", number, accuracy)
        return folder

    return build


def size(folder, *names):
    return sum((folder / f"{name}.safetensors").stat().st_size for name in names)


def test_scores_stand_over_the_bytes_until_then(make, run, tmp_path):
    folder, output = make("a"), tmp_path / "cost.png"
    done = run("plot", "cost", "--series", f"A={folder}", "-o", output, "--json")
    assert done.code == 0 and done.err == ""
    (line,) = json.loads(done.out)["lines"]
    first = size(folder, "r0/g", "r1/c")
    assert line == {
        "label": "A", "rounds": [1, 2], "bytes": [first, first + size(folder, "r1/g", "r2/c")],
        "mean": [0.5, 0.6], "std": [0, 0], "runs": [1, 1],
    }  # fmt: skip
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_line_a_method_and_what_is_told_of_it(make, run, tmp_path):
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


def test_only_global_models_of_the_protocol_count(make, run, tmp_path):
    folder = make("a", (0, 0.5))
    metrics(folder, "knn", 1, 0.25, protocol="knn", rank=3.5)
    metrics(folder, "client", 1, 0.9, role="client")
    metrics(folder, "copy", 1, 0.5)
    (folder / "config.json").write_text("{}")
    (folder / "broken.json").write_text('{"kind": "met')
    words = (
        "plot",
        "cost",
        "--series",
        f"A={folder}",
        "-o",
        tmp_path / "x.png",
        "--json",
    )
    done = run(*words)
    assert json.loads(done.out)["lines"][0]["mean"] == [0.5]
    assert len(done.err.splitlines()) == 1 and "broken.json: is not JSON" in done.err
    found = json.loads(run(*words, "--protocol", "knn", "--value", "rank").out)
    assert found["lines"][0]["mean"] == [3.5]


def test_dry_run_draws_nothing(make, run, tmp_path):
    output = tmp_path / "x.png"
    done = run("plot", "cost", "--series", f"A={make('a')}", "-o", output, "--dry-run")
    assert done.code == 0 and done.out.startswith(f"would draw {output}: linear")
    assert not output.exists()


def test_what_cannot_be_drawn(make, run, tmp_path):
    folder, output = make("a"), tmp_path / "x.png"
    for code, message, *words in (
        (
            65,
            "has no knn metrics of a global model",
            f"A={folder}",
            "--protocol",
            "knn",
        ),
        (65, "has no number 'rank'", f"A={folder}", "--value", "rank"),
        (65, "is no folder; --series A wants", f"A={tmp_path / 'no'}"),
        (2, "--series A: is there twice", f"A={folder}", "--series", f"A={folder}"),
        (2, "wanted LABEL=FILE", "A"),
        (2, "cannot draw '.txt'", f"A={folder}", "-o", "x.txt"),
    ):
        done = run("plot", "cost", "-o", output, "--series", *words)
        assert done.code == code and message in done.err, done
        assert done.out == "" and not output.exists()


def test_what_the_ledger_misses_is_told(make, run, tmp_path):
    folder = make("a")
    (folder / "r0/g.safetensors").unlink()
    done = run("plot", "cost", "--series", f"A={folder}", "-o", tmp_path / "x.png")
    assert done.code == 0 and "is not among the files" in done.err


def line(label, amounts, values, runs=1):
    values, ones = np.array(values), np.ones(len(values))
    return Cost(
        label, ones.cumsum(), np.array(amounts), values, 0.01 * ones, runs * ones
    )


def test_the_axis_is_logarithmic_and_names_bytes():
    costs = [line("a", [1e5, 2e9], [0.5, 0.6]), line("b", [3e6], [0.7], runs=3)]
    figure = draw_cost(costs, "accuracy", True)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    low, high = axes.get_xlim()
    places = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    ticks = [text.get_text() for x, text in places if low <= x <= high]
    assert ticks == ["100 kB", "1 MB", "10 MB", "100 MB", "1 GB"]
    assert [text.get_text() for text in axes.texts] == ["60.0", "70.0"]
    assert axes.get_xlabel().startswith("bytes sent and received by all clients")
    assert "means of several runs" in axes.get_xlabel()
    drawn = axes.get_lines()[0].get_xydata()
    np.testing.assert_allclose(drawn, [[1e5, 50], [2e9, 60]])
    # A band around a single point would not be seen.
    (bar,) = axes.containers
    np.testing.assert_allclose(bar[2][0].get_segments(), [[[3e6, 69], [3e6, 71]]])


@pytest.mark.parametrize("amounts", [[1.1e6, 1.2e6], [1.3e6], [2e6, 9e6]])
def test_an_axis_of_less_than_a_decade_has_ticks(amounts):
    figure = draw_cost([line("a", amounts, [0.5] * len(amounts))], "accuracy", True)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    assert low <= min(amounts) and max(amounts) <= high
    assert sum(low <= x <= high for x in axes.get_xticks()) >= 2


@pytest.mark.parametrize(
    "amount, words",
    [(1, "1 B"), (500, "500 B"), (1000, "1 kB"), (2e7, "20 MB"), (1e9, "1 GB"),
     (5e16, "50 PB"), (1e21, "1e+06 PB"), (0.5, "0.5 B")],
)  # fmt: skip
def test_words_of_a_tick(amount, words):
    assert byte_tick(amount) == words


def test_the_stage_is_imported_without_matplotlib_and_torch():
    code = (
        "import sys, furlkit.stages.plot_cost; "
        "sys.exit(bool({'matplotlib', 'torch'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
