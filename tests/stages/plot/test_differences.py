"""The forest plot of differences."""

import json
from itertools import pairwise

import pytest

from furlkit.catalogue import defaults
from furlkit.errors import UsageError
from furlkit.reports.differences import Difference, Interval
from furlkit.reports.figures import Frame
from furlkit.reports.figures.forest import draw_forest
from furlkit.reports.metrics import Value
from furlkit.reports.results import Results
from furlkit.stages.plot import differences as stage


def draw(series, output, **more):
    values = {"series": series, "output": output, "reference": "a", **more}
    return stage.run({**defaults("plot differences"), **values})


@pytest.fixture
def series(metrics, tmp_path):
    """Write the files of a method, one per seed; gives its --series."""

    def write(label, accuracies, **more):
        values = enumerate(accuracies)
        files = [metrics(tmp_path, f"{label}{k}", v, seed=k, **more) for k, v in values]
        return label, tuple(files)

    return write


def row(label, estimate, low=None, high=None, probe_se=None, level=0.95):
    effect = Interval(estimate, low, high, None if low is None else level)
    n = 1 if low is None else 3
    return Results(
        "", label, (), difference=Difference(estimate, effect, n, probe_se=probe_se)
    )


def written(axes):
    return [text.get_text() for text in axes.texts]


def dots(axes):
    """The dots of a forest: where each is, and whether it is filled."""
    found = [each for each in axes.collections if not hasattr(each, "get_segments")]
    return [
        (*each.get_offsets()[0], tuple(each.get_facecolor()[0]) != (1, 1, 1, 1))
        for each in found
    ]


def test_run_tells_the_differences_of_compare(run, tmp_path, series):
    a, b = series("a", [0.1, 0.2, 0.3]), series("b", [0.12, 0.21, 0.33])
    text, data = draw((a, b), tmp_path / "x.png")
    assert text == (
        f"{tmp_path}/x.png: accuracy against a: b +2.00 (-0.48 to +4.48), "
        "interval includes 0; needs about 4 seeds"
    )
    assert (tmp_path / "x.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    words = [f"{label}={','.join(map(str, paths))}" for label, paths in (a, b)]
    words = ("--series", words[0], "--series", words[1], "--reference", "a", "--json")
    compared = json.loads(run("compare", *words).out)["rows"][1]
    (found,) = data["rows"]
    assert found == {key: compared[key] for key in found}


def test_interval_lowest_and_value_are_those_of_compare(tmp_path, series):
    a = series("a", [0.5, 0.6], rank=2.0)
    one, other = series("b", [0.51, 0.7], rank=2.5), series("c", [0.4, 0.8], rank=2.25)
    both = "b", one[1] + other[1]
    text, data = draw((a, both), tmp_path / "x.png", interval="wilcoxon", lowest=("b",))
    (found,) = data["rows"]
    assert found["values"] == [0.4, 0.7] and found["difference"]["level"] == 0.5
    text, _ = draw((a, one), tmp_path / "x.png", value="rank")
    assert "rank against a: b +0.5 (+0.5 to +0.5), same difference" in text


def test_rows_have_estimates_intervals_and_bands_in_percent():
    rows = [row("one", 0.02, 0.01, 0.04, 0.005), row("two", -0.01, -0.03, 0.01, 0.002)]
    figure = draw_forest(rows, Value("accuracy", ("linear",)), "base")
    (axes,) = figure.axes
    bands = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
    assert bands == [(-1, 2), (pytest.approx(-0.4), pytest.approx(0.8))]
    assert [patch.get_y() for patch in axes.patches] == [-0.5, 0.5]
    bars = [each for each in axes.collections if hasattr(each, "get_segments")]
    ends = [bar.get_segments()[0][:, 0].tolist() for bar in bars]
    assert ends == [pytest.approx([1, 4]), pytest.approx([-3, 1])]
    # The first is beyond both kinds of noise, the interval of the second includes 0.
    assert dots(axes) == [(2, 0, True), (-1, 1, False)]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["one", "two"]
    assert written(axes) == ["+2.00 (+1.00 to +4.00)", "-1.00 (-3.00 to +1.00)"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first row is on top"
    low, high = axes.get_xlim()
    assert low < -3 and high > 4
    label = figure.get_supxlabel()
    assert label.startswith("linear accuracy (%) minus that of base\n")
    assert "95 % t interval" in label and "probes alone" in label


def test_a_difference_within_the_band_is_hollow():
    (axes,) = draw_forest([row("a", 0.02, 0.01, 0.04, 0.011)], Value("x"), "b").axes
    assert dots(axes) == [(0.02, 0, False)]


def test_a_row_of_one_seed_has_neither_bar_nor_explanation_of_bars():
    figure = draw_forest([row("a", 2.0)], Value("rank"), "b", numbers=False)
    (axes,) = figure.axes
    assert len(axes.collections) == 1 and not axes.patches and not written(axes)
    assert figure.get_supxlabel() == "rank minus that of b"


@pytest.mark.parametrize("probe_se, least", [(None, 0), (1.0, -2)])
def test_zero_and_the_whole_band_are_always_in_the_picture(probe_se, least):
    rows = [row("a", 5.0, 4.0, 6.0, probe_se)]
    low, high = draw_forest(rows, Value("rank"), "b").axes[0].get_xlim()
    assert low < least and high > 6


def test_pictures_grow_with_their_rows_and_long_names_are_shortened():
    name = "a method with a very long name, of which there is a variant {}"
    few, many = (
        draw_forest(
            [row(name.format(k), 1.0, 0.5, 2.0) for k in range(n)], Value("x"), "b"
        )
        for n in (1, 12)
    )
    assert many.get_figheight() > few.get_figheight() + 3
    labels = [text.get_text() for text in many.axes[0].get_yticklabels()]
    assert len(set(labels)) == 12 and max(map(len, labels)) == 36


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_same_bytes_twice_whatever_the_order_of_files(tmp_path, suffix, series):
    a, b = series("a", [0.1 / 3, 0.2, 0.7]), series("b", [0.3, 0.1, 0.5])
    for name, step in (("1", 1), ("2", -1)):
        draw((a, (b[0], b[1][::step])), tmp_path / f"{name}.{suffix}")
    one, two = (tmp_path / f"{name}.{suffix}" for name in "12")
    assert one.read_bytes() == two.read_bytes()


def test_what_cannot_be_drawn_is_a_usage_error(tmp_path, series):
    a, b = series("a", [0.5]), series("b", [0.6])
    for given, more, word in (
        ((a,), {}, "--reference a: is the only --series"),
        ((a, b), {"reference": "c"}, "--reference c"),
        ((a, b), {"lowest": ("c",)}, "--lowest c"),
    ):
        with pytest.raises(UsageError, match=word):
            draw(given, tmp_path / "x.png", **more)
    assert not (tmp_path / "x.png").exists()


def test_a_reference_is_required(refused, tmp_path, metrics):
    file = metrics(tmp_path, "m")
    line = ("plot", "differences", "--series", f"a={file}", "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ("--reference",), *line)


def test_long_names_leave_room_for_the_bars_in_a_column_of_a_paper():
    rows = [
        row("FedCA, no alignment", 0.01, -0.15, 0.18),
        row("FedCA", 0.01, 0.0, 0.02),
    ]
    figure = draw_forest(rows, Value("accuracy"), "b", frame=Frame(size=(3.3, 2.5)))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_window_extent().width > figure.bbox.width / 3
    labels = [text for text in axes.get_xticklabels() if text.get_text()]
    low, high = sorted(axes.get_xlim())
    shown = [each for each in labels if low <= each.get_position()[0] <= high]
    areas = [each.get_window_extent() for each in shown]
    pairs = pairwise(areas)
    assert len(shown) > 1 and all(left.x1 < right.x0 for left, right in pairs)
