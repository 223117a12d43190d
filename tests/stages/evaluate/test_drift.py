import itertools
import json

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.evaluation.collapse import effective_rank, rankme, spread
from furlkit.evaluation.drift import (
    cka_matrix,
    false_negative_ratio,
    false_negative_weight,
    uniformity,
    uniformity_between,
)
from furlkit.files.facts import Provenance
from furlkit.files.features import read_features
from furlkit.files.partition import read_partition
from furlkit.files.private import PrivateFacts, write_private

DIGITS = ("--data", "digits")
STILL = ("--crop-scale", "1,1", "--crop-ratio", "1,1", "--flip", 0,
         "--jitter-probability", 0, "--grey", 0)  # fmt: skip
NUMBERS = ("alignment", "uniformity", "effective_rank", "spread", "rankme", "lidar")


@pytest.fixture
def drift(run, tmp_path):
    """Call evaluate drift; returns its outcome and the output file."""

    def call(*arguments, name="drift"):
        output = tmp_path / f"{name}.json"
        words = ("evaluate", "drift", *DIGITS, *arguments, "-o", output)
        return run(*words), output

    return call


@pytest.fixture
def measured(drift):
    def call(*arguments, name="drift"):
        outcome, path = drift(*arguments, name=name)
        assert outcome.code == 0, outcome
        return json.loads(path.read_text())

    return call


@pytest.fixture
def twin(world, forge):
    """The model of client 0 under another client's number."""
    copy = world.folder / "twin.safetensors"
    copy.write_bytes(world.clients[0].read_bytes())
    return forge(copy, facts={"client": 9})


def rows_of(run, model, folder, *more):
    path = folder / "features.safetensors"
    assert run("embed", model, *DIGITS, *more, "--force", "-o", path).code == 0
    return torch.from_numpy(read_features(path).rows)


@pytest.mark.parametrize("layer", ["h", "z"])
def test_views_that_are_the_images_give_the_numbers_of_embeds_features(
    world, run, measured, tmp_path, layer
):
    part = ("--partition", world.partition, "--part", 1, "--layer", layer)
    rows = [rows_of(run, model, tmp_path, *part) for model in world.clients]
    found = measured(*world.clients, *part, *STILL, "--temperature", 0.2)
    index = read_partition(world.partition).of(1)
    labels = torch.from_numpy(Source("digits").images().labels[index])
    assert found["images"] == len(index) == 479
    assert found["false_negative_ratio"] == false_negative_ratio(labels)
    for x, model in zip(rows, found["models"], strict=True):
        assert model["alignment"] == pytest.approx(0, abs=1e-9)
        assert model["uniformity"] == pytest.approx(uniformity(x), abs=1e-5)
        assert model["effective_rank"] == pytest.approx(effective_rank(x), rel=1e-4)
        assert model["spread"] == pytest.approx(spread(x), rel=1e-4)
        assert model["rankme"] == pytest.approx(rankme(x), rel=1e-4)
        expected = false_negative_weight(x, labels, 0.2)
        assert model["false_negative_weight"] == pytest.approx(expected, rel=1e-4)
    apart = [uniformity_between(x, y) for x, y in itertools.combinations(rows, 2)]
    assert found["uniformity_between"] == pytest.approx(np.mean(apart), abs=1e-5)
    for row, expected in zip(found["cka"], cka_matrix(rows), strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


def test_numbers_above_are_means_and_the_line_says_them(world, drift):
    outcome, path = drift(*world.clients)
    found = json.loads(path.read_text())
    for name in (*NUMBERS, "false_negative_weight"):
        each = [model[name] for model in found["models"]]
        assert found[name] == pytest.approx(np.mean(each))
        assert len(set(each)) == 3
    pairs = [found["cka"][i][j] for i, j in itertools.combinations(range(3), 2)]
    assert found["mean_cka"] == pytest.approx(np.mean(pairs))
    assert (found["protocol"], found["round"], found["seed"]) == ("drift", 1, 0)
    assert [m["facts"]["client"] for m in found["models"]] == [0, 1, 2]
    assert found["checkpoint"]["content"] == found["models"][0]["content"]
    assert found["options"]["crop-scale"] == [0.2, 1]
    assert outcome.out == (
        f"{path}: alignment {found['alignment']:.3f}, uniformity "
        f"{found['uniformity']:.2f}, effective rank {found['effective_rank']:.1f}, CKA "
        f"{found['mean_cka']:.3f} of 3 models of round 1 on 1,438 images\n"
    )


def test_all_models_see_the_same_views(world, measured, twin):
    found = measured(world.clients[0], twin)
    one, other = found["models"]
    assert {one[name] - other[name] for name in NUMBERS} == {0}
    assert found["alignment"] > 1e-4 and found["mean_cka"] == pytest.approx(1)


def test_one_model_has_no_cka_and_its_own_numbers(world, measured, drift):
    alone, all_ = measured(world.clients[1], name="alone"), measured(*world.clients)
    assert alone["cka"] == [[1]] and alone["mean_cka"] is None
    assert alone["uniformity_between"] is None
    for name in NUMBERS:
        assert alone[name] == all_["models"][1][name]
    assert "CKA" not in drift(world.clients[1], name="alone")[0].out


def test_models_in_any_order_and_twice_give_the_same_bytes(world, drift):
    few, orders = ("--images", 100), ((0, 1, 2), (2, 0, 1), (0, 1, 2))
    found = set()
    for order in orders:
        models = [world.clients[client] for client in order]
        found.add(drift(*models, *few)[1].read_bytes())
    assert len(found) == 1


def test_other_seeds_draw_other_views_and_images(world, measured):
    zero, one = (measured(world.model, "--seed", seed) for seed in (0, 1))
    assert zero["alignment"] != one["alignment"]
    assert zero["effective_rank"] == one["effective_rank"]
    few = ("--images", 50)
    zero, one = (measured(world.model, *few, "--seed", seed) for seed in (0, 1))
    assert zero["images"] == one["images"] == 50
    assert zero["effective_rank"] != one["effective_rank"]


@pytest.mark.parametrize(
    "images, expected", [(0, 1438), (2, 2), (1438, 1438), (9999, 1438)]
)
def test_how_many_images_are_drawn(world, measured, images, expected):
    assert measured(world.model, "--images", images)["images"] == expected


def test_stronger_augmentation_aligns_worse(world, measured):
    weak = measured(world.model, "--crop-scale", "0.9,1")
    strong = measured(world.model, "--crop-scale", "0.1,0.2")
    assert weak["alignment"] < strong["alignment"]
    assert weak["spread"] == strong["spread"]


def test_images_without_labels_have_no_false_negatives(world, run, measured, tmp_path):
    data = tmp_path / "d.safetensors"
    assert run("pack", "digits", "--no-labels", "-o", data).code == 0
    labelled = measured(*world.clients)
    found = measured(*world.clients, "--data", data)
    assert found["false_negative_ratio"] is None
    assert found["false_negative_weight"] is None
    assert {model["false_negative_weight"] for model in found["models"]} == {None}
    for name in (*NUMBERS, "cka"):
        assert found[name] == labelled[name]


def test_models_of_any_width_and_input_are_alike_or_not(world, run, measured):
    other = world.folder / "other.safetensors"
    net = ("--width", 0.03, "--image-size", 16, "--channels", 3)
    assert run("init", *DIGITS, *net, "-o", other).code == 0
    found = measured(world.model, other)
    assert 0.1 < found["mean_cka"] < 0.99 and found["round"] == 0


def test_a_collapsed_model_is_like_no_other(world, forge, measured):
    dead = world.clients[1]
    forge(dead, {"encoder.fc.weight": np.zeros((41, 80), np.float32)})
    found = measured(world.clients[0], dead, world.clients[2])
    assert [row[1] for row in found["cka"]] == [None] * 3
    assert found["mean_cka"] == pytest.approx(found["cka"][0][2])
    collapsed = found["models"][1]
    assert [collapsed[name] for name in NUMBERS] == pytest.approx(
        [0, 0, 1, 0, 1, 1], abs=1e-3
    )
    ratio = found["false_negative_ratio"]
    assert collapsed["false_negative_weight"] == pytest.approx(ratio, abs=1e-6)


def test_plot_draws_it_through_the_rounds(world, run, drift):
    rounds = (world.model, "r0"), (world.clients[0], "r1")
    paths = [drift(model, "--images", 50, name=name)[1] for model, name in rounds]
    series = [f"{path.stem}={path}" for path in paths]
    words = [word for label in series for word in ("--series", label)]
    more = ("--value", "uniformity", "--dry-run", "-o", world.folder / "x.png")
    outcome = run("plot", "curve", *words, *more)
    assert outcome.code == 0 and "uniformity of r0 -" in outcome.out
    assert "after round 0; r1 -" in outcome.out and "after round 1" in outcome.out


def test_a_dry_run_writes_nothing(world, drift):
    outcome, path = drift(*world.clients, "--images", 300, "--dry-run")
    assert outcome.code == 0 and not path.exists()
    assert outcome.out == "would measure drift of 3 models of round 1 on 300 images\n"


def check(refused, world, code, words, *arguments):
    words_ = ("evaluate", "drift", *DIGITS, *arguments, "-o", world.output)
    refused(world.folder, code, words, *words_)


def test_images_that_do_not_fit(world, run, refused):
    part = ("--partition", world.partition, "--part")
    for code, message, *more in (
        (2, "--part 1", "--part", 1),
        (2, "0 to 2", *part, 3),
        (2, "--part x", *part, "x"),
        (65, "part public", *part, "public"),
        (65, "dataset", *part, 0, "--split", "test"),
        (2, "--images 1", "--images", 1),
        (2, "Invalid value for '--images'", "--images", -1),
        (2, "Invalid value for '--temperature'", "--temperature", 0),
        (2, "--crop-scale", "--crop-scale", "2,1"),
    ):
        check(refused, world, code, (message,), world.model, *more)


def test_files_that_are_no_models_for_it(world, run, refused):
    one = world.clients[0]
    private = world.folder / "private.safetensors"
    facts, provenance = PrivateFacts(0, 1, ["a style"], []), Provenance("local-train")
    write_private(private, {"w": np.ones(2)}, {}, facts, provenance)
    words = (private, "private file")
    check(refused, world, 65, words, one, private)
    words = (one, "same model")
    check(refused, world, 2, words, one, one)
    check(refused, world, 2, ("Missing argument 'CHECKPOINT...'",))
    words = (world.partition, "partition file")
    check(refused, world, 65, words, world.partition)
    words = (f"-o {one}",)
    refused(world.folder, 2, words, "evaluate", "drift", one, *DIGITS, "-o", one)


def test_a_part_of_one_image_has_no_pairs(world, run, refused):
    data = world.folder / "few.npz"
    images = Source("digits").images().images[:1]
    np.savez(data, images=images)
    words = (data, "1 image")
    check(refused, world, 65, words, world.model, "--data", data)
