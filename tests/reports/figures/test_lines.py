import numpy as np
import pytest

from furlkit.reports.figures import Frame
from furlkit.reports.figures.lines import draw_lines, draw_loss
from furlkit.reports.figures.style import save
from furlkit.reports.metrics import Value
from furlkit.reports.summary import Line


def line(label, mean, x=None, rounds=None, std=0.0, runs=1):
    ones = np.ones(len(mean))
    x = np.arange(len(mean)) if x is None else np.array(x)
    rounds = x if rounds is None else np.array(rounds)
    return Line(label, x, rounds, np.array(mean), std * ones, (runs * ones).astype(int))


def words(legend):
    return [text.get_text() for text in legend.get_texts()]


def ticks_in_view(figure):
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    every = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return {x: text.get_text() for x, text in every if low <= x <= high}


def bands(axes):
    corners = [band.get_paths()[0].vertices for band in axes.collections]
    return [(*np.round(c.min(axis=0), 9), *np.round(c.max(axis=0), 9)) for c in corners]


def test_curve_in_percent_names_the_last_value_of_each_line():
    lines = [line("knn", [0.5, 0.75]), line("linear", [0.25, 1.0])]
    figure = draw_lines(lines, Value("accuracy"))
    (axes,) = figure.axes
    assert [x.get_ydata().tolist() for x in axes.lines] == [[50, 75], [25, 100]]
    assert axes.lines[0].get_xdata().tolist() == [0, 1]
    assert words(figure.legends[0]) == ["knn (last: 75.0)", "linear (last: 100.0)"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "accuracy (%)")
    assert not axes.collections
    ticks = np.array(list(ticks_in_view(figure)))
    assert np.array_equal(ticks, np.round(ticks))


def test_several_runs_have_a_band_of_one_standard_deviation():
    figure = draw_lines([line("", [1.0, 2], std=0.5, runs=3)], Value("rank"))
    (axes,) = figure.axes
    assert bands(axes) == [(0, 0.5, 1, 2.5)]
    assert "mean of 3 runs" in axes.get_xlabel()
    assert words(figure.legends[0]) == ["(last: 2)"]


def test_labels_that_look_like_formulas_or_hidden_ones_are_shown(tmp_path):
    lines = [line("$x_{", [0.1]), line("_hidden", [0.2])]
    figure = draw_lines(lines, Value("accuracy"), Frame("$\\broken"))
    save(figure, tmp_path / "a.png")
    shown = [text.split(" (")[0] for text in words(figure.legends[0])]
    assert shown == ["$x_{", "_hidden"]


@pytest.mark.parametrize("over", ["rounds", "epochs"])
def test_rounds_and_epochs_are_linear_with_whole_ticks(over):
    figure = draw_lines([line("a", [0.5, 0.6], [5, 8])], Value("rank"), over=over)
    assert figure.axes[0].get_xscale() == "linear"
    assert over in figure.axes[0].get_xlabel()
    assert list(ticks_in_view(figure)) == [5, 6, 7, 8]


def test_bytes_are_on_a_logarithmic_axis_with_units():
    lines = [
        line("a", [0.5, 0.6], [1e5, 2e9]),
        line("b", [0.7], [3e6], std=0.01, runs=3),
    ]
    figure = draw_lines(lines, Value("accuracy"), over="bytes")
    names = ["100 kB", "1 MB", "10 MB", "100 MB", "1 GB"]
    assert list(ticks_in_view(figure).values()) == names
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and "log scale" in axes.get_xlabel()
    # A band around a single point would not be seen.
    (bar,) = axes.containers
    np.testing.assert_allclose(bar[2][0].get_segments(), [[[3e6, 69], [3e6, 71]]])


@pytest.mark.parametrize("amounts", [[1.1e6, 1.2e6], [1.3e6], [2e6, 9e6]])
def test_an_axis_within_a_power_of_ten_has_ticks(amounts):
    lines = [line("a", [0.5] * len(amounts), amounts)]
    assert len(ticks_in_view(draw_lines(lines, Value("x"), over="bytes"))) >= 2


def loss(label, rounds, mean, std=0.5):
    return line(label, mean, np.arange(len(mean)) + 1, rounds, std)


def drawn(axes):
    """Style, marker and points of each line."""
    return [
        (x.get_linestyle(), x.get_marker(), x.get_xydata().tolist()) for x in axes.lines
    ]


def test_rounds_are_dashed_and_aggregations_solid_with_markers():
    figure = draw_loss(
        [loss("a", [1, 1, 2, 2], [4, 3, 3.5, 2])], Value("training loss")
    )
    (axes,) = figure.axes
    assert drawn(axes) == [
        ("--", "", [[1, 4], [2, 3]]),
        ("--", "", [[3, 3.5], [4, 2]]),
        ("-", "o", [[2, 3], [3, 3.5]]),
    ]
    assert bands(axes) == [(1, 2.5, 2, 4.5), (3, 1.5, 4, 4)]
    keys = ["mean of clients", "one standard deviation", "aggregation"]
    assert words(axes.get_legend()) == keys
    assert words(figure.legends[0]) == ["a (last: 2)"]
    assert axes.get_ylabel() == "training loss"


def test_rounds_of_one_epoch_are_points_with_bars():
    (axes,) = draw_loss([loss("", [1, 2], [4, 3])], Value("training loss")).axes
    lines = [each for each in drawn(axes) if each[2]]
    assert ("--", "o", [[1, 4]]) in lines and ("-", "o", [[1, 4], [2, 3]]) in lines
    bars = [bar[2][0].get_segments()[0].tolist() for bar in axes.containers]
    assert bars == [[[1, 3.5], [1, 4.5]], [[2, 2.5], [2, 3.5]]]
    mean, *_ = axes.get_legend().get_lines()
    assert (mean.get_linestyle(), mean.get_marker()) == ("None", "o")


def test_the_legend_explains_only_what_is_drawn():
    (axes,) = draw_loss([loss("a", [1, 1], [4, 3], std=0)], Value("loss")).axes
    assert words(axes.get_legend()) == ["mean of clients"] and not axes.collections


def test_more_lines_than_colours_differ():
    lines = [loss(f"{k}", [1, 2], [4 + k, 3 + k]) for k in range(9)]
    for figure in (
        draw_loss(lines, Value("loss"), Frame("title")),
        draw_lines(lines, Value("loss")),
    ):
        handles = figure.legends[0].get_lines()
        looks = {(handle.get_color(), handle.get_marker()) for handle in handles}
        assert len(looks) == 9


COLUMN = Frame("", (3.3, 2.4))  # Inches of a column in a paper of two.


@pytest.mark.parametrize("over", ["round", "bytes"])
def test_labels_fit_a_column_of_a_paper(over):
    lines = [line(name, [0.5, 0.6], [1, 2], std=0.1, runs=3) for name in ("knn", "lin")]
    value = Value("accuracy", ("knn", "linear"))
    figure = draw_lines(lines, value, COLUMN, over)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    y, x = axes.yaxis.label.get_window_extent(), axes.xaxis.label.get_window_extent()
    assert axes.get_ylabel().split() == ["k-NN", "or", "linear", "accuracy", "(%)"]
    assert y.height <= axes.get_window_extent().height + 1
    assert not y.overlaps(figure.legends[0].get_window_extent())
    assert x.x0 >= 0 and x.x1 <= figure.bbox.width


def test_a_narrow_picture_explains_the_styles_of_losses_below():
    loss = line("", [4.0, 3, 3.5, 2], [1, 2, 3, 4], [1, 1, 2, 2], 0.5)
    (axes,) = draw_loss([loss], Value("loss"), COLUMN).axes
    told = " ".join(axes.get_xlabel().split())
    assert "dashed: mean of clients; band: one standard deviation" in told
    assert axes.get_legend() is None


def test_a_logarithmic_axis_of_losses():
    loss = line("", [40.0, 8, 2, 0.5], [1, 2, 3, 4], [1, 1, 2, 2])
    figure = draw_loss([loss], Value("loss"), log=True)
    (axes,) = figure.axes
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "loss, log scale")
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert ticks == pytest.approx([0.5, 1, 2, 5, 10, 20])
    (axes,) = draw_loss([loss], Value("loss")).axes
    assert axes.get_yscale() == "linear"
