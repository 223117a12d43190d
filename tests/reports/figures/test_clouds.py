import numpy as np
import pytest

from furlkit.reports.figures.clouds import LOOKS, draw_clouds
from furlkit.reports.figures.style import COLOURS
from furlkit.reports.summary import Cloud

MOST = len(LOOKS)


def points_by_colour(axes):
    from matplotlib.colors import to_hex

    found = {}
    for collection in axes.collections:
        shades = collection.get_facecolor()
        places = collection.get_offsets()
        shades = np.broadcast_to(shades, (len(places), 4)) if len(places) else []
        for place, shade in zip(places, shades, strict=True):
            found.setdefault(to_hex(shade).upper(), []).append(place.tolist())
    return found


def test_points_have_the_colour_of_their_class_and_the_rest_is_grey():
    points = np.array([[0.0, 0], [1, 0], [2, 0], [3, 0]])
    cloud = Cloud("a", points, np.array([2, 0, 1, 2]))
    figure = draw_clouds([cloud], {2: "cow", 0: "cat"})
    assert points_by_colour(figure.axes[0]) == {
        COLOURS[0]: [[0, 0], [3, 0]], COLOURS[1]: [[1, 0]], "#D4D4D4": [[2, 0]]
    }  # fmt: skip
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["cow", "cat", "other classes"]
    assert figure.axes[0].get_title(loc="left") == "a"


@pytest.mark.parametrize("classes", [10, MOST, MOST + 1, 100])
def test_many_classes_have_a_legend_or_a_scale(classes):
    rng = np.random.default_rng(0)
    cloud = Cloud("", rng.normal(size=(300, 2)), rng.integers(0, classes, 300))
    names = [str(k) for k in range(classes)]
    figure = draw_clouds([cloud] * 2, dict(enumerate(names)))
    if classes <= MOST:
        words = [text.get_text() for text in figure.legends[0].get_texts()]
        assert words == names and len(figure.axes) == 2
    else:
        ticks = [text.get_text() for text in figure.axes[2].get_yticklabels()]
        assert (ticks[0], ticks[-1]) == ("0", names[-1]) and not figure.legends
    shown = sum(len(c.get_offsets()) for c in figure.axes[0].collections)
    assert shown == 300
