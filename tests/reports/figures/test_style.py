import numpy as np
import pytest

from furlkit.reports.figures.partition import (
    draw_bubbles,
    draw_heat,
    draw_sizes,
    reference_counts,
)
from furlkit.reports.figures.style import Line, draw_curve, save, spread_apart

HISTOGRAM = np.array([[9, 4, 0], [0, 1, 16]])
NAMES = ["cat", "dog", "automobile"]


def line(label, mean, std=None, runs=None):
    n = len(mean)
    std = np.zeros(n) if std is None else np.array(std)
    runs = np.ones(n, int) if runs is None else np.array(runs)
    return Line(label, np.arange(n), np.array(mean), std, runs)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_curve_draws_a_line_for_each_protocol_in_percent():
    lines = [line("knn", [0.5, 0.75]), line("linear", [0.25, 1.0])]
    figure = draw_curve(lines, "accuracy", percent=True)
    (axes,) = figure.axes
    assert [x.get_ydata().tolist() for x in axes.lines] == [[50, 75], [25, 100]]
    assert axes.lines[0].get_xdata().tolist() == [0, 1]
    assert texts(axes) == ["75.0", "100.0"]
    assert axes.get_ylabel() == "accuracy (%)"
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["knn", "linear"]


def test_curve_of_one_line_has_no_legend_and_no_band():
    figure = draw_curve([line("knn", [1.0, 2.0])], "rank", percent=False)
    (axes,) = figure.axes
    assert not figure.legends and not axes.collections
    assert texts(axes) == ["2"] and axes.get_xlabel() == "round"


def test_curve_of_several_runs_has_a_band_of_one_standard_deviation():
    figure = draw_curve(
        [line("knn", [0.5, 0.6], [0.1, 0.2], [3, 2])], "accuracy", percent=True
    )
    (axes,) = figure.axes
    corners = axes.collections[0].get_paths()[0].vertices
    first = sorted(set(np.round(corners[corners[:, 0] == 0, 1], 9)))
    last = sorted(set(np.round(corners[corners[:, 0] == 1, 1], 9)))
    assert (first, last) == ([40, 60], [40, 80])
    assert "mean of 2 to 3 scores" in axes.get_xlabel()


def test_curve_ticks_are_whole_rounds():
    figure = draw_curve([line("", [0.1, 0.2])], "accuracy", percent=True)
    ticks = figure.axes[0].get_xticks()
    assert np.array_equal(ticks, np.round(ticks))


def test_curve_shows_labels_that_look_like_formulas_or_hidden_ones(tmp_path):
    lines = [line("$x_{", [0.1]), line("_hidden", [0.2])]
    figure = draw_curve(lines, "accuracy", percent=True, title="$\\broken")
    save(figure, tmp_path / "a.png")
    labels = [t.get_text() for t in figure.legends[0].get_texts()]
    assert labels == ["$x_{", "_hidden"]


@pytest.mark.parametrize("seed", range(20))
def test_spread_apart_keeps_order_gap_and_top(seed):
    rng = np.random.default_rng(seed)
    heights = rng.uniform(0, 50, 6)
    placed = spread_apart(heights, gap=9, top=50)
    assert np.array_equal(np.argsort(placed), np.argsort(heights))
    assert np.diff(np.sort(placed)).min() >= 9 - 1e-9
    assert placed.max() <= 50 + 1e-9


def test_spread_apart_leaves_what_is_apart_and_centres_what_crowds():
    assert spread_apart(np.array([0.0, 20.0]), 9, 100).tolist() == [0, 20]
    assert spread_apart(np.array([10.0, 12.0]), 8, 100).tolist() == [7, 15]
    assert spread_apart(np.array([12.0, 10.0]), 8, 100).tolist() == [15, 7]


def test_heat_map_holds_the_histogram_and_writes_counts_and_sizes():
    figure = draw_heat(HISTOGRAM, HISTOGRAM.sum(axis=1), NAMES, "title")
    axes, side = figure.axes[:2]
    assert np.array_equal(axes.images[0].get_array(), HISTOGRAM)
    assert texts(axes) == ["9", "4", "1", "16"]
    assert texts(side) == [" 13", " 17"]
    assert [bar.get_width() for bar in side.patches] == [13, 17]
    assert [t.get_text() for t in axes.get_xticklabels()] == NAMES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("class", "client")


def test_heat_map_shows_no_image_white_and_one_image_not():
    image = draw_heat(HISTOGRAM, HISTOGRAM.sum(axis=1), NAMES, "").axes[0].images[0]
    none, one = image.to_rgba(np.array([[0, 1]]))[0, :, :3]
    assert none.tolist() == [1, 1, 1] and one.min() < 0.95


def test_large_heat_map_writes_no_counts_and_numbers_few_rows():
    histogram = np.ones((400, 300), int)
    figure = draw_heat(histogram, histogram.sum(axis=1), ["x"] * 300, "")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert not axes.texts and len(axes.get_yticklabels()) < 15
    assert "200" in [t.get_text() for t in axes.get_yticklabels()]


def test_bubbles_have_areas_in_proportion_to_counts():
    axes = draw_bubbles(HISTOGRAM, NAMES, "").axes[0]
    circles = axes.collections[0]
    assert circles.get_offsets().tolist() == [[0, 0], [0, 1], [1, 1], [1, 2]]
    areas = np.asarray(circles.get_widths()) ** 2
    assert areas / areas[2] == pytest.approx([9, 4, 1, 16])
    assert texts(axes) == ["images", "10", "2"]


def test_bubbles_of_many_clients_show_some_and_say_so():
    axes = draw_bubbles(np.eye(1000, dtype=int), [""] * 1000, "").axes[0]
    assert axes.get_xlabel() == "client (100 of 1,000 shown)"
    assert len(axes.collections[0].get_offsets()) <= 100


def test_reference_counts_are_round_and_no_larger_than_the_most():
    assert reference_counts(1) == [1]
    assert reference_counts(99) == [50, 10, 2]
    assert reference_counts(100) == [100, 20, 4]


def test_sizes_are_bars_or_one_outline_where_clients_are_many():
    axes = draw_sizes(np.array([13, 17]), "").axes[0]
    assert [bar.get_height() for bar in axes.patches] == [13, 17]
    assert len(draw_sizes(np.arange(1, 300), "").axes[0].patches) == 1
