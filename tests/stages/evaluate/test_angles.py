import itertools
import json

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.features import read_features
from furlkit.files.private import PrivateFacts, write_private

DIGITS = ("--data", "digits")


@pytest.fixture
def measure(run, tmp_path):
    """Call evaluate angles; returns its outcome and the output file."""

    def call(*arguments, name="angles"):
        output = tmp_path / f"{name}.json"
        words = ("evaluate", "angles", *arguments, *DIGITS, "-o", output)
        return run(*words), output

    return call


@pytest.fixture
def changed(world, forge):
    """A copy of client 0's model under another client's number, its h times a factor."""

    def make(factor):
        copy = world.folder / "changed.safetensors"
        copy.write_bytes(world.clients[0].read_bytes())
        names = ("encoder.fc.weight", "encoder.fc.bias")
        tensors = {name: factor * Container(copy).tensors()[name] for name in names}
        return forge(copy, tensors, {"client": 9})

    return make


def rows_of(run, model, folder, *more):
    path = folder / "features.safetensors"
    assert (
        run(
            "embed", model, *DIGITS, "--split", "test", *more, "--force", "-o", path
        ).code
        == 0
    )
    rows = read_features(path).rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("layer", ["h", "z"])
def test_angles_are_those_of_the_features_that_embed_writes(
    world, run, measure, tmp_path, layer
):
    more = ("--layer", layer)
    rows = [rows_of(run, model, tmp_path, *more) for model in world.clients]
    outcome, path = measure(*world.clients, *more)
    assert outcome.code == 0
    found, every = json.loads(path.read_text()), []
    pairs = list(itertools.combinations(range(3), 2))
    assert [pair["models"] for pair in found["pairs"]] == list(map(list, pairs))
    for pair, (i, j) in zip(found["pairs"], pairs, strict=True):
        expected = np.degrees(np.arccos((rows[i] * rows[j]).sum(axis=1)))
        assert pair["clients"] == [i, j]
        assert pair["mean"] == pytest.approx(expected.mean(), abs=1e-3)
        assert pair["std"] == pytest.approx(expected.std(), abs=1e-3)
        ends = [expected.min(), expected.max()]
        assert [pair["min"], pair["max"]] == pytest.approx(ends, abs=1e-3)
        every.append(expected)
    quartiles = np.percentile(np.concatenate(every), (25, 50, 75))
    assert found["angles"]["quartiles"] == pytest.approx(quartiles, abs=1e-3)
    assert quartiles[0] > 0.1


def test_the_file_says_what_was_compared_and_the_line_says_it_shortly(world, measure):
    outcome, path = measure(*world.clients)
    found = json.loads(path.read_text())
    assert (found["kind"], found["protocol"]) == ("metrics", "angles")
    assert (found["layer"], found["images"], found["round"]) == ("h", 359, 1)
    models = [read_checkpoint(client) for client in world.clients]
    assert [m["content"] for m in found["models"]] == [m.content for m in models]
    assert [m["facts"]["client"] for m in found["models"]] == [0, 1, 2]
    assert {m["stage"] for m in found["models"]} == {"local-train"}
    assert found["checkpoint"] == found["models"][0]
    low, median, high = found["angles"]["quartiles"]
    assert outcome.out == (
        f"{path}: median angle {median:.1f} degrees (quartiles {low:.1f} to {high:.1f}) "
        "between 3 models of round 1 on 359 images\n"
    )


def test_pooled_angles_are_of_all_values_and_not_of_the_pairs_boxes(world, measure):
    found = json.loads(measure(*world.clients)[1].read_text())
    pooled, pairs = found["angles"], found["pairs"]
    assert pooled["mean"] == pytest.approx(np.mean([pair["mean"] for pair in pairs]))
    assert pooled["min"] == min(pair["min"] for pair in pairs)
    assert pooled["max"] == max(pair["max"] for pair in pairs)
    within = np.mean([pair["std"] ** 2 for pair in pairs])
    between = np.var([pair["mean"] for pair in pairs])
    assert pooled["std"] == pytest.approx(np.sqrt(within + between))
    assert between > 0


def test_models_in_any_order_and_twice_give_the_same_bytes(world, measure):
    found = set()
    for order in ((0, 1, 2), (2, 0, 1), (1, 0, 2), (0, 1, 2)):
        models = [world.clients[client] for client in order]
        found.add(measure(*models)[1].read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("factor, degrees", [(1, 0), (5, 0), (-1, 180)])
def test_equal_and_opposite_models(world, measure, changed, factor, degrees):
    _, path = measure(world.clients[0], changed(factor))
    found = json.loads(path.read_text())["angles"]
    assert [found["min"], found["max"]] == pytest.approx([degrees] * 2, abs=1e-3)


def test_models_of_several_rounds_have_no_round_in_common(world, measure):
    outcome, path = measure(world.clients[1], world.model)
    found = json.loads(path.read_text())
    assert found["round"] is None and found["pairs"][0]["clients"] == [None, 1]
    assert found["checkpoint"]["facts"]["round"] == 0
    assert "between 2 models of several rounds on 359 images" in outcome.out


def test_other_architectures_of_the_same_width_have_angles(world, run, measure):
    other = world.folder / "other.safetensors"
    net = ("--width", 0.03, "--projector", "9,5,4")
    assert run("init", *DIGITS, *net, "-o", other).code == 0
    outcome, path = measure(world.model, other, "--layer", "z")
    assert outcome.code == 0
    assert json.loads(path.read_text())["angles"]["max"] > 10


def test_the_split_and_images_without_labels(world, run, measure, tmp_path):
    train = json.loads(measure(*world.clients, "--split", "train")[1].read_text())
    assert train["images"] == 1438
    data = tmp_path / "d.safetensors"
    pack = ("pack", "digits", "--split", "test", "--no-labels", "-o", data)
    assert run(*pack).code == 0
    named = json.loads(measure(*world.clients)[1].read_text())
    packed = json.loads(measure(*world.clients, "--data", data)[1].read_text())
    assert packed["pairs"] == named["pairs"]


def test_a_dry_run_writes_nothing(world, measure):
    outcome, path = measure(*world.clients, "--dry-run")
    assert outcome.code == 0 and not path.exists()
    expected = "would measure angles between 3 models of round 1 on 359 images\n"
    assert outcome.out == expected


def test_json_is_the_document(world, measure):
    outcome, path = measure(*world.clients, "--json")
    document = json.loads(path.read_text())
    assert json.loads(outcome.out).items() <= document.items()


def check(refused, world, code, words, *models):
    arguments = ("evaluate", "angles", *models, *DIGITS, "-o", world.output)
    refused(world.folder, code, words, *arguments)


def test_models_that_cannot_be_compared(world, run, refused):
    one, other = world.clients[:2]
    wide = world.folder / "wide.safetensors"
    assert run("init", *DIGITS, "--width", 0.03, "-o", wide).code == 0
    words = (one, wide, "41 dimensions", "61")
    check(refused, world, 65, words, one, wide)
    words = (other, wide, "4 dimensions", "128")
    check(refused, world, 65, words, wide, other, "--layer", "z")
    check(refused, world, 2, ("1 model",), one)
    check(refused, world, 2, ("Missing argument 'CHECKPOINT...'",))
    words = (one, "same model")
    check(refused, world, 2, words, one, other, one)
    copy = world.folder / "copy.safetensors"
    copy.write_bytes(one.read_bytes())
    check(refused, world, 2, (copy, one, "same model"), one, copy)


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_files_that_are_no_models_for_it(world, run, refused, dry_run):
    one = world.clients[0]
    words = (world.partition, "partition file")
    check(refused, world, 65, words, one, world.partition, *dry_run)
    private = world.folder / "private.safetensors"
    facts, provenance = PrivateFacts(0, 1, ["a style"], []), Provenance("local-train")
    write_private(private, {"w": np.ones(2)}, {}, facts, provenance)
    words = (private, "private file")
    check(refused, world, 65, words, one, private, *dry_run)
    kept = world.folder / "kept.safetensors"
    assert run("aggregate", *world.clients, "--bn", "keep", "-o", kept).code == 0
    words = (kept, "BatchNorm")
    check(refused, world, 65, words, one, kept, *dry_run)
    headless = world.folder / "headless.safetensors"
    net = ("--width", 0.02, "--objective", "rotation")
    assert run("init", *DIGITS, *net, "-o", headless).code == 0
    words = (headless, "projector")
    check(refused, world, 65, words, one, headless, "--layer", "z", *dry_run)


def test_a_model_that_gives_zeros_has_no_direction(world, refused, changed):
    dead, one = changed(0), world.clients[0]
    words = (one, dead, "zeros")
    check(refused, world, 65, words, one, dead)


def test_an_output_that_is_an_input(world, refused):
    one, other, _ = world.clients
    words = (f"-o {other}",)
    arguments = ("evaluate", "angles", one, other, *DIGITS, "-o", other)
    refused(world.folder, 2, words, *arguments)
