import numpy as np

from furlkit.reports.summary import Line, summarise


def test_summarise_gives_mean_sample_deviation_and_count():
    assert summarise([1.0, 2.0, 6.0]) == (3.0, 7**0.5, 3)
    assert summarise([0.25]) == (0.25, None, 1)


def test_summarise_gives_the_same_bits_in_any_order():
    values = np.random.default_rng(0).normal(size=50)
    for order in (values[::-1], np.roll(values, 17)):
        assert summarise(order) == summarise(values)


def test_a_line_has_no_deviation_where_there_is_one_run():
    line = Line.of("a", [10, 20], [1, 2], [summarise([0.5]), summarise([1, 2])])
    assert line.to_json(bytes=line.x) == {
        "label": "a", "rounds": [1, 2], "bytes": [10, 20], "mean": [0.5, 1.5],
        "std": [0, 0.5**0.5], "runs": [1, 2],
    }  # fmt: skip
