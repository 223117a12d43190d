"""What holds for every picture: its size, its fonts, its pixels."""

import warnings

import numpy as np
import pytest

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.reports.figures import Frame, fonts, style
from furlkit.reports.figures.angles import draw_angles
from furlkit.reports.figures.bars import draw_bars
from furlkit.reports.figures.clouds import draw_clouds
from furlkit.reports.figures.lines import draw_lines, draw_loss
from furlkit.reports.figures.partition import draw_bubbles, draw_heat, draw_sizes
from furlkit.reports.metrics import Value
from furlkit.reports.results import Results
from furlkit.reports.summary import Box, Cloud, Line, summarise

COUNTS = np.array([[9, 4, 0], [0, 1, 16]])
LINE = Line.of("a", [1, 2], [1, 2], [summarise([0.5, 0.6])] * 2)
NAMES = ["cat", "dog", "cow"]
PICTURES = {
    "angles": lambda frame: draw_angles([("a", [Box(1, 1, 2, 3, 4, 5)])] * 2, frame),
    "bars": lambda f: draw_bars([Results("", "a", (0.5,))], Value("accuracy"), 0, f),
    "clouds": lambda frame: draw_clouds(
        [Cloud("a", COUNTS[:, :2], np.array([0, 1]))], {0: "cat", 1: "dog"}, frame
    ),
    "lines": lambda frame: draw_lines([LINE], Value("accuracy"), frame, "bytes"),
    "loss": lambda frame: draw_loss([LINE], Value("loss"), frame),
    "heat": lambda frame: draw_heat(COUNTS, COUNTS.sum(axis=1), NAMES, frame),
    "bubbles": lambda frame: draw_bubbles(COUNTS, NAMES, frame),
    "sizes": lambda frame: draw_sizes(COUNTS.sum(axis=1), frame),
}


@pytest.fixture(params=PICTURES)
def draw(request):
    return PICTURES[request.param]


def pixels(path):
    """Width and height as a PNG's header names them."""
    return tuple(np.frombuffer(path.read_bytes()[16:24], ">u4").tolist())


def test_a_picture_is_as_large_as_was_asked_for(draw, tmp_path, capsys):
    style.save(draw(Frame("title", (3.5, 2.5))), tmp_path / "x.png", 100)
    assert pixels(tmp_path / "x.png") == (350, 250)
    style.save(draw(Frame()), tmp_path / "y.png", 40)
    wide, high = draw(Frame()).get_size_inches()
    assert pixels(tmp_path / "y.png") == pytest.approx((40 * wide, 40 * high), abs=1)
    assert capsys.readouterr().err == ""


def test_text_stays_inside_a_picture_of_one_column(draw):
    figure = draw(Frame("", (3.4, 2.6)))
    figure.draw_without_rendering()
    for axes in figure.axes:
        for label in (axes.xaxis.label, axes.yaxis.label):
            box = label.get_window_extent()
            fits = figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
            assert fits or not label.get_text(), label


def test_fonts_of_a_pdf_are_truetype(draw, tmp_path):
    style.save(draw(Frame()), tmp_path / "x.pdf")
    written = (tmp_path / "x.pdf").read_bytes()
    assert b"/FontFile2" in written and b"/Type3" not in written


def test_a_picture_of_too_many_pixels_is_refused(tmp_path):
    figure = PICTURES["heat"](Frame("", (40, 40)))
    with pytest.raises(UsageError, match="--dpi 2000: .* 80,000 x 80,000 pixels"):
        style.save(figure, tmp_path / "x.png", 2000)
    assert not list(tmp_path.iterdir())


def test_a_picture_without_room_is_warned_of(tmp_path, capsys):
    style.save(PICTURES["heat"](Frame("", (1, 1))), tmp_path / "x.png")
    (line,) = capsys.readouterr().err.splitlines()
    assert "x.png" in line and "--size" in line


def words(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_characters_that_no_font_has_are_escaped_with_one_warning(
    tmp_path, capsys, monkeypatch, kind
):
    monkeypatch.setattr(fonts, "_installed", list)
    figure = draw_heat(COUNTS, COUNTS.sum(axis=1), ["猫", "кот", "犬 dog"], Frame("猫"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.save(figure, tmp_path / f"x.{kind}")
    (line,) = capsys.readouterr().err.splitlines()
    assert f"x.{kind}" in line and "犬猫" in line
    assert words(figure.axes[0].xaxis) == [r"\u732b", "кот", r"\u72ac dog"]
    assert figure.get_suptitle() == r"\u732b"


def test_another_font_draws_what_the_usual_one_has_not(tmp_path, capsys):
    # DejaVu Serif, which matplotlib brings along, has this letter; DejaVu Sans has not.
    figure = draw_heat(COUNTS, COUNTS.sum(axis=1), ["ᵫ", "b", "c"], Frame())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.save(figure, tmp_path / "x.pdf")
    assert capsys.readouterr().err == ""
    label = figure.axes[0].get_xticklabels()[0]
    assert label.get_text() == "ᵫ" and len(label.get_fontfamily()) == 2


def test_the_protocol_is_part_of_an_axis_label():
    assert Value("accuracy", ("linear",)).label == "linear accuracy (%)"
    assert Value("accuracy", ("knn",)).label == "k-NN accuracy (%)"
    assert Value("accuracy", ("knn", "linear")).label == "k-NN or linear accuracy (%)"
    assert Value("rank").label == "rank"


def test_a_strict_picture_without_room_is_not_written(tmp_path, monkeypatch):
    output, figure = tmp_path / "x.png", PICTURES["lines"](Frame("", (0.5, 0.5)))
    monkeypatch.setattr(console.settings, "strict", True)
    with pytest.raises(InputError, match="room"):
        style.save(figure, output, 100)
    assert list(tmp_path.iterdir()) == []
