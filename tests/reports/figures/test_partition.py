import numpy as np
import pytest

from furlkit.reports.figures import Frame
from furlkit.reports.figures.partition import draw_bubbles, draw_heat, draw_sizes

HISTOGRAM = np.array([[9, 4, 0], [0, 1, 16]])
NAMES = ["cat", "dog", "automobile"]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_heat_map_holds_the_histogram_and_writes_counts_and_sizes():
    figure = draw_heat(HISTOGRAM, HISTOGRAM.sum(axis=1), NAMES, Frame("title"))
    axes, side = figure.axes[:2]
    assert np.array_equal(axes.images[0].get_array(), HISTOGRAM)
    assert [text for text in texts(axes) if text] == ["9", "4", "1", "16"]
    assert texts(side) == [" 13", " 17"]
    assert side.patches[0].get_data().values.tolist() == [13, 17]
    assert [t.get_text() for t in axes.get_xticklabels()] == NAMES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("class", "client")


def test_heat_map_shows_no_image_white_and_one_image_not():
    image = (
        draw_heat(HISTOGRAM, HISTOGRAM.sum(axis=1), NAMES, Frame()).axes[0].images[0]
    )
    none, one = image.to_rgba(np.array([[0, 1]]))[0, :, :3]
    assert none.tolist() == [1, 1, 1] and one.min() < 0.95


def test_large_heat_map_writes_no_counts_and_numbers_few_rows():
    histogram = np.ones((400, 300), int)
    figure = draw_heat(histogram, histogram.sum(axis=1), ["x"] * 300, Frame())
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert not axes.texts and len(axes.get_yticklabels()) < 15
    assert "200" in [t.get_text() for t in axes.get_yticklabels()]


def test_bubbles_have_areas_in_proportion_to_counts():
    figure = draw_bubbles(HISTOGRAM, NAMES, Frame())
    circles = figure.axes[0].collections[0]
    assert circles.get_offsets().tolist() == [[0, 0], [0, 1], [1, 1], [1, 2]]
    areas = circles.get_sizes()
    assert areas / areas[2] == pytest.approx([9, 4, 1, 16])
    sample, *_ = figure.legends[0].legend_handles
    counts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert counts == ["5", "10", "15"]
    assert sample.get_sizes()[0] == pytest.approx(5 * areas[2])


def test_bubbles_of_many_clients_show_some_and_say_so():
    axes = draw_bubbles(np.eye(1000, dtype=int), [""] * 1000, Frame()).axes[0]
    assert axes.get_xlabel() == "client (100 of 1,000 shown)"
    assert len(axes.collections[0].get_offsets()) <= 100


def test_sizes_are_heights_with_numbers_where_clients_are_few():
    axes = draw_sizes(np.array([13, 17]), Frame()).axes[0]
    assert axes.patches[0].get_data().values.tolist() == [13, 17]
    assert texts(axes) == ["13", "17"]
    assert not draw_sizes(np.arange(1, 300), Frame()).axes[0].texts


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_few_clients_are_named_with_their_domain_and_lines_part_domains():
    histogram, domains = np.ones((4, 3), int), ["ink", "ink", "oil", "pen"]
    heat = draw_heat(histogram, histogram.sum(axis=1), NAMES, Frame(), domains).axes[0]
    assert ticks(heat.yaxis) == ["0 ink", "1 ink", "2 oil", "3 pen"]
    assert [line.get_ydata()[0] for line in heat.lines] == [1.5, 2.5]
    for axes in (
        draw_bubbles(histogram, NAMES, Frame(), domains).axes[0],
        draw_sizes(histogram.sum(axis=1), Frame(), domains).axes[0],
    ):
        assert ticks(axes.xaxis) == ["0 ink", "1 ink", "2 oil", "3 pen"]
        assert [line.get_xdata()[0] for line in axes.lines] == [1.5, 2.5]


def test_many_clients_stand_under_the_name_of_their_domain():
    histogram, domains = np.ones((40, 3), int), ["ink"] * 10 + ["oil"] * 30
    axes = draw_heat(histogram, histogram.sum(axis=1), NAMES, Frame(), domains).axes[0]
    assert ticks(axes.yaxis) == ["ink", "oil"]
    assert axes.get_yticks().tolist() == [4.5, 24.5]
    assert [line.get_ydata()[0] for line in axes.lines] == [9.5]
