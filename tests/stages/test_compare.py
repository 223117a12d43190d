import csv
import json
import re
from io import StringIO

import pytest

from furlkit.files.metrics import write_metrics


@pytest.fixture
def scores(tmp_path):
    """Write the scores of a method, one per seed; gives its --series.

    `each` has what each file has besides.
    """

    def write(label, values, seeds=(0, 1, 2), scored=None, each=None, **more):
        paths = []
        for place, (seed, value) in enumerate(zip(seeds, values, strict=True)):
            path = tmp_path / f"{label}{seed}.json"
            checkpoint = {"seed": scored, "facts": {"round": 4, "role": "global"}}
            document = {"protocol": "linear", "accuracy": value, "seed": seed}
            own = each[place] if each else {}
            write_metrics(path, {**document, "checkpoint": checkpoint, **more, **own})
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


def spread(values, by=0.01):
    """Five probes around each value, with the standard deviation `by`."""
    steps = [step * by for step in (-1, -1, 0, 1, 1)]
    return [{"probes": [value + step for step in steps]} for value in values]


def test_probe_noise_of_each_series_and_of_their_difference(run, scores):
    # Standard errors 0.01 and 0.02 by sqrt(5); both over three seeds: 2 * 0.0058.
    base, other = [0.5, 0.6, 0.7], [0.51, 0.61, 0.705]
    a = scores("a", base, each=spread(base))
    b = scores("b", other, each=spread(other, 0.02))
    done = run("compare", *a, *b, "--reference", "a")
    assert done.code == 0 and done.err == ""
    assert done.out.splitlines() == [
        "   n  accuracy, %    std  probe std  probe se         against a, 95 %  "
        "probes alone  note",
        "a  3        60.00  10.00       1.00      0.45",
        "b  3        60.83   9.75       2.00      0.89  +0.83 (+0.12 to +1.55)  "
        "      ± 1.15  within probe noise",
    ]
    done = run("compare", *a, *b, "--reference", "a", "--json")
    one, two = json.loads(done.out)["rows"]
    assert one["probe_std"] == pytest.approx(0.01)
    assert two["probe_se"] == pytest.approx(0.02 / 5**0.5)
    found = two["difference"]
    assert found["probe_se"] == pytest.approx((5e-4 / 5 / 3) ** 0.5)
    assert found["probes_alone"] == 2 * found["probe_se"]
    assert found["within_probes"] is True and found["includes_zero"] is False
    assert (found["interval"], found["level"]) == ("t", 0.95)


def test_an_interval_that_includes_0_is_noted_in_every_format(run, scores):
    words = (*scores("a", [0.5, 0.6, 0.7]), *scores("b", [0.52, 0.58, 0.71]))
    words = ("compare", *words, "--reference", "a")
    for form in ("text", "markdown", "latex"):
        out = run(*words, "--format", form).out
        assert "interval includes 0" in out and "probe" not in out
    _, row = csv.DictReader(StringIO(run(*words, "--format", "csv").out))
    assert (row["includes_zero"], row["within_probes"]) == ("True", "")


def test_one_seed_has_no_interval_but_tells_what_probes_would_give(run, scores):
    a = scores("a", [0.5], (0,), each=spread([0.5]))
    b = scores("b", [0.51], (0,), each=spread([0.51]))
    line = run("compare", *a, *b, "--reference", "a").out.splitlines()[2]
    assert line.split(maxsplit=7)[2:] == [
        "51.00", "1.00", "0.45", "+1.00", "±",
        "1.26  one seed, no interval; within probe noise",
    ]  # fmt: skip


def test_wilcoxon_of_three_seeds_attains_75_percent_and_says_so(run, scores):
    a, b = scores("a", [0.5, 0.6, 0.7]), scores("b", [0.51, 0.62, 0.76])
    words = ("compare", *a, *b, "--reference", "a", "--interval", "wilcoxon")
    head, _, line = run(*words).out.splitlines()
    assert "against a, Wilcoxon" in head
    assert line.endswith("+2.75 (+1.00 to +6.00, 75 %)  3 seeds give 75 % at most")
    found = json.loads(run(*words, "--json").out)["rows"][1]["difference"]
    assert found["estimate"] == pytest.approx(0.0275)
    assert found["mean"] == pytest.approx(0.03)
    assert (found["interval"], found["level"]) == ("wilcoxon", 0.75)


def test_repeats_of_finetuning_are_as_probes(run, scores):
    a = scores("a", [0.5], (0,), protocol="semi", repeats=[0.49, 0.51])
    (row,) = json.loads(run("compare", *a, "--json").out)["rows"]
    assert row["probe_std"] == pytest.approx(0.02 / 2**0.5)
    assert row["probe_se"] == pytest.approx(0.01)


def test_probes_are_of_the_accuracy_alone(run, scores):
    a = scores("a", [0.5], (0,), probes=[0.49, 0.51], rank=7)
    (row,) = json.loads(run("compare", *a, "--value", "rank", "--json").out)["rows"]
    assert row["probe_std"] is None


def test_noise_is_unknown_where_a_side_has_one_probe_and_both_are_named(run, scores):
    a = scores("a", [0.5, 0.6], (0, 1), each=spread([0.5, 0.6]))
    b = scores("b", [0.51, 0.62], (0, 1))
    done = run("compare", *a, *b, "--reference", "a", "--json")
    assert "a1.json" in done.err and "b1.json: has the score of one probe" in done.err
    assert json.loads(done.out)["rows"][1]["difference"]["within_probes"] is None
    assert run("compare", *a, *b).err == ""


@pytest.mark.parametrize("protocol", ["cluster", "classifier"])
def test_a_model_s_own_classes_have_no_noise_of_probes(run, scores, protocol):
    means, repeats = [0.5, 0.6], [[0.49, 0.51], [0.59, 0.61]]
    each = [{"repeats": found} for found in repeats]
    a = scores("a", means, (0, 1), protocol="cluster", each=each)
    own = {"protocol": protocol, "seed": None}
    b = scores("b", [0.7, 0.9], (0, 1), **own)
    allowed = ("--allow-different", "protocol")
    done = run("compare", *a, *b, "--reference", "a", "--json", *allowed)
    rows = json.loads(done.out)["rows"]
    assert done.err == "" and rows[1]["probe_std"] == 0
    assert rows[1]["difference"]["probes_alone"] == pytest.approx(2 * 0.01 / 2**0.5)


def test_of_the_lowest_client_its_own_probes_count(run, scores):
    one = scores("c0_", [0.5], (0,), each=spread([0.5], 0.01))
    other = scores("c1_", [0.4], (0,), each=spread([0.4], 0.03))
    files = ",".join(text.partition("=")[2] for _, text in (one, other))
    done = run("compare", "--series", f"c={files}", "--lowest", "c", "--json")
    (row,) = json.loads(done.out)["rows"]
    assert row["values"] == [0.4] and row["probe_std"] == pytest.approx(0.03)


@pytest.mark.parametrize("probes", [0.5, ["x", 0.5], [0.5, 50], {"a": 0.5}])
def test_probes_that_are_no_accuracies_are_input_errors(run, scores, probes):
    done = run("compare", *scores("a", [0.5], (0,), probes=probes))
    assert done.code == 65 and "a0.json" in done.err and "probes" in done.err


def test_bytes_are_whole_numbers(run, scores):
    totals = ({"sent": {"bytes": n}} for n in (4_550_000, 1_310_001))
    sent = [scores(str(k), [0.5], (0,), total=each) for k, each in enumerate(totals)]
    done = run("compare", *sent[0], *sent[1], "--value", "total.sent.bytes",
               "--reference", "0")  # fmt: skip
    assert done.out.splitlines() == [
        "   n  total.sent.bytes  against 0, 95 %  note",
        "0  1         4,550,000",
        "1  1         1,310,001       -3,239,999  one seed, no interval",
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
    assert done.out.splitlines()[1].split() == ["a", "3", "2.5", "0"]


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
    assert "--lowest c: seeds have 2, 1 files" in done.err


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
        (("--interval", "wilcoxon"), "--interval wilcoxon does not apply without"),
        (("--interval", "bootstrap"), "--interval"),
        (("--claims", "x", "--reference", "a"), "--reference does not apply beside"),
        (("--claims", "x", "--published", "a=1"), "--published does not apply beside"),
        (("--series", "b=.", "--protocol", "liner"), "did you mean linear?"),
    ],
)
def test_what_does_not_fit_is_refused(run, scores, words, message):
    done = run("compare", *scores("a", [0.1, 0.2, 0.3]), *words)
    assert done.code == 2 and message in done.err and done.out == ""


def test_the_number_that_was_meant_is_suggested(run, scores):
    done = run("compare", *scores("a", [0.1], seeds=(0,)), "--value", "acuracy")
    assert done.code == 65 and "a0.json" in done.err
    assert done.err.endswith("; did you mean accuracy?\n")


def test_a_file_that_is_no_metrics_file(run, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    done = run("compare", "--series", f"a={tmp_path / 'x.json'}")
    assert done.code == 65 and "x.json" in done.err


# --- conditions -----------------------------------------------------------------------

TRAIN, TEST = {"examples": 1438, "labels": "ab"}, {"examples": 359, "labels": "cd"}
FASHION = {"examples": 6000, "labels": "ef"}
PROBE = {"epochs": 20, "lr": 0.1, "solver": "gradient", "threads": 1, "probes": 5}


@pytest.mark.parametrize(
    "other, name, said",
    [
        ({"options": {**PROBE, "epochs": 100}}, "epochs", "--epochs 100, "),
        (
            {"options": {**PROBE, "milestones": [60]}},
            "milestones",
            "--milestones [60], ",
        ),
        ({"data": {"train": TRAIN, "test": FASHION}}, "test-data", "6,000 images (ef)"),
        ({"data": {"train": FASHION, "test": TEST}}, "data", "6,000 images (ef)"),
        ({"protocol": "knn", "options": {"k": 200}}, "protocol", "the protocol knn"),
    ],
)
def test_scores_that_were_not_measured_alike_are_refused(
    run, scores, other, name, said
):
    data = {"train": TRAIN, "test": TEST}
    a = scores("a", [0.5], (0,), options=PROBE, data=data)
    b = scores("b", [0.6], (0,), **{"options": PROBE, "data": data, **other})
    done = run("compare", *a, *b)
    assert done.code == 65 and done.out == ""
    assert "b0.json: was measured with " in done.err and "a0.json with " in done.err
    assert said in done.err and f"--allow-different {name}\n" in done.err
    done = run("compare", *a, *b, "--allow-different", name)
    assert done.code == 0 and done.err == ""


def test_all_differences_are_named_and_one_that_is_not_allowed_is_refused(run, scores):
    a = scores("a", [0.5], (0,), options=PROBE)
    b = scores("b", [0.6], (0,), options={**PROBE, "epochs": 100, "lr": 0.3})
    assert "and other lr; " in run("compare", *a, *b).err
    assert run("compare", *a, *b, "--allow-different", "epochs").code == 65
    for words in (["epochs,lr"], ["epochs", "--allow-different", "--lr"]):
        assert run("compare", *a, *b, "--allow-different", *words).code == 0


def test_a_comparison_may_be_about_models_seeds_machines_and_noise(run, scores):
    more = {"device": "cuda", "threads": 4, "probes": 1, "random-init": True}
    a = scores("a", [0.5], (0,), options=PROBE, scored=1)
    b = scores("b", [0.6], (5,), options={**PROBE, **more}, scored=2)
    done = run("compare", *a, *b)
    assert done.code == 0 and done.err == ""


def test_series_called_by_the_values_of_an_option_are_about_it(run, scores):
    a = scores("20", [0.5], (0,), options=PROBE)
    b = scores("100", [0.6], (0,), options={**PROBE, "epochs": 100})
    assert run("compare", *a, *b).code == 0
    c = scores("100", [0.6], (0,), options={**PROBE, "epochs": 100, "lr": 1})
    assert "--allow-different lr\n" in run("compare", *a, *c).err


def test_plots_of_scores_that_were_not_measured_alike_are_refused(
    run, scores, tmp_path
):
    a = scores("a", [0.5], (0,), options=PROBE)
    b = scores("b", [0.6], (0,), options={**PROBE, "epochs": 100})
    for plot in (("curve",), ("bars",), ("differences", "--reference", "a")):
        words = ("plot", *plot, *a, *b, "-o", tmp_path / "x.png", "--dry-run")
        done = run(*words)
        assert done.code == 65 and "--allow-different epochs" in done.err, plot
        assert run(*words, "--allow-different", "epochs").code == 0, plot
    both = ("--series", f"1={a[1][2:]}", "--series", f"2={b[1][2:]}", "--over", "x")
    done = run("plot", "sweep", *both, "-o", tmp_path / "x.png", "--dry-run")
    assert done.code == 65 and "--allow-different epochs" in done.err


def test_groups_of_bars_may_be_measured_differently(run, scores, tmp_path):
    a = scores("one:a", [0.5], (0,), data={"test": {"examples": 3, "labels": "ab"}})
    b = scores("two:a", [0.6], (0,), data={"test": {"examples": 4, "labels": "ab"}})
    words = ("plot", "bars", *a, *b, "-o", tmp_path / "x.png", "--dry-run")
    assert run(*words).code == 0


def test_scores_of_a_model_that_is_not_there_any_more_are_marked(world, run):
    words = ("evaluate", "knn", "--data", "digits", "--k", 5, "-o")
    for number in range(2):
        client, folder = world.clients[number], world.folder / str(number)
        folder.mkdir()
        model = client.rename(folder / client.name)
        assert run(*words, folder / "knn.json", model).code == 0
    series = ("--series", f"a={world.folder}/0/knn.json,{world.folder}/1/knn.json")
    done = run("compare", *series)
    assert done.code == 0 and done.err == "" and "stale" not in done.out
    again = ("local-train", world.partition, world.model, "--data", "digits", "--epochs",
             1, "--batch-size", 240, "--lr", 0.5, "--client", 1)  # fmt: skip
    assert run(*again, "-o", world.folder / "1" / "client_1.safetensors").code == 0
    done = run("compare", *series)
    assert done.code == 0 and "stale: 1 of 2 scores" in done.out
    assert "1/knn.json: has the score of a model that no longer exists" in done.err
    assert run("compare", *series, "--strict").code == 65
    (row,) = json.loads(run("compare", *series, "--json").out)["rows"]
    assert row["stale"] == [f"{world.folder}/1/knn.json"]


def changed(path):
    """Another number in a file that furlkit wrote."""
    path.write_text(path.read_text().replace('"accuracy": 0.5', '"accuracy": 0.979'))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--series", "a={file}"),
        ("compare", "--series", "a={folder}"),
        ("inspect", "{file}"),
        ("plot", "curve", "{file}", "-o", "{folder}/x.png"),
        ("plot", "bars", "--series", "a={folder}", "-o", "{folder}/x.png"),
        ("plot", "confusion", "{file}", "-o", "{folder}/x.png"),
    ],
)
def test_a_number_that_was_changed_is_refused(run, scores, tmp_path, words):
    scores("a", [0.5], (0,))
    names = {"file": changed(tmp_path / "a0.json"), "folder": tmp_path}
    done = run(*(word.format(**names) for word in words))
    assert done.code == 65 and "a0.json: was changed" in done.err and done.out == ""


def test_scores_of_older_versions_are_read_with_a_warning(run, scores, tmp_path):
    words = scores("a", [0.5, 0.6, 0.7])
    for path in tmp_path.glob("a*.json"):
        document = json.loads(path.read_text())
        del document["content"]
        path.write_text(json.dumps({**document, "version": 2}))
    done = run("compare", *words)
    assert done.code == 0 and done.out.splitlines()[1].split()[:3] == [
        "a",
        "3",
        "60.00",
    ]
    assert done.err.count("warning") == 1
    assert "a0.json and 2 more: has no content hash" in done.err
    strict = run("compare", *words, "--strict")
    assert strict.code == 65 and "content hash" in strict.err
    assert run("inspect", tmp_path / "a0.json", "--strict").code == 65


# --- claims ---------------------------------------------------------------------------

CLAIMS = """
[[claims]]
claim = "b | is better"
higher = "b"
lower = "a"
paper = 2.7

[[claims]]
claim = "a is better than b"
higher = "a"
lower = "b"

[[claims]]
claim = "c is better"
higher = "c"
lower = "a"
paper = 0.15

[[claims]]
claim = "b has the higher rank"
higher = "b"
lower = "a"
value = "rank"
"""


@pytest.fixture
def claims(scores, tmp_path):
    """A file of claims, and series of which b is above a, and c is not; as words."""
    (tmp_path / "claims.toml").write_text(CLAIMS)
    a = scores("a", [0.5, 0.6, 0.7], rank=1.5)
    b = scores("b", [0.521, 0.62, 0.719], rank=2.5)
    c = scores("c", [0.52, 0.58, 0.71])
    return "compare", *c, *b, *a, "--claims", tmp_path / "claims.toml"


def test_claims_are_confirmed_refuted_or_undecided(run, claims):
    done = run(*claims)
    assert done.code == 0 and done.err == ""
    head, *lines = (re.split(" {2,}", line) for line in done.out.splitlines())
    assert head == ["claim", "score", "paper", "ours, 95 %", "n", "verdict", "note"]
    of = "linear accuracy (%)"
    assert lines == [
        ["b | is better", of, "+2.70", "+2.00 (+1.75 to +2.25)", "3", "confirmed"],
        ["a is better than b", of, "> 0", "-2.00 (-2.25 to -1.75)", "3", "refuted"],
        ["c is better", of, "+0.15", "+0.33 (-4.84 to +5.50)", "3", "undecided",
         "interval includes 0; needs about 153 seeds"],
        ["b has the higher rank", "linear rank", "> 0",
         "+1 (+1 to +1)", "3", "undecided",
         "same difference for every seed"],
    ]  # fmt: skip


def test_a_table_of_claims_has_the_verdicts_of_one_table_per_claim(
    run, claims, tmp_path
):
    expected = run(*claims).out
    text = """[claims]
    "b | is better" = { higher = "b", lower = "a", paper = 2.7 }
    "a is better than b" = { higher = "a", lower = "b" }
    "c is better" = { higher = "c", lower = "a", paper = 0.15 }
    "b has the higher rank" = { higher = "b", lower = "a", value = "rank" }
    """
    (tmp_path / "claims.toml").write_text(text)
    assert run(*claims).out == expected


def test_claims_in_other_formats_have_the_same_verdicts(run, claims):
    verdicts = ["confirmed", "refuted", "undecided", "undecided"]
    rows = json.loads(run(*claims, "--json").out)["claims"]
    assert [row["verdict"] for row in rows] == verdicts
    assert [row["paper"] for row in rows] == [2.7, None, 0.15, None]
    table = list(csv.DictReader(StringIO(run(*claims, "--format", "csv").out)))
    assert [row["verdict"] for row in table] == verdicts
    for row, other in zip(rows, table, strict=True):
        assert float(other["difference"]) == row["difference"]["estimate"]
        assert float(other["low"]) == row["difference"]["low"]
    assert float(table[0]["paper"]) == pytest.approx(0.027)
    markdown = run(*claims, "--format", "markdown").out.splitlines()
    assert markdown[2].startswith(r"| b \| is better | linear accuracy (%) | +2.70 |")
    assert "& confirmed & " in run(*claims, "--format", "latex").out


def test_an_interval_of_less_than_95_percent_decides_no_claim(run, claims):
    rows = json.loads(run(*claims, "--interval", "wilcoxon", "--json").out)["claims"]
    assert rows[0]["difference"]["includes_zero"] is False
    assert {row["verdict"] for row in rows} == {"undecided"}


def test_a_difference_within_probe_noise_decides_no_claim(run, scores, tmp_path):
    a, b = [0.5, 0.6, 0.7], [0.521, 0.62, 0.719]
    for by, verdict in ((0.01, "confirmed"), (0.05, "undecided")):
        words = (
            *scores("a", a, each=spread(a, by)),
            *scores("b", b, each=spread(b, by)),
        )
        (tmp_path / "claims.toml").write_text(CLAIMS[: CLAIMS.index("2.7") + 3])
        done = run("compare", *words, "--claims", tmp_path / "claims.toml", "--json")
        (row,) = json.loads(done.out)["claims"]
        assert row["verdict"] == verdict
        assert row["difference"]["within_probes"] is (verdict == "undecided")


def test_a_claim_chooses_the_protocol_of_its_runs(run, scores, tmp_path):
    for protocol, gain in (("linear", 0.02), ("knn", -0.02)):
        for label, more in (("a", 0), ("b", gain)):
            (tmp_path / label).mkdir(exist_ok=True)
            values = [0.5 + more, 0.6 + 1.1 * more, 0.7 + more]
            scores(f"{label}/{protocol}", values, protocol=protocol)
    text = CLAIMS[: CLAIMS.index("2.7") + 3]
    path = tmp_path / "claims.toml"
    path.write_text(f'{text}\n{text}\nprotocol = "knn"\n')
    words = ("--series", f"a={tmp_path / 'a'}", "--series", f"b={tmp_path / 'b'}")
    rows = json.loads(run("compare", *words, "--claims", path, "--json").out)["claims"]
    assert [(row["protocol"], row["verdict"]) for row in rows] == [
        ("linear", "confirmed"),
        ("knn", "refuted"),
    ]


CLAIM = 'claim = "x"\nhigher = "b"\nlower = "a"\n'


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "nothing"),
        ("[[claims]", "not TOML"),
        ("[claims]\n", "[claims]"),
        ("claims = []", "[claims]"),
        ("claims = [1]", "claim 1"),
        ("[claims]\nx = 1", "claim 1"),
        ("[claims]\nx.higher = 'b'", "lower"),
        ("[claims]\nx = { claim = 'y', higher = 'b', lower = 'z' }", "'z'"),
        (f"x = 1\n[[claims]]\n{CLAIM}", "[claims]"),
        (f"[[claims]]\n{CLAIM}sign = 1", "sign"),
        ('[[claims]]\nclaim = "x"\nhigher = "b"', "lower"),
        (f"[[claims]]\n{CLAIM}[[claims]]\n{CLAIM.replace('a', 'z', 2)}", "claim 2"),
        (f"[[claims]]\n{CLAIM.replace(chr(34) + 'a', chr(34) + 'z')}", "'z'"),
        (f"[[claims]]\n{CLAIM.replace(chr(34) + 'a', chr(34) + 'b')}", "itself"),
        (f"[[claims]]\n{CLAIM}paper = 0", "above 0"),
        (f"[[claims]]\n{CLAIM}paper = nan", "above 0"),
        (f"[[claims]]\n{CLAIM}paper = '+2'", "above 0"),
        (f"[[claims]]\n{CLAIM}value = 3", "value is 3"),
        ("\xff", "not TOML"),
    ],
)
def test_claims_that_cannot_be_read_are_input_errors(run, claims, tmp_path, text, word):
    path = tmp_path / "claims.toml"
    path.write_bytes(text.encode("latin-1"))
    done = run(*claims)
    assert done.code == 65 and done.out == ""
    assert str(path) in done.err and word in done.err.replace(str(path), "")


def test_missing_claims_and_a_folder_are_input_errors(run, claims, tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        done = run(*claims[:-1], path)
        assert done.code == 65 and str(path) in done.err and done.out == ""
