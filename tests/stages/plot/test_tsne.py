import json
import subprocess
import sys

import numpy as np
import pytest

from furlkit.catalogue import defaults
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.reports.figures import clouds, style
from furlkit.stages.plot.tsne import lay_out, unit_rows
from furlkit.stages.plot.tsne import run as draw

DIGITS = Source("digits", split="test")
QUICK = {"data": "digits", "split": "test", "images": 60, "perplexity": 10}


@pytest.fixture(scope="module")
def known():
    return DIGITS.labels()


@pytest.fixture
def features(tmp_path, known):
    """Write features of digits in which every class has a direction of its own."""

    def write(name="h", rows=None, index=None, **facts):
        rng = np.random.default_rng(0)
        index = np.arange(known.examples) if index is None else index
        if rows is None:
            labels = known.labels[index % known.examples]
            rows = np.eye(10)[labels] + 0.05 * rng.normal(size=(len(index), 10))
        known_facts = {
            "dataset": known.fingerprint,
            "layer": "h",
            "part": "all",
            "round": 3,
        }
        path = tmp_path / f"{name}.safetensors"
        provenance = Provenance("embed")
        rows = np.asarray(rows, np.float32)
        write_features(
            path, rows, index, FeatureFacts(**{**known_facts, **facts}), provenance
        )
        return path

    return write


def options(tmp_path, *paths, **more):
    values = {"files": paths, "output": tmp_path / "x.png", **QUICK, **more}
    return {**defaults("plot tsne"), **values}


def test_rows_of_unit_length_keep_their_direction():
    rows = np.array([[3, 4], [0, 0], [-1e-30, 0], [3e38, 3e38]], np.float32)
    half = 0.5**0.5
    wanted = [[0.6, 0.8], [0, 0], [-1, 0], [half, half]]
    np.testing.assert_allclose(unit_rows(rows), wanted, rtol=1e-12)


def test_layout_keeps_neighbours_together():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 20)
    rows = unit_rows(np.eye(8)[labels] + 0.1 * rng.normal(size=(60, 8)))
    points, divergence = lay_out(rows, 10, 0)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert points.shape == (60, 2) and 0 <= divergence < 1
    assert np.array_equal(labels[distance.argmin(axis=1)], labels)
    again, _ = lay_out(rows, 10, 0)
    assert np.array_equal(points, again)


def test_run_says_which_images_were_drawn(tmp_path, features, known):
    path = features()
    given = options(tmp_path, path)
    text, data = draw(given)
    expected = "t-SNE of h of 60 images, perplexity 10, 10 classes in colour"
    assert text == f"{given['output']}: {expected}"
    (panel,) = data["panels"]
    assert (panel["images"], panel["of"]) == (60, known.examples)
    assert sum(panel["per_class"]) == 60 and len(panel["per_class"]) == 10
    assert (panel["layer"], panel["round"], panel["client"]) == ("h", 3, None)
    assert panel["divergence"] > 0
    assert given["output"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    json.dumps(data)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_same_bytes_twice_and_others_from_another_seed(tmp_path, features, suffix):
    path = features()
    outputs = [tmp_path / f"{k}.{suffix}" for k in range(3)]
    for output, seed in zip(outputs, (0, 0, 1), strict=True):
        draw(options(tmp_path, path, output=output, seed=seed))
    one, two, three = (output.read_bytes() for output in outputs)
    assert one == two != three


def test_same_bytes_from_another_process_with_more_threads(
    tmp_path, features, environment
):
    given = options(tmp_path, features())
    draw(given)
    other = tmp_path / "other.png"
    words = ("--data", "digits", "--images", 60, "--perplexity", 10, "-o", other)
    command = ("plot", "tsne", given["files"][0], *words)
    subprocess.run(
        [sys.executable, "-m", "furlkit", *map(str, command)], check=True,
        env={**environment, "OMP_NUM_THREADS": "2"}, capture_output=True,
    )  # fmt: skip
    assert given["output"].read_bytes() == other.read_bytes()


def drawn(monkeypatch, given):
    """The clouds and the class names that a run would draw, laid out by their first columns."""
    from furlkit.stages.plot import tsne as plot_tsne

    seen = []
    monkeypatch.setattr(plot_tsne, "lay_out", lambda rows, *_: (rows[:, :2], 0.0))
    monkeypatch.setattr(style, "save", lambda *_, **__: None)
    monkeypatch.setattr(clouds, "draw_clouds", lambda *args: seen.append(args))
    draw(given)
    return seen[0][:3]


def test_panels_of_the_same_images_show_the_same_ones(
    tmp_path, features, known, monkeypatch
):
    # Rows hold their image's number; the second file has them the other way round.
    order = np.arange(known.examples)
    rows = np.stack([np.cos(order / 500), np.sin(order / 500)], axis=1)
    paths = features("a", rows), features("b", rows[::-1], order[::-1])
    (one, two), _, _ = drawn(monkeypatch, options(tmp_path, *paths))
    assert np.array_equal(one.points, two.points) and len(one.points) == 60
    images = (np.arctan2(one.points[:, 1], one.points[:, 0]) * 500).round().astype(int)
    assert len(set(images)) == 60
    assert np.array_equal(one.labels, known.labels[images])
    assert (one.label, two.label) == tuple(map(str, paths))


def test_all_rows_are_drawn_where_they_are_few(tmp_path, features, known, monkeypatch):
    path = features(index=np.arange(40))
    (cloud,), _, frame = drawn(monkeypatch, options(tmp_path, path))
    assert sorted(cloud.labels) == sorted(known.labels[:40]) and cloud.label == ""
    assert frame.title == "t-SNE of h of 40 images, perplexity 10"


def test_classes_in_colour_are_those_asked_for(tmp_path, features, monkeypatch):
    given = options(tmp_path, features(), classes=(1, 0, 1), title="Fig. 3")
    _, names, frame = drawn(monkeypatch, given)
    assert list(names.items()) == [(1, "1"), (0, "0")] and frame.title == "Fig. 3"
    _, names, _ = drawn(monkeypatch, options(tmp_path, features()))
    assert names == {k: str(k) for k in range(10)}


def test_features_of_other_images_are_refused(tmp_path, features, known):
    for dataset, message in (
        ({"examples": 7, "labels": "0"}, "one has 7 examples, the other 359"),
        ({**known.fingerprint, "labels": "0"}, "but other labels"),
        ({}, "does not say"),
        ({"examples": "359"}, "does not say"),
    ):
        path = features(dataset=dataset)
        with pytest.raises(InputError, match=message) as caught:
            draw(options(tmp_path, path))
        assert str(caught.value).startswith(f"{path}: ")


def test_the_other_split_is_refused_with_a_hint(tmp_path, features, refused):
    line = ("--data", "digits", "--split", "train", "-o", tmp_path / "x.png")
    words = ("than digits (split train)", "give --data and --split of embed")
    path = features()
    refused(tmp_path, 65, words, "plot", "tsne", path, *line)


@pytest.mark.parametrize("place", [-1, 359])
def test_places_outside_the_dataset_are_refused(tmp_path, features, place):
    path = features(index=np.append(np.arange(50), place))
    with pytest.raises(InputError, match=f"index .*{place}"):
        draw(options(tmp_path, path))


def test_rows_that_cannot_be_laid_out_are_refused(tmp_path, features):
    index = np.arange(40)
    for rows, message in (
        (np.ones((40, 8)) * (1 + index[:, None]), "the model has collapsed"),
        (np.zeros((40, 8)), "the model has collapsed"),
        (np.ones((40, 1)), "rows of 1 numbers"),
    ):
        with pytest.raises(InputError, match=message):
            draw(options(tmp_path, features("x", rows, index)))
    with pytest.raises(UsageError, match="--perplexity 10: .* 9 images"):
        draw(options(tmp_path, features("y", index=np.arange(9))))
    with pytest.raises(UsageError, match="0 images"):
        draw(options(tmp_path, features("y", np.zeros((0, 4)), np.arange(0))))
    assert not (tmp_path / "x.png").exists()


def test_not_a_number_among_the_rows_is_refused(tmp_path, features, forge):
    path = features()
    forge(path, tensors={"rows": np.full((359, 4), np.nan, np.float32)})
    with pytest.raises(InputError, match="rows") as caught:
        draw(options(tmp_path, path))
    assert str(caught.value).startswith(f"{path}: ")


def test_images_without_labels_have_no_colours(tmp_path, features):
    np.savez(tmp_path / "bare.npz", images=np.zeros((9, 4, 4, 1), np.uint8))
    bare = str(tmp_path / "bare.npz")
    with pytest.raises(InputError, match="bare.npz: has no labels to colour by"):
        draw(options(tmp_path, features(), data=bare))


def test_other_kinds_of_files_are_refused(world, refused):
    rest = ("--data", "digits", "-o", world.folder / "x.png")
    words = (world.model, "checkpoint")
    refused(world.folder, 65, words, "plot", "tsne", world.model, *rest)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "x.png"], "feature files"),
        (["--panel", "h.safetensors", "-o", "x.png"], "LABEL=FILE"),
        (["h.safetensors", "--classes", "0,10", "-o", "x.png"],
         "--classes 10: digits has the classes 0 to 9"),
        (["h.safetensors", "--classes", "-1", "-o", "x.png"], "--classes -1"),
        (["h.safetensors", "--perplexity", "nan", "-o", "x.png"], "--perplexity"),
        (["h.safetensors", "--perplexity", "400", "-o", "x.png"], "--perplexity 400"),
        (["h.safetensors", "--images", "1", "-o", "x.png"], "--images"),
    ],
)  # fmt: skip
def test_wrong_usage(tmp_path, features, monkeypatch, refused, words, message):
    monkeypatch.chdir(tmp_path)
    features()
    refused(tmp_path, 2, (message,), "plot", "tsne", *words, "--data", "digits")


def test_dry_run_checks_and_draws_nothing(tmp_path, features):
    text, data = draw(options(tmp_path, features(), dry_run=True))
    assert text.startswith(f"would draw {tmp_path}/x.png: t-SNE of h of 60 images")
    assert not (tmp_path / "x.png").exists()
    assert "divergence" not in data["panels"][0]
    with pytest.raises(InputError):
        draw(options(tmp_path, features(dataset={}), dry_run=True))


def test_what_embed_writes_can_be_drawn(world, run):
    outputs = [world.folder / f"h{k}.safetensors" for k in range(2)]
    data = ("--data", "digits", "--split", "test")
    for client, output in zip(world.clients, outputs, strict=False):
        assert run("embed", client, *data, "-o", output).code == 0
    panels = ("--panel", f"one={outputs[0]}", "--panel", f"two={outputs[1]}")
    rest = ("--images", 50, "--perplexity", 5, "--classes", "0,1", "--json")
    picture = world.folder / "x.png"
    code, out, err = run("plot", "tsne", *panels, *data, *rest, "-o", picture)
    assert code == 0 and picture.exists(), err
    one, two = json.loads(out)["panels"]
    assert (one["label"], one["client"], two["label"]) == ("one", 0, "two")
    assert one["per_class"] == two["per_class"] and one["images"] == 50


def test_clients_are_laid_out_together_and_coloured_by_client(
    features, tmp_path, monkeypatch, known
):
    figures = []
    monkeypatch.setattr(style, "save", lambda figure, *_, **__: figures.append(figure))
    paths = []
    for client, first in ((4, 0), (1, 40)):
        index, mean = np.arange(first, first + 40), np.eye(10)[client]
        rng = np.random.default_rng(client)
        rows = mean + 0.1 * rng.normal(size=(40, 10))
        paths.append(features(f"c{client}", rows, index, client=client))
    words, data = draw(options(tmp_path, *paths, by="client"))
    assert "t-SNE of h of 80 images" in words and "2 clients in colour" in words
    assert [panel["client"] for panel in data["panels"]] == [4, 1]
    assert all("per_class" not in panel for panel in data["panels"])
    (axes,) = figures[0].axes
    shown = np.concatenate([c.get_offsets() for c in axes.collections])
    assert len(shown) == 80
    (legend,) = figures[0].legends
    assert legend.get_title().get_text() == "client"
    assert [text.get_text() for text in legend.get_texts()] == ["4", "1"]
    # Clients whose rows differ stand apart.
    centres = shown[:40].mean(axis=0), shown[40:].mean(axis=0)
    spread = np.linalg.norm(shown[:40] - centres[0], axis=1).mean()
    assert np.linalg.norm(centres[0] - centres[1]) > 2 * spread


@pytest.mark.parametrize(
    "second, error, words",
    [
        ({"client": None}, InputError, "one client"),
        ({"client": 0}, UsageError, "already"),
        ({"client": 1, "rows": np.ones((40, 3))}, InputError, "3 numbers"),
    ],
)
def test_clients_that_cannot_be_drawn_together(
    features, tmp_path, second, error, words
):
    index = np.arange(40)
    one = features("a", None, index, client=0)
    other = features("b", **{"index": index, **second})
    with pytest.raises(error, match=words):
        draw(options(tmp_path, one, other, by="client"))


def test_features_of_a_style_model_are_called_h_s(features, tmp_path):
    path = features(index=np.arange(40), client=0, personal="style")
    words, _ = draw(options(tmp_path, path, by="client", dry_run=True))
    assert "t-SNE of h_s of 40 images" in words
