import json
from dataclasses import replace

import numpy as np
import pytest

from furlkit.catalogue import defaults
from furlkit.errors import InputError, UsageError
from furlkit.files.facts import Provenance
from furlkit.files.metrics import write_metrics
from furlkit.files.partition import PartitionFacts, write_partition
from furlkit.stages.plot import curve, partition

HISTOGRAM = np.array([[9, 4, 0], [0, 1, 16]])
NAMES = ["cat", "dog", "automobile"]


def write(path, histogram=HISTOGRAM, labelled=True, domains=None):
    sizes = histogram.sum(axis=1)
    parts = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    facts = PartitionFacts("classes", len(sizes), {"examples": int(sizes.sum())}, NAMES)
    if domains is not None:
        facts = replace(facts, domain_names=["ink", "o\x07il"])
    shown = histogram if labelled else histogram[:, :0]
    public = np.arange(2)
    made = Provenance("partition")
    write_partition(path, parts, public, shown, facts, made, domains)
    return path


def run_curve(series, output, **more):
    values = {"files": (), "series": series, "output": output, **more}
    return curve.run({**defaults("plot curve"), **values})


def run_partition(source, output, style="heat", **more):
    values = {"partition": source, "output": output, "style": style, **more}
    return partition.run({**defaults("plot partition"), **values})


def test_run_curve_averages_files_of_one_round(tmp_path, metrics):
    values = [(0, 0.25, 1), (1, 0.5, 1), (1, 0.7, 2), (1, 0.6, 3)]
    files = tuple(
        metrics(tmp_path, f"{r}{seed}", accuracy, r, seed=seed, protocol="knn")
        for r, accuracy, seed in values
    )
    output = tmp_path / "curve.png"
    text, data = run_curve((("", files),), output)
    (found,) = data["lines"]
    assert text == f"{output}: accuracy of knn 60.00 % after round 1"
    assert found["label"] == "knn" and found["rounds"] == [0, 1]
    assert found["mean"] == pytest.approx([0.25, 0.6])
    assert found["std"] == pytest.approx([0, 0.1])
    assert found["runs"] == [1, 3]
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    json.dumps(data)


def test_run_curve_makes_a_line_for_each_label_and_protocol(tmp_path, metrics):
    knn = [metrics(tmp_path, f"{a}", a, protocol="knn") for a in (0.5, 0.75)]
    linear = metrics(tmp_path, "c")
    series = (("two", (linear, knn[1])), ("one", (knn[0],)))
    _, data = run_curve(series, tmp_path / "x.svg")
    labels = [found["label"] for found in data["lines"]]
    assert labels == ["two, knn", "two, linear", "one, knn"]
    _, data = run_curve((("one", tuple(knn)),), tmp_path / "x.svg")
    assert [found["label"] for found in data["lines"]] == ["one"]


def test_run_curve_counts_the_same_result_once(tmp_path, metrics):
    same = metrics(tmp_path, "a"), metrics(tmp_path, "b")
    _, data = run_curve((("", same),), tmp_path / "x.png")
    assert data["lines"][0]["runs"] == [1]


def test_run_curve_draws_another_value_by_its_dotted_name(tmp_path, metrics):
    file = metrics(tmp_path, "a", round_=4, drift={"rank": 7.5})
    series, output = (("", (file,)),), tmp_path / "x.png"
    text, _ = run_curve(series, output, value="drift.rank")
    assert text == f"{output}: drift.rank of linear 7.5 after round 4"


def test_run_curve_gives_the_same_bytes_whatever_the_order_of_files(tmp_path, metrics):
    files = [metrics(tmp_path, f"f{k}", 0.1 * k + 0.1 / 3, k // 3) for k in range(9)]
    for name, order in (("a", files), ("b", files[::-1])):
        run_curve((("", tuple(order)),), tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
@pytest.mark.parametrize("style", ["heat", "bubbles"])
def test_run_partition_gives_the_same_bytes_twice(tmp_path, suffix, style):
    source = write(tmp_path / "p")
    one, two = tmp_path / f"1.{suffix}", tmp_path / f"2.{suffix}"
    run_partition(source, one, style)
    run_partition(source, two, style)
    assert one.read_bytes() == two.read_bytes()
    for word in (b"matplotlib.org", b"CreationDate", b"<dc:date>"):
        assert word not in one.read_bytes()


def test_pictures_do_not_depend_on_the_users_matplotlib_settings(tmp_path):
    import matplotlib

    source = write(tmp_path / "p")
    run_partition(source, tmp_path / "1.png")
    with matplotlib.rc_context({"font.size": 30, "figure.facecolor": "red"}):
        run_partition(source, tmp_path / "2.png")
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()


def test_partition_without_labels_is_drawn_as_sizes(tmp_path):
    source = write(tmp_path / "p", labelled=False)
    output = tmp_path / "x.png"
    text, data = run_partition(source, output)
    assert text == f"{output}: sizes of 2 clients; it has no labels"
    assert data["style"] == "sizes" and output.exists()


@pytest.mark.parametrize("style", ["heat", "bubbles"])
@pytest.mark.parametrize("labelled", [True, False])
def test_partition_by_domains(tmp_path, drawn, style, labelled):
    source = write(tmp_path / "p", labelled=labelled, domains=np.array([1, 0]))
    text, data = run_partition(source, tmp_path / "x.png", style)
    assert text.endswith(", 2 domains") and data["domains"] == ["o\\x07il", "ink"]
    axis = drawn[0].axes[0].yaxis if data["style"] == "heat" else drawn[0].axes[0].xaxis
    shown = [label.get_text() for label in axis.get_ticklabels()]
    assert shown == ["0 o\\x07il", "1 ink"]


def test_partition_without_a_single_image_can_be_drawn(tmp_path):
    histogram = np.zeros((2, 3), int)
    for style in ("heat", "bubbles"):
        source = partition_of_nothing(tmp_path / "p", histogram)
        run_partition(source, tmp_path / f"{style}.png", style)
        assert (tmp_path / f"{style}.png").exists()


def partition_of_nothing(path, histogram):
    facts = PartitionFacts("file", len(histogram), {"examples": 2}, NAMES)
    nothing = np.arange(0)
    parts, provenance = [nothing] * len(histogram), Provenance("partition")
    write_partition(path, parts, nothing, histogram, facts, provenance)
    return path


def test_dry_run_reads_and_draws_nothing(tmp_path, metrics):
    source, file = write(tmp_path / "p"), metrics(tmp_path, "m")
    output = tmp_path / "x.png"
    text, _ = run_partition(source, output, dry_run=True)
    assert text == f"would draw {output}: 2 clients, 3 classes as heat"
    run_curve((("", (file,)),), output, dry_run=True)
    assert not output.exists()


def test_unknown_style_and_no_files_are_usage_errors(tmp_path, refused):
    words = ("plot", "partition", write(tmp_path / "p"), "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ("'heat', 'bubbles'",), *words, "--style", "pie")
    with pytest.raises(UsageError, match="metrics files"):
        run_curve((), tmp_path / "x.png")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"accuracy": "high"}, "has no number 'accuracy'; it has version"),
        ({"accuracy": True}, "has no number 'accuracy'"),
        ({"checkpoint": {"facts": {"role": "global"}}}, "the round"),
        ({"checkpoint": None}, "the round"),
        ({"checkpoint": {"facts": {"round": 1.5}}}, "the round"),
        ({"checkpoint": {"facts": {"round": 10**400}}}, "the round"),
    ],
)
def test_metrics_that_cannot_be_drawn_name_the_file(tmp_path, values, message, metrics):
    file = metrics(tmp_path, "m")
    write_metrics(file, {**json.loads(file.read_text()), **values})
    with pytest.raises(InputError, match=message) as caught:
        run_curve((("", (file,)),), tmp_path / "x.png")
    assert str(caught.value).startswith(f"{file}: ")
    assert not (tmp_path / "x.png").exists()


def test_models_of_different_roles_do_not_share_a_line(tmp_path, metrics):
    files = metrics(tmp_path, "g"), metrics(tmp_path, "c", role="client")
    with pytest.raises(UsageError, match="two --series"):
        run_curve((("", files),), tmp_path / "x.png")


def test_partition_of_negative_counts_or_no_clients_is_an_input_error(tmp_path):
    path = partition_of_nothing(tmp_path / "p", np.array([[3, -1]]))
    with pytest.raises(InputError, match="-1"):
        run_partition(path, tmp_path / "x.png")
    path = partition_of_nothing(tmp_path / "p", np.zeros((0, 3), int))
    with pytest.raises(InputError, match="0 clients"):
        run_partition(path, tmp_path / "x.png")
