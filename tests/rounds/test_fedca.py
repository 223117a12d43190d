"""Two whole rounds of FedCA on digits: the contents of every file."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container import atomic
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.private import read_private
from furlkit.files.progress import ProgressFile
from furlkit.training import loop
from furlkit.weights import is_batchnorm_statistic
from tests.helpers import contents, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
SHARE = ("--dictionary-size", 20, "--alpha", 0.5)
ALPHA, EACH = 0.5, 7  # ceil(20 / 3) rows of each client


def local_train(folder, number, *more, clients="0-2"):
    """A round's training; files of the round before are given where there are any."""
    here, before = folder / f"r{number}", folder / f"r{number - 1}"
    words = ["local-train", folder / "partition", before / "global", *DIGITS]
    words += ["--client", clients, "--epochs", 1, "--batch-size", 240]
    words += ["--form", "oneway", "--save-every", 0, "-q"]
    words += ["--align", folder / "targets", "--align-data", "digits"]
    words += ["--align-batch-size", 20, *SHARE]
    if number > 1:
        words += ["--dictionary", before / "dictionary"]
        words += ["--private", before / "private_{client}"]
    words += ["--features-out", here / "features_{client}"]
    words += ["--private-out", here / "private_{client}", *more]
    return [*words, "-o", here / "client_{client}"]


def uploads(folder, number, name):
    return [folder / f"r{number}" / f"{name}_{client}" for client in range(3)]


def average(folder, number):
    models = uploads(folder, number, "client")
    return ["aggregate", *models, "-o", folder / f"r{number}" / "global"]


def concatenate(folder, number):
    rows, output = uploads(folder, number, "features"), folder / f"r{number}"
    words = ["aggregate", "--rule", "dictionary", "--dictionary-size", 20, *rows]
    return [*words, "-o", output / "dictionary"]


def pretrain(folder, *more):
    words = ["pretrain-align", folder / "r0" / "global", *DIGITS, "--images", 60]
    words += ["--epochs", 1, "--batch-size", 30, "--save-every", 0, "-q", *more]
    return [*words, "--targets-out", folder / "targets", "-o", folder / "align"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with everything that two undisturbed rounds leave."""
    folder = tmp_path_factory.mktemp("fedca")
    net = ("--width", 0.02, "--projector", "8,4")
    start = [
        ["partition", *DIGITS, "--clients", 3, "-o", folder / "partition"],
        ["init", *DIGITS, *net, "-o", folder / "r0" / "global"],
        pretrain(folder),
    ]
    rounds = [
        command(folder, number)
        for number in (1, 2)
        for command in (local_train, average, concatenate)
    ]
    assert [furlkit(*command) for command in (*start, *rounds)] == [0] * 9
    return folder


def embedded(whole, number, client, layer="z"):
    """The output of embed on a client's own images and trained model, by image."""
    output = whole.parent / f"{layer}_{number}_{client}"
    model = whole / f"r{number}" / f"client_{client}"
    part = ("--partition", whole / "partition", "--part", client)
    assert furlkit("embed", model, *DIGITS, *part, "--layer", layer, "-o", output) == 0
    found = read_features(output)
    return dict(zip(found.index.tolist(), found.rows, strict=True))


def unit(rows):
    rows = np.asarray(rows, np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def distance_to_the_nearest(rows, among):
    """How far each row is from the row of `among` that is most like it."""
    return np.linalg.norm(rows[:, None] - among, axis=2).min(axis=1)


@pytest.mark.parametrize("number", [1, 2])
def test_what_leaves_a_client_is_its_model_and_unit_rows(whole, number):
    dataset = Container(whole / "partition").header.facts["dataset"]
    parent = Container(whole / f"r{number - 1}" / "global").content
    for client in range(3):
        model, rows = (
            whole / f"r{number}" / f"{n}_{client}" for n in ("client", "features")
        )
        shared = load_file(rows)
        assert shared.keys() == {"rows", "index"}
        assert shared["rows"].shape == (EACH, 4) and shared["rows"].dtype == np.float32
        lengths = np.linalg.norm(shared["rows"], axis=1)
        np.testing.assert_allclose(lengths, 1, rtol=1e-6)
        assert shared["index"].tolist() == list(range(EACH))
        facts = Container(rows).header.facts
        assert facts.pop("run") == Container(model).header.facts["run"]
        assert facts == {
            "layer": "z", "dataset": {}, "part": str(client), "client": client,
            "round": number, "examples": EACH, "parent": parent,
        }  # fmt: skip
        assert load_file(model).keys() == load_file(whole / "r0" / "global").keys()
        for upload in (model, rows):
            raw = upload.read_bytes()
            assert dataset["images"].encode() not in raw
            assert dataset["labels"].encode() not in raw


def test_shared_rows_are_averaged_features_drawn_again_each_time(whole):
    draws = set()
    for number, client in itertools.product((1, 2), range(3)):
        folder = whole / f"r{number}"
        Z = read_private(folder / f"private_{client}", client).memory[
            "averaged_features.rows"
        ]
        rows = read_features(folder / f"features_{client}").rows
        assert distance_to_the_nearest(rows, unit(Z)).max() < 1e-6
        draws.add(tuple((rows @ unit(Z).T).argmax(axis=1)))
    assert len(draws) == 6 and {len(set(draw)) for draw in draws} == {EACH}


def test_the_dictionary_is_the_clients_rows_in_order_cut_to_k(whole):
    rows = [read_features(path).rows for path in uploads(whole, 1, "features")]
    found = read_features(whole / "r1" / "dictionary")
    assert found.rows.tobytes() == np.concatenate(rows)[:20].tobytes()
    assert found.index.tolist() == list(range(20))
    assert found.facts.owners == [[0, 7], [1, 7], [2, 6]]
    assert (found.facts.part, found.facts.round) == ("dictionary", 1)
    assert found.facts.dataset == {} and found.facts.client is None


def test_averaged_features_are_the_recursion_over_rounds_by_image(whole):
    """Eq. 9 by hand, from the output of embed on the models of both rounds."""
    for client in range(3):
        first, second = (embedded(whole, number, client) for number in (1, 2))
        for number, expected in (
            (1, {i: (1 - ALPHA) * first[i] for i in first}),
            (2, {i: ALPHA * (1 - ALPHA) * first[i] + (1 - ALPHA) * second[i] for i in first}),
        ):  # fmt: skip
            private = read_private(whole / f"r{number}" / f"private_{client}", client)
            index = private.memory["averaged_features.index"].tolist()
            assert set(index) == set(first) and len(index) == len(first)
            np.testing.assert_allclose(
                private.memory["averaged_features.rows"], [expected[i] for i in index],
                rtol=1e-4, atol=1e-6,
            )  # fmt: skip
            assert private.facts.memory == ["averaged_features"]


def test_a_client_that_missed_a_round_resumes_from_its_own_features(whole, tmp_path):
    """Round 3 of client 1, which has taken part in round 1 only."""
    words = ["--private", whole / "r1" / "private_{client}"]
    words += ["--features-out", tmp_path / "f{client}"]
    words += ["--private-out", tmp_path / "p{client}", "-o", tmp_path / "c{client}"]
    assert furlkit(*local_train(whole, 3, clients=1)[:-2], *words) == 0
    part = ("--partition", whole / "partition", "--part", 1, "--layer", "z")
    assert furlkit("embed", tmp_path / "c1", *DIGITS, *part, "-o", tmp_path / "z") == 0
    z = read_features(tmp_path / "z")
    Z_1, Z_3 = (
        read_private(path, 1) for path in (whole / "r1" / "private_1", tmp_path / "p1")
    )
    assert (Z_1.facts.round, Z_3.facts.round) == (1, 3)
    assert Z_3.memory["averaged_features.index"].tolist() == z.index.tolist()
    expected = ALPHA * Z_1.memory["averaged_features.rows"] + (1 - ALPHA) * z.rows
    np.testing.assert_allclose(
        Z_3.memory["averaged_features.rows"], expected, rtol=1e-4, atol=1e-6
    )
    shared = read_features(tmp_path / "f1").rows
    assert distance_to_the_nearest(shared, unit(expected)).max() < 1e-5


def test_alpha_0_shares_what_the_trained_model_makes_of_the_images(whole, tmp_path):
    more = ["--alpha", 0, "--dictionary-size", 480, "--participants", 1]
    more += ["--features-out", tmp_path / "f0", "--private-out", tmp_path / "p0"]
    words = [*local_train(whole, 2, clients=0)[:-2], *more, "-o", tmp_path / "c0"]
    assert furlkit(*words) == 0
    z = unit(list(embedded(whole, 2, 0).values()))
    shared = read_features(tmp_path / "f0").rows
    assert tensor_bytes(tmp_path / "c0") == tensor_bytes(whole / "r2" / "client_0")
    assert len(shared) == len(z) == 480
    for one, other in ((shared, z), (z, shared)):
        assert distance_to_the_nearest(one, other).max() < 1e-5
    assert all(is_batchnorm_statistic(k) for k in load_file(tmp_path / "p0"))


def test_one_at_a_time_and_in_another_order_gives_the_same_bytes(whole, tmp_path):
    folder = tmp_path / "fedca"
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "r2")
    for client in (2, 0, 1):
        assert furlkit(*local_train(folder, 2, clients=client)) == 0
    for command in (average, concatenate):
        words = command(folder, 2)
        first = next(k for k, word in enumerate(words) if isinstance(word, Path))
        words[first : first + 3] = words[first : first + 3][::-1]
        assert furlkit(*words) == 0
    assert contents(folder) == contents(whole)


def test_a_command_reports_what_it_wrote(whole, tmp_path, run):
    places = {n: tmp_path / n for n in ("features", "private")}
    more = [word for n in places for word in (f"--{n}-out", places[n])]
    words = [*local_train(whole, 1, *more, clients=0)[:-1], tmp_path / "client"]
    result = json.loads(run(*words, "--json").out)
    result = result[0] if isinstance(result, list) else result
    for name, path in (*places.items(), ("content", tmp_path / "client")):
        assert result[name] == Container(path).content


KILLS = {
    "before a step": (loop.Trainer, "step"),
    "before a file is there": (atomic.os, "replace"),
    "after a file is there": (atomic, "_sync_folder"),
    "before progress is deleted": (ProgressFile, "discard"),
}
STAGES = {
    "pretrain-align": (pretrain, ["targets", "align"]),
    "local-train 1": (lambda f: local_train(f, 1), ["r1/client_?", "r1/[fp]*_?"]),
    "aggregate": (lambda f: average(f, 2), ["r2/global"]),
    "aggregate --rule dictionary": (lambda f: concatenate(f, 2), ["r2/dictionary"]),
    "local-train 2": (lambda f: local_train(f, 2), ["r2/client_?", "r2/[fp]*_?"]),
}
# Where files are written, round 1 differs from round 2 in nothing but what it reads.
HAPPENS = [
    (stage, kill) for stage in STAGES for kill in KILLS
    if ("aggregate" not in stage or "file" in kill)
    and ("local-train 1" not in stage or "before a" in kill)
]  # fmt: skip


@pytest.mark.parametrize("stage, kill", HAPPENS)
def test_killed_at_every_such_moment_it_ends_with_the_same_bytes(
    whole, tmp_path, until_done, stage, kill
):
    """The stage dies one call later each time, until it completes.

    A stage reads and leaves the bytes of an undisturbed run: so do several of them.
    """
    folder = tmp_path / "fedca"
    shutil.copytree(whole, folder)
    command, outputs = STAGES[stage]
    for path in [path for pattern in outputs for path in folder.glob(pattern)]:
        path.unlink()
    assert until_done(*KILLS[kill], *command(folder)) >= 1
    assert contents(folder) == contents(whole)
