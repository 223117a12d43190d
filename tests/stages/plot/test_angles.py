import json

import pytest

from furlkit.catalogue import defaults
from furlkit.errors import InputError, UsageError
from furlkit.files.metrics import write_metrics
from furlkit.reports.figures.angles import draw_angles
from furlkit.reports.summary import Box
from furlkit.stages.plot import angles as stage

BOX = {"quartiles": [20.0, 25.0, 32.5], "whiskers": [5.0, 50.0]}


def draw(series, output):
    values = {"files": (), "series": series, "output": output}
    return stage.run({**defaults("plot angles"), **values})


@pytest.fixture
def angles(metrics):
    """Write what evaluate angles does."""

    def write(folder, name, round_=1, seed=None, **more):
        values = {"protocol": "angles", "angles": BOX, **more}
        return metrics(folder, name, None, round_, seed, "client", **values)

    return write


def moved(by):
    return {name: [value + by for value in values] for name, values in BOX.items()}


def test_run_gives_the_numbers_of_each_box_by_round(tmp_path, angles):
    late = angles(tmp_path, "late", 3, angles=moved(-5))
    files = late, angles(tmp_path, "early", 1)
    output = tmp_path / "x.png"
    text, data = draw((("", files),), output)
    assert text == f"{output}: median angle 20.0 degrees after round 3"
    assert data["panels"] == [
        {
            "label": "",
            "boxes": [
                {"round": 1, "low": 5, "q1": 20, "median": 25, "q3": 32.5, "high": 50},
                {"round": 3, "low": 0, "q1": 15, "median": 20, "q3": 27.5, "high": 45},
            ],
        }
    ]
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    json.dumps(data)


def test_each_series_is_a_panel_and_files_of_a_round_stand_by_seed(tmp_path, angles):
    seeds = [
        angles(tmp_path, f"s{seed}", 2, seed, angles=moved(seed)) for seed in range(3)
    ]
    series = (("without", tuple(seeds[::-1])), ("with", (angles(tmp_path, "w"),)))
    text, data = draw(series, tmp_path / "x.svg")
    assert [panel["label"] for panel in data["panels"]] == ["without", "with"]
    medians = [box["median"] for box in data["panels"][0]["boxes"]]
    assert medians == [25, 26, 27]
    assert "without 25.0, 26.0, 27.0 degrees after round 2; with 25.0 degrees" in text


def test_the_same_result_given_twice_is_one_box(tmp_path, angles):
    files = angles(tmp_path, "a"), angles(tmp_path, "b")
    _, data = draw((("", files),), tmp_path / "x.png")
    assert len(data["panels"][0]["boxes"]) == 1


def test_same_bytes_twice_whatever_the_order_of_files(tmp_path, angles):
    files = [
        angles(tmp_path, f"f{k}", k // 2, angles=moved(k), extra=k % 2)
        for k in range(8)
    ]
    for suffix in ("png", "pdf", "svg"):
        for name, order in (("a", files), ("b", files[::-1])):
            draw((("x", tuple(order)),), tmp_path / f"{name}.{suffix}")
        one, two = (tmp_path / f"{name}.{suffix}" for name in "ab")
        assert one.read_bytes() == two.read_bytes()


def box(round_, median):
    return Box(round_, median - 4, median - 2, median, median + 2, median + 4)


def medians(axes):
    """Middle and height of the black line of each box."""
    lines = [line for line in axes.lines if line.get_color() == "black"]
    return [(line.get_xdata().mean(), line.get_ydata()[0]) for line in lines]


def test_boxes_stand_at_their_rounds_on_axes_shared_by_the_panels():
    panels = [("a", [box(1, 30), box(5, 20)]), ("b", [box(2, 10)])]
    figure = draw_angles(panels)
    one, two = figure.axes
    assert medians(one) == [(0, 30), (2, 20)] and medians(two) == [(1, 10)]
    assert one.get_ylim() == two.get_ylim() and one.get_ylim()[0] == 0
    assert one.get_ylim()[1] > 34
    assert [text.get_text() for text in one.get_xticklabels()] == ["1", "2", "5"]
    assert one.get_title(loc="left") == "a"
    assert figure.get_supxlabel().startswith("round, not to scale")
    assert figure.get_supylabel() == "angle (degrees)"


def test_boxes_of_one_round_stand_beside_each_other_around_its_place():
    panels = [("", [box(4, 30), box(4, 31), box(4, 32), box(5, 20)])]
    (axes,) = draw_angles(panels).axes
    places = [x for x, _ in medians(axes)]
    assert places == pytest.approx([-0.25, 0, 0.25, 1])


def test_many_rounds_are_not_all_numbered_but_the_last_one_is():
    (axes,) = draw_angles([("", [box(r, 30) for r in range(1, 101)])]).axes
    numbers = [text.get_text() for text in axes.get_xticklabels()]
    assert len(numbers) <= 12 and numbers[-1] == "100"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"protocol": "knn"}, "'knn'"),
        ({"protocol": None}, "found None"),
        ({"angles": 3}, "quartiles None"),
        ({"angles": {**BOX, "quartiles": [1, 2]}}, "quartiles [1, 2]"),
        ({"angles": {**BOX, "quartiles": [3, 2, 4]}}, "rising angles"),
        ({"angles": {**BOX, "quartiles": [1, True, 4]}}, "rising angles"),
        ({"angles": {**BOX, "whiskers": [1, 10**400]}}, "whiskers [1, 1000"),
        ({"angles": {**BOX, "whiskers": [-1, 50]}}, "whiskers [-1, 50]"),
        ({"angles": {**BOX, "whiskers": [22, 50]}}, "whiskers [22, 50]"),
        ({"checkpoint": {"facts": {}}}, "the round"),
        ({"round": None}, "several rounds"),
    ],
)
def test_files_that_cannot_be_drawn_are_input_errors(tmp_path, values, message, angles):
    file = angles(tmp_path, "m", **values)
    with pytest.raises(InputError) as caught:
        draw((("", (file,)),), tmp_path / "x.png")
    assert str(caught.value).startswith(f"{file}: ") and message in str(caught.value)
    assert not (tmp_path / "x.png").exists()


def test_not_a_number_and_other_files_are_input_errors(tmp_path, refused, angles):
    file = angles(tmp_path, "m")
    file.write_text(file.read_text().replace("25.0", "NaN"))
    output = tmp_path / "x.png"
    refused(tmp_path, 65, (file, "NaN"), "plot", "angles", file, "-o", output)
    gone = tmp_path / "gone.json"
    refused(tmp_path, 65, (gone,), "plot", "angles", gone, "-o", output)


def test_layers_are_not_mixed_in_a_series(tmp_path, angles):
    files = angles(tmp_path, "h", layer="h"), angles(tmp_path, "z", 2, layer="z")
    with pytest.raises(
        UsageError, match="h.json: is of layer h, but .*z.json is of layer z"
    ):
        draw((("", files),), tmp_path / "x.png")


def test_output_is_no_input(tmp_path, angles):
    file = angles(tmp_path, "m").rename(tmp_path / "m.png")
    with pytest.raises(UsageError, match="uses that file already"):
        draw((("", (file,)),), file)


def test_dry_run_checks_and_draws_nothing(tmp_path, run, refused, angles):
    file, output = angles(tmp_path, "m"), tmp_path / "x.png"
    rest = ("--dry-run", "-o", output)
    code, out, _ = run("plot", "angles", "--series", f"a={file}", *rest)
    assert code == 0 and not output.exists()
    assert out == f"would draw {output}: median angle a 25.0 degrees after round 1\n"
    write_metrics(file, {"protocol": "knn"})
    refused(tmp_path, 65, ("'knn'",), "plot", "angles", file, *rest)


def test_what_evaluate_angles_writes_can_be_drawn(world, run):
    metrics, output = world.folder / "angles.json", world.folder / "angles.png"
    one, two, _ = world.clients
    line = ("evaluate", "angles", one, two, "--data", "digits", "-o", metrics)
    assert run(*line).code == 0
    code, out, _ = run("plot", "angles", metrics, "--json", "-o", output)
    (found,) = json.loads(out)["panels"][0]["boxes"]
    measured = json.loads(metrics.read_text())["angles"]
    assert code == 0 and output.exists() and found["round"] == 1
    assert [found["q1"], found["median"], found["q3"]] == measured["quartiles"]


def test_every_box_of_every_panel_is_inside_the_axes():
    panels = [
        ("low", [Box(1, 5, 20, 25, 32.5, 50)]),
        ("high", [Box(1, 60, 70, 75, 80, 89)]),
    ]
    axes = draw_angles(panels).axes
    assert all(each.get_ylim()[0] == 0 and each.get_ylim()[1] > 89 for each in axes)
