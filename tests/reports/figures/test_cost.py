import numpy as np
import pytest

from furlkit.reports.figures.cost import Cost, byte_tick, draw_cost
from furlkit.reports.figures.style import neighbours


def line(label, amounts, values, runs=1):
    values, ones = np.array(values), np.ones(len(values))
    places = ones.cumsum(), 5 * ones.cumsum(), np.array(amounts)
    return Cost(label, *places, values, 0.01 * ones, runs * ones)


@pytest.mark.parametrize(
    "over, label, ticks, places",
    [("rounds", "communication rounds", [1, 2], [1, 2]),
     ("epochs", "local epochs, all rounds together", [5, 6, 7, 8, 9, 10], [5, 10])],
)  # fmt: skip
def test_rounds_and_epochs_are_linear_with_whole_ticks(over, label, ticks, places):
    figure = draw_cost([line("a", [1, 2], [0.5, 0.6])], "accuracy", True, "", over)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_xscale() == "linear" and axes.get_xlabel() == label
    low, high = axes.get_xlim()
    assert [x for x in axes.get_xticks() if low <= x <= high] == ticks
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), places)


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


@pytest.mark.parametrize("far", [1, 1.000001, 1.03, 2])
def test_what_is_written_at_the_ends_does_not_overlap(far):
    # Headers make the same model some bytes longer with one method than with another.
    ends = [(1.9e8, 0.7), (1.9e8 * far, 0.701), (1.9e8 * far**2, 0.699)]
    costs = [line(f"{x}", [2e7, x], [0.5, y]) for x, y in ends]
    figure = draw_cost(costs, "accuracy", True)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    # Lines of text may touch; digits fill three quarters of a line.
    boxes = [box.shrunk(1, 0.75) for box in boxes]
    assert not any(box.overlaps(boxes[k]) for k in range(3) for box in boxes[:k])


def test_neighbours_are_nearer_than_a_width():
    found = [list(group) for group in neighbours(np.array([9, 0, 5, 1, 3.0]), 2.5)]
    assert found == [[1, 3, 4, 2], [0]]
    assert [list(group) for group in neighbours(np.array([7.0]), 1)] == [[0]]


@pytest.mark.parametrize(
    "amount, words",
    [(1, "1 B"), (500, "500 B"), (1000, "1 kB"), (2e7, "20 MB"), (1e9, "1 GB"),
     (5e16, "50 PB"), (1e21, "1e+06 PB"), (0.5, "0.5 B")],
)  # fmt: skip
def test_words_of_a_tick(amount, words):
    assert byte_tick(amount) == words
