import csv
import json
from io import StringIO

import pytest

from furlkit.files.metrics import write_metrics


@pytest.fixture
def scores(tmp_path):
    """Write the scores of a method, one per seed; gives its --series."""

    def write(label, values, seeds=(0, 1, 2), scored=None, **more):
        paths = []
        for seed, value in zip(seeds, values, strict=True):
            path = tmp_path / f"{label}{seed}.json"
            checkpoint = {"seed": scored, "facts": {"round": 4, "role": "global"}}
            document = {"protocol": "linear", "accuracy": value, "seed": seed}
            write_metrics(path, {**document, "checkpoint": checkpoint, **more})
            paths.append(str(path))
        return "--series", f"{label}={','.join(paths)}"

    return write


def test_a_table_of_means_deviations_papers_and_paired_differences(run, scores):
    plain = scores("plain", [0.5, 0.6, 0.7])
    better = scores("better", [0.52, 0.62, 0.72001])
    done = run(
        "compare",
        *plain,
        *better,
        "--reference",
        "plain",
        "--published",
        "better=63.02",
    )
    assert done.code == 0 and done.err == ""
    assert done.out.splitlines() == [
        "        n  accuracy, %    std  published     against plain, 95 %",
        "plain   3        60.00  10.00",
        "better  3        62.00  10.00      63.02  +2.00 (+2.00 to +2.00)",
    ]


def test_bytes_are_whole_numbers(run, scores):
    totals = ({"sent": {"bytes": n}} for n in (4_550_000, 1_310_001))
    sent = [scores(str(k), [0.5], (0,), total=each) for k, each in enumerate(totals)]
    done = run("compare", *sent[0], *sent[1], "--value", "total.sent.bytes",
               "--reference", "0")  # fmt: skip
    assert done.out.splitlines() == [
        "   n  total.sent.bytes  against 0, 95 %",
        "0  1         4,550,000",
        "1  1         1,310,001       -3,239,999",
    ]


def test_csv_has_the_numbers_of_json_in_one_unit(run, scores):
    words = (*scores('a"b', [0.5, 0.6, 0.7]), *scores("c", [0.1 / 3, 0.62, 0.7]))
    words = ("compare", *words, "--reference", 'a"b', "--published", "c=63.02")
    done = run(*words, "--format", "csv")
    assert done.code == 0 and done.err == ""
    first, other = csv.DictReader(StringIO(done.out))
    row = json.loads(run(*words, "--json").out)["rows"][1]
    assert first["label"] == 'a"b' and first["difference"] == ""
    assert other["value"] == "accuracy" and other["paired_by"] == "seed"
    assert float(other["mean"]) == row["mean"] and float(other["std"]) == row["std"]
    assert float(other["difference"]) == row["difference"]["mean"]
    assert float(other["low"]) == row["difference"]["low"]
    assert float(other["published"]) == 63.02 / 100


def test_tables_for_papers_have_mean_and_deviation_in_one_cell(run, scores):
    words = ("compare", *scores("a_1", [0.5, 0.6, 0.7]), *scores("b", [0.25], (0,)))
    assert run(*words, "--format", "markdown").out.splitlines() == [
        "|  | n | accuracy, % |",
        "| --- | ---: | ---: |",
        r"| a\_1 | 3 | 60.00 ± 10.00 |",
        "| b | 1 | 25.00 |",
    ]
    latex = run(*words, "--format", "latex").out.splitlines()
    assert latex[3] == r" & n & accuracy, \% \\"
    assert latex[5:7] == [r"a\_1 & 3 & 60.00 $\pm$ 10.00 \\", r"b & 1 & 25.00 \\"]


def test_a_format_does_not_apply_with_json(run, scores):
    done = run("compare", *scores("a", [0.5], (0,)), "--format", "csv", "--json")
    assert done.code == 2 and "--format csv" in done.err and done.out == ""


def test_pairs_are_made_by_the_seed_of_the_evaluation(run, scores):
    one = scores("one", [0.1, 0.5, 0.9])
    other = scores("other", [0.91, 0.12], seeds=(2, 0))
    done = run("compare", *one, *other, "--reference", "one", "--json")
    row = json.loads(done.out)["rows"][1]
    assert row["n"] == 2 and row["difference"]["n"] == 2
    assert row["difference"]["paired_by"] == "seed"
    assert row["difference"]["mean"] == pytest.approx(0.015)


def test_a_value_that_is_no_share_is_shown_as_it_stands(run, scores):
    done = run("compare", *scores("a", [1, 1, 1], rank=2.5), "--value", "rank")
    assert done.out.splitlines()[1].split() == ["a", "3", "2.5000", "0.0000"]


def test_of_several_clients_per_seed_the_lowest_counts(run, scores, tmp_path):
    mean = scores("mean", [0.5, 0.6, 0.7])
    paths = []
    for client, values in enumerate(([0.4, 0.65, 0.3], [0.45, 0.2, 0.35])):
        _, text = scores(f"c{client}_", values, checkpoint_client=client)
        paths.append(text.partition("=")[2])
    words = ("--series", f"worst={','.join(paths)}", "--lowest", "worst")
    done = run("compare", *mean, *words, "--reference", "mean", "--json")
    row = json.loads(done.out)["rows"][1]
    assert row["values"] == [0.4, 0.2, 0.3] and row["n"] == 3
    assert row["difference"]["paired_by"] == "seed"
    assert row["difference"]["mean"] == pytest.approx(-0.3)


def test_a_seed_with_fewer_clients_is_warned_of(run, scores):
    one, other = scores("a", [0.5, 0.6], seeds=(0, 1)), scores("b", [0.4], seeds=(0,))
    files = f"{one[1].partition('=')[2]},{other[1].partition('=')[2]}"
    done = run("compare", "--series", f"c={files}", "--lowest", "c")
    assert done.code == 0
    assert "--lowest c: its seeds have 2, 1 files" in done.err


def test_the_lowest_of_a_seed_needs_seeds(run, scores):
    done = run("compare", *scores("a", [0.5], seeds=(None,)), "--lowest", "a")
    assert done.code == 2
    assert "aNone.json" in done.err


@pytest.mark.parametrize(
    "words, message",
    [
        (("--published", "b=3"), "--published b: there is no such label, only a"),
        (("--published", "a=x"), "LABEL=NUMBER"),
        (("--reference", "b"), "--reference b"),
        (("--lowest", "b"), "--lowest b"),
        (("--series", "a=x.json"), "--series a: given twice"),
    ],
)
def test_what_does_not_fit_is_refused(run, scores, words, message):
    done = run("compare", *scores("a", [0.1, 0.2, 0.3]), *words)
    assert done.code == 2 and message in done.err and done.out == ""


def test_a_file_that_is_no_metrics_file(run, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    done = run("compare", "--series", f"a={tmp_path / 'x.json'}")
    assert done.code == 65 and "x.json" in done.err
