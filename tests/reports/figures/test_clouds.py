import numpy as np
import pytest

from furlkit.reports.figures import Frame
from furlkit.reports.figures.clouds import LOOKS, draw_clouds
from furlkit.reports.figures.style import COLOURS, TEN_COLOURS
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


def test_a_title_in_the_smallest_picture():
    cloud = Cloud("", np.eye(2), np.arange(2))
    figure = draw_clouds([cloud], {0: "a", 1: "b"}, Frame("t-SNE of h", (1, 1)))
    assert figure.get_suptitle() == "t-SNE of\nh"


def markers(axes):
    return [
        len(c.get_paths()[0].vertices) for c in axes.collections if c.get_offsets().size
    ]


def test_ten_classes_have_ten_colours_and_one_marker():
    points = np.random.default_rng(0).normal(size=(20, 2))
    cloud = Cloud("", points, np.arange(20) % 10)
    figure = draw_clouds([cloud], {k: str(k) for k in range(10)})
    assert points_by_colour(figure.axes[0]).keys() == {*TEN_COLOURS}
    assert len(markers(figure.axes[0])) == 1
    more = draw_clouds([Cloud("", points, np.arange(20))], dict.fromkeys(range(20), ""))
    assert len(set(markers(more.axes[0]))) == 2


# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of
# color vision deficiency", 2009, severity 1.
SEEN = {
    "as it is": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


@pytest.mark.parametrize("eyes", SEEN)
def test_the_ten_colours_are_apart_for_colour_blind_readers(eyes):
    """No two are nearer than those of Okabe and Ito, by CIEDE2000."""
    from matplotlib.colors import to_rgb
    from skimage.color import deltaE_ciede2000, rgb2lab

    values = np.array([to_rgb(colour) for colour in TEN_COLOURS])
    linear = np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )
    seen = np.clip(linear @ np.transpose(SEEN[eyes]), 0, 1)
    screen = np.where(
        seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055
    )
    lab = rgb2lab(screen[None])[0]
    apart = deltaE_ciede2000(lab[:, None], lab[None])
    assert apart[np.triu_indices(10, 1)].min() > 10.8


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
