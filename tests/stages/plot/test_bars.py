import json

import pytest
from matplotlib.collections import LineCollection

from furlkit.catalogue import defaults
from furlkit.errors import InputError, UsageError
from furlkit.reports.differences import Difference, Interval
from furlkit.reports.figures.bars import draw_bars
from furlkit.reports.metrics import Value
from furlkit.reports.results import Results
from furlkit.stages.plot import bars as stage


def draw(series, output, **more):
    values = {"series": series, "output": output, **more}
    return stage.run({**defaults("plot bars"), **values})


@pytest.fixture
def series(metrics):
    """Write the files of a method, one per seed; gives its --series."""

    def write(folder, label, accuracies, seeds=None, group=""):
        seeds = seeds or [None] * len(accuracies)
        paths = tuple(
            metrics(folder, f"{group}{label}{k}", accuracy, seed=seed)
            for k, (accuracy, seed) in enumerate(zip(accuracies, seeds, strict=True))
        )
        return (f"{group}:{label}" if group else label), paths

    return write


def test_run_gives_mean_deviation_and_values_of_each_bar(tmp_path, series):
    given = series(tmp_path, "a", [0.7, 0.5, 0.6]), series(tmp_path, "b", [0.25])
    text, data = draw(given, tmp_path / "x.png")
    one, two = data["bars"]
    assert text == f"{tmp_path}/x.png: accuracy of a 60.00 +- 10.00 %; b 25.00 %"
    assert (one["label"], one["n"], one["values"]) == ("a", 3, [0.7, 0.5, 0.6])
    assert (one["mean"], one["std"]) == pytest.approx((0.6, 0.1))
    assert (two["mean"], two["std"], two["n"]) == (0.25, None, 1)
    assert one["files"] == [str(path) for path in given[0][1]]
    assert "difference" not in one and data["reference"] is None
    assert (tmp_path / "x.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    json.dumps(data)


def test_reference_pairs_files_by_the_seed_of_their_models(tmp_path, series):
    base = series(tmp_path, "base", [0.1, 0.2, 0.3], [1, 2, 3])
    other = series(tmp_path, "other", [0.33, 0.12, 0.21], [3, 1, 2])
    text, data = draw((base, other), tmp_path / "x.png", reference="base")
    assert "difference" not in data["bars"][0]
    found = data["bars"][1]["difference"]
    assert found["paired_by"] == "seed" and found["n"] == 3
    # Differences 0.03, 0.02, 0.01: deviation 0.01, and t of 2 is 4.303.
    half = 4.303 * 0.01 / 3**0.5
    wanted = 0.02, 0.02 - half, 0.02 + half
    assert (found["mean"], found["low"], found["high"]) == pytest.approx(wanted, 1e-3)
    assert "other 22.00 +- 10.54 % (+2.00, -0.48 to +4.48, by seed)" in text
    assert text.endswith("; against base, with 95% intervals")


def test_reference_pairs_files_by_position_where_models_have_no_seed(tmp_path, series):
    base = series(tmp_path, "base", [0.1, 0.2])
    other = series(tmp_path, "other", [0.3, 0.2], [0, 1])
    _, data = draw((base, other), tmp_path / "x.png", reference="base")
    found = data["bars"][1]["difference"]
    assert found["paired_by"] == "position"
    assert found["mean"] == pytest.approx(0.1)
    # Differences 0.2 and 0 are 0.1 +- 0.1 * t of 1, which is 12.706.
    assert found["high"] == pytest.approx(0.1 + 12.706 * 0.1, rel=1e-4)


def test_seeds_that_do_not_tell_files_apart_pair_by_position(tmp_path, series):
    base = series(tmp_path, "base", [0.1, 0.2], [0, 0])
    other = series(tmp_path, "other", [0.2, 0.3], [0, 0])
    _, data = draw((base, other), tmp_path / "x.png", reference="base")
    assert data["bars"][1]["difference"]["paired_by"] == "position"


def test_a_single_pair_has_a_difference_without_an_interval(tmp_path, series):
    given = series(tmp_path, "a", [0.5]), series(tmp_path, "b", [0.75])
    text, data = draw(given, tmp_path / "x.png", reference="a")
    found = data["bars"][1]["difference"]
    wanted = {"mean": 0.25, "low": None, "high": None, "n": 1, "paired_by": "position"}
    assert {key: found[key] for key in wanted} == wanted
    assert "b 75.00 % (+25.00, by position)" in text


def test_each_group_has_its_own_reference(tmp_path, series):
    values = {
        ("IID", "a"): 0.5,
        ("IID", "b"): 0.6,
        ("skew", "a"): 0.3,
        ("skew", "b"): 0,
    }
    given = tuple(series(tmp_path, b, [v], group=g) for (g, b), v in values.items())
    _, data = draw(given, tmp_path / "x.png", reference="a")
    found = [b["difference"]["mean"] for b in data["bars"] if b["label"] == "b"]
    assert found == pytest.approx([0.1, -0.3])


def test_another_value_is_drawn_by_its_dotted_name(tmp_path, metrics):
    file = metrics(tmp_path, "m", drift={"rank": 7.5})
    text, _ = draw((("a", (file,)),), tmp_path / "x.png", value="drift.rank")
    assert text == f"{tmp_path}/x.png: drift.rank of a 7.5"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_same_bytes_twice_whatever_the_order_of_files(tmp_path, suffix, series):
    a = series(tmp_path, "a", [0.1 / 3, 0.2, 0.7], [0, 1, 2], "g")
    b = series(tmp_path, "b", [0.5], group="h")
    for name, step in (("1", 1), ("2", -1)):
        given = (a[0], a[1][::step]), b
        draw(given, tmp_path / f"{name}.{suffix}")
    one, two = (tmp_path / f"{name}.{suffix}" for name in "12")
    assert one.read_bytes() == two.read_bytes()


def heights(axes):
    return [patch.get_height() for patch in axes.patches]


def test_bars_have_heights_in_percent_whiskers_dots_and_numbers():
    bars = [Results("", "a", [0.5, 0.75]), Results("", "b", [0.25])]
    (axes,) = draw_bars(bars, Value("accuracy")).axes
    assert heights(axes) == [62.5, 25]
    assert [text.get_text() for text in axes.texts] == ["62.5", "25.0"]
    whisker, dots = axes.collections
    spread = 12.5 * 2**0.5
    ends = whisker.get_segments()[0][:, 1]
    assert ends == pytest.approx([62.5 - spread, 62.5 + spread])
    assert dots.get_offsets()[:, 1].tolist() == [50, 75]
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 75
    assert axes.get_ylabel() == "accuracy (%)"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b"]
    assert "mean of 1 to 2 results" in axes.get_xlabel()


def test_a_label_has_one_colour_in_all_groups_and_stands_once_in_the_legend():
    # The second group has them in another order and one more.
    names = [("one", "a"), ("one", "b"), ("two", "b"), ("two", "a"), ("two", "c")]
    figure = draw_bars([Results(g, label, [1.0]) for g, label in names], Value("rank"))
    (axes,) = figure.axes
    colours = [patch.get_facecolor() for patch in axes.patches]
    assert colours[0] == colours[3] and colours[1] == colours[2]
    assert len(set(colours)) == 3
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b", "c"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["one", "two"]
    middles = [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]
    assert middles == pytest.approx([0, 1, 2.7, 3.7, 4.7])


def test_bars_of_a_group_stand_together_in_whatever_order_they_are_given():
    names = [("one", "a"), ("two", "a"), ("one", "b")]
    (axes,) = draw_bars(
        [Results(g, label, [1.0]) for g, label in names], Value("x")
    ).axes
    middles = [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]
    assert middles == pytest.approx([0, 2.7, 1])


def test_a_cut_axis_says_where_it_starts():
    (axes,) = draw_bars([Results("", "a", [0.5])], Value("accuracy"), 40).axes
    assert axes.get_ylim()[0] == 40
    assert axes.get_ylabel() == "accuracy (%)\naxis starts at 40, not at 0"


def test_negative_values_hang_from_zero():
    (axes,) = draw_bars([Results("", "a", [-2.0])], Value("gap")).axes
    low, high = axes.get_ylim()
    assert low < -2 and high > 0 and heights(axes) == [-2]


def test_more_labels_than_colours_differ_by_hatch():
    bars = [Results("", str(k), [1.0]) for k in range(20)]
    (axes,) = draw_bars(bars, Value("x")).axes
    looks = {(p.get_facecolor(), p.get_hatch()) for p in axes.patches}
    assert len(looks) == 20


def test_a_cut_that_would_hide_something_is_refused(tmp_path, series):
    given = (series(tmp_path, "a", [0.5, 0.6]),)  # The whisker ends at 47.9.
    with pytest.raises(UsageError, match="--from 48: would hide .* down to 47.93"):
        draw(given, tmp_path / "x.png", start=48)
    draw(given, tmp_path / "x.png", start=47)


@pytest.mark.parametrize(
    ("labels", "reference", "message"),
    [
        (
            {"a": [0.1], "b": [0.2]},
            "c",
            "--reference c: there is no such label, only a, b",
        ),
        (
            {"a": [0.1, 0.2], "b": [0.2]},
            "a",
            "b: has 1 files and the reference a has 2",
        ),
    ],
)
def test_references_that_do_not_fit(tmp_path, labels, reference, message, series):
    given = tuple(series(tmp_path, *each) for each in labels.items())
    with pytest.raises(UsageError, match=message):
        draw(given, tmp_path / "x.png", reference=reference)


def test_a_group_without_the_reference_and_other_seeds_are_refused(tmp_path, series):
    one, two = series(tmp_path, "a", [1], group="g"), series(tmp_path, "b", [1])
    with pytest.raises(UsageError, match="no such label, only b"):
        draw((one, two), tmp_path / "x.png", reference="a")
    one = series(tmp_path, "a", [0.1, 0.2], [0, 1])
    two = series(tmp_path, "b", [0.1, 0.2], [2, 3])
    with pytest.raises(UsageError, match="seeds 2, 3 and .* a has 0, 1"):
        draw((one, two), tmp_path / "x.png", reference="a")


def test_a_bar_is_of_one_kind_and_counts_a_result_once(tmp_path, metrics):
    first = metrics(tmp_path, "m")
    for more in ({"protocol": "knn"}, {"round_": 2}):
        other = metrics(tmp_path, "n", **more)
        with pytest.raises(UsageError, match="two --series") as caught:
            draw((("a", (first, other)),), tmp_path / "x.png")
        assert "linear of a global model of round 1" in str(caught.value)
    same = metrics(tmp_path, "n")
    with pytest.raises(UsageError, match="n.json repeats the result of .*m.json"):
        draw((("a", (first, same)),), tmp_path / "x.png")


@pytest.mark.parametrize("accuracy", ["high", None, True, 10**400])
def test_values_that_are_no_numbers_are_input_errors(tmp_path, accuracy, metrics):
    file = metrics(tmp_path, "m", accuracy)
    with pytest.raises(InputError, match="has no number 'accuracy'") as caught:
        draw((("a", (file,)),), tmp_path / "x.png")
    assert str(caught.value).startswith(f"{file}: ")


def test_not_a_number_and_other_files_are_input_errors(tmp_path, refused, metrics):
    file, output = metrics(tmp_path, "m"), tmp_path / "x.png"
    file.write_text(file.read_text().replace("0.5", "NaN"))
    line = ("plot", "bars", "--series", f"a={file}", "-o", output)
    refused(tmp_path, 65, (file, "NaN"), *line)
    file.write_text("[]")
    refused(tmp_path, 65, (file, "not a metrics file"), *line)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "x.png"], "Missing option '--series'"),
        (["--series", "a=m.json", "--from", "-1", "-o", "x.png"], "--from"),
        (["--series", "a=m.json", "--from", "nan", "-o", "x.png"], "--from"),
        (["--series", "g:a=m.json", "--series", "g:a=m.json", "-o", "x.png"],
         "--series g:a: given twice"),
    ],
)  # fmt: skip
def test_wrong_usage(tmp_path, monkeypatch, refused, words, message, metrics):
    monkeypatch.chdir(tmp_path)
    metrics(tmp_path, "m")
    refused(tmp_path, 2, (message,), "plot", "bars", *words)


def test_command_splits_groups_labels_and_files(tmp_path, run, metrics):
    files = metrics(tmp_path, "m"), metrics(tmp_path, "n", 0.75)
    words = ("--series", f"IID:a, b={files[0]},{files[1]}", "--from", 20)
    code, out, _ = run("plot", "bars", *words, "--json", "-o", tmp_path / "x.png")
    (found,) = json.loads(out)["bars"]
    assert code == 0 and (found["group"], found["label"]) == ("IID", "a, b")
    assert found["values"] == [0.5, 0.75] and (tmp_path / "x.png").exists()


def test_dry_run_checks_and_draws_nothing(tmp_path, series):
    given, output = (series(tmp_path, "a", [0.5]),), tmp_path / "x.png"
    text, _ = draw(given, output, dry_run=True)
    assert text == f"would draw {output}: accuracy of a 50.00 %"
    assert not output.exists()
    with pytest.raises(UsageError, match="--from 60"):
        draw(given, output, start=60, dry_run=True)


def by_domain(metrics, folder, name, ink, oil, seed=None):
    """A file of evaluate --by-domain; accuracies are in the order of the names."""
    domains = {"oil": {"accuracy": oil}, "ink": {"accuracy": ink}}
    more = {"domains": domains, "domain_names": ["ink", "oil"]}
    return metrics(folder, name, (ink + oil) / 2, seed=seed, **more)


def test_domains_are_groups_and_their_mean_is_the_last(tmp_path, metrics, drawn):
    a = tuple(by_domain(metrics, tmp_path, f"a{k}", 0.5, 0.1 * k, k) for k in (1, 3))
    b = tuple(by_domain(metrics, tmp_path, f"b{k}", 0.75, 0.1 * k, k) for k in (1, 3))
    given, how = (("a", a), ("b", b)), {"by_domain": True, "reference": "a"}
    text, data = draw(given, tmp_path / "x.png", **how)
    found = {(bar["group"], bar["label"]): bar for bar in data["bars"]}
    assert list(found) == [
        (group, label) for group in ("ink", "oil", "mean") for label in "ab"
    ]
    means = [bar["mean"] for bar in found.values()]
    assert means == pytest.approx([0.5, 0.75, 0.2, 0.2, 0.35, 0.475])
    assert found["mean", "b"]["difference"]["mean"] == pytest.approx(0.125)
    assert "ink b 75.00 +- 0.00 %" in text
    assert drawn[0].axes[0].get_ylabel() == "linear by domain accuracy (%)"


def test_one_domain_is_a_value_of_its_own(tmp_path, metrics, drawn):
    given = (("a", (by_domain(metrics, tmp_path, "a", 0.5, 0.25),)),)
    _, data = draw(given, tmp_path / "x.png", value="domains.oil.accuracy")
    assert data["bars"][0]["mean"] == 0.25
    assert drawn[0].axes[0].get_ylabel() == "linear accuracy on oil (%)"


def test_bars_by_domain_need_domains_and_no_groups(tmp_path, metrics, series):
    plain = series(tmp_path, "a", [0.5])
    with pytest.raises(InputError, match="a0.json: has no scores of domains"):
        draw((plain,), tmp_path / "x.png", by_domain=True)
    both = by_domain(metrics, tmp_path, "b", 0.5, 0.25)
    with pytest.raises(InputError, match="a0.json: has no number 'domains.ink"):
        draw((("b", (both,)), plain), tmp_path / "x.png", by_domain=True)
    with pytest.raises(UsageError, match="--series g:b: has a group"):
        draw((("g:b", (both,)),), tmp_path / "x.png", by_domain=True)


def test_scores_by_domain_are_not_mixed_with_others(tmp_path, metrics, series):
    """Both are of the linear protocol, and may lie in the folder of one run."""
    other = by_domain(metrics, tmp_path, "b", 0.5, 0.25)
    _, (plain,) = series(tmp_path, "a", [0.5])
    with pytest.raises(UsageError, match="linear by domain.*two --series"):
        draw((("a", (plain, other)),), tmp_path / "x.png")


def test_the_reference_and_differences_from_it_are_drawn():
    effect = Interval(0.1, 0.06, 0.14)
    bars = [
        Results(group, label, (0.5 + k / 10, 0.7 + k / 10), difference=found)
        for k, group in enumerate("xy")
        for label, found in (("b", Difference(0.1, effect, 2)), ("a", None))
    ]
    figure = draw_bars(bars, Value("accuracy"))
    (axes,) = figure.axes
    (one, other) = (c for c in axes.collections if isinstance(c, LineCollection)
                    and c.get_linestyle()[0][1])  # fmt: skip
    heights = [lines.get_segments()[0][:, 1].tolist() for lines in (one, other)]
    assert heights == [pytest.approx([60, 60]), pytest.approx([70, 70])]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["+10.0\n±4.0\n60.0", "60.0", "+10.0\n±4.0\n70.0", "70.0"]
    assert "dashed: reference" in axes.get_xlabel()


def test_without_a_reference_no_line_is_drawn():
    (axes,) = draw_bars([Results("", "a", (0.5,))] * 2, Value("accuracy")).axes
    assert "reference" not in axes.get_xlabel()
    assert [text.get_text() for text in axes.texts] == ["50.0", "50.0"]
    assert not axes.collections
