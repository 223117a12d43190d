"""What holds for every picture: its size, its fonts, its pixels."""

import warnings

import numpy as np
import pytest

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.reports.differences import paired
from furlkit.reports.figures import Frame, fonts, style
from furlkit.reports.figures.angles import draw_angles
from furlkit.reports.figures.bars import draw_bars
from furlkit.reports.figures.clouds import draw_clouds
from furlkit.reports.figures.confusion import draw_confusion
from furlkit.reports.figures.forest import draw_forest
from furlkit.reports.figures.lines import draw_lines, draw_loss, draw_sweep
from furlkit.reports.figures.mosaic import draw_mosaic
from furlkit.reports.figures.partition import draw_bubbles, draw_heat, draw_sizes
from furlkit.reports.figures.updates import draw_updates
from furlkit.reports.figures.uploads import draw_uploads
from furlkit.reports.metrics import Value
from furlkit.reports.results import Results
from furlkit.reports.summary import (
    Box,
    Choices,
    Cloud,
    ImageRow,
    Line,
    Upload,
    summarise,
)

COUNTS = np.array([[9, 4, 0], [0, 1, 16]])
LINE = Line.of("a", [1, 2], [1, 2], [summarise([0.5, 0.6])] * 2)
NAMES = ["cat", "dog", "cow"]
DIFFERENT = Results("", "a", (0.5, 0.7), difference=paired([0.5, 0.7], [0.4, 0.5]))
IMAGES = ImageRow(0, "cat", "2 images", np.zeros((2, 4, 4, 1)), [False, True])
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
    "sweep": lambda frame: draw_sweep([LINE], Value("accuracy"), "lambda", frame),
    "confusion": lambda frame: draw_confusion(
        COUNTS[:, :2], NAMES[:2], NAMES[:2], "predicted class", frame
    ),
    "forest": lambda frame: draw_forest([DIFFERENT], Value("x"), "b", frame=frame),
    "mosaic": lambda frame: draw_mosaic([IMAGES], frame),
    "updates": lambda f: draw_updates([Choices(0, (1, 2), (0, 1), (None, 2))], 9, f),
    "uploads": lambda frame: draw_uploads([Upload(0, 1, 1.5, 80, 0.3, False)], frame),
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


def test_a_long_title_stays_inside_a_picture_of_one_column(draw):
    title = "The accuracy of the last global model on images that no client has seen"
    figure = draw(Frame(title, (3.3, 2.5)))
    figure.draw_without_rendering()
    (written,) = (t for t in figure.texts if t.get_text() == figure.get_suptitle())
    assert written.get_window_extent().x1 <= figure.bbox.x1
    assert figure.get_suptitle().split() == title.split()


def test_equal_numbers_give_equal_svg_without_a_date(draw, tmp_path):
    for name in ("a.svg", "b.svg"):
        style.save(draw(Frame("title", (3.3, 2.5))), tmp_path / name)
    written = (tmp_path / "a.svg").read_bytes()
    assert written == (tmp_path / "b.svg").read_bytes()
    assert written.startswith(b"<?xml") and b"<dc:date>" not in written


@pytest.mark.parametrize("classes, size", [(3, 9), (10, 5.9), (12, None)])
def test_numbers_in_a_map_are_as_wide_as_a_column(classes, size):
    counts = np.full((2, classes), 123 if classes < 12 else 123_456)
    names = [str(number) for number in range(classes)]
    figure = draw_heat(counts, counts.sum(axis=1), names, Frame("", (3.3, 2.5)))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    cell = axes.get_window_extent().width / classes
    assert all(text.get_window_extent().width <= cell for text in axes.texts)
    if size is None:
        assert not axes.texts
    else:
        assert axes.texts[0].get_fontsize() == pytest.approx(size, abs=1)


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
