"""What FLESD's stages refuse: exit code, key words, and no file on disk changed."""

import shutil

import numpy as np
import pytest

from furlkit.data.sets.digits import read_digits
from furlkit.files.container.read import Container
from tests.helpers import furlkit

DIGITS = ("--data", "digits")
NET = ("--width", 0.02, "--projector", "8,4")
FAST = ("--epochs", 1, "--batch-size", 240, "-q")


@pytest.fixture(scope="module")
def _world(tmp_path_factory):
    """All files of a round of three clients, and some that belong elsewhere."""
    folder = tmp_path_factory.mktemp("flesd")
    share = ("--alpha", 0.5, "--dictionary-size", 9, "--features-out",
             folder / "f{client}", "--private-out", folder / "k{client}")  # fmt: skip

    def embed(model, name, *more, partition="p", part="public", layer="z"):
        place = ("--partition", folder / partition, "--part", part, "--layer", layer)
        words = ("embed", folder / model, *DIGITS, *place, *more)
        return *words, "-o", folder / name

    def ensemble(kind, name, *more):
        files = [folder / f"{kind}{client}" for client in (1, 2, 3)]
        return "aggregate", "--rule", "ensemble", *files, *more, "-o", folder / name

    split = ("partition", *DIGITS, "--clients", 4)
    commands = [
        (*split, "--public-client", 0, "-o", folder / "p"),
        (*split, "--public-client", 0, "--seed", 1, "-o", folder / "p2"),
        ("init", *DIGITS, *NET, "-o", folder / "g"),
        ("init", *DIGITS, *NET[:2], "--objective", "rotation", "-o", folder / "flat"),
        ("local-train", folder / "p", folder / "g", *DIGITS, "--client", "1-3", *FAST,
         *share, "-o", folder / "c{client}"),
        *[embed(f"c{k}", f"r{k}") for k in (1, 2, 3)],
        *[embed(f"c{k}", f"s{k}", "--similarity") for k in (1, 2, 3)],
        embed("c1", "other set", partition="p2"),
        embed("c1", "all", part="all"),
        embed("c1", "h", layer="h"),
        embed("g", "of the global"),
        ensemble("r", "e"),
        ensemble("r", "m", "--matrix"),
        ("aggregate", "--rule", "dictionary", *[folder / f"f{k}" for k in (1, 2, 3)],
         "-o", folder / "d"),
        ("aggregate", *[folder / f"c{k}" for k in (1, 2, 3)], "--bn", "keep",
         "-o", folder / "kept"),
        ("init", "--image-size", 8, "--channels", 3, *NET, "-o", folder / "colour"),
    ]  # fmt: skip
    assert [furlkit(*command) for command in commands] == [0] * len(commands)
    pixels, _ = read_digits("train")
    np.savez(folder / "few.npz", images=pixels[:50])
    np.savez(folder / "dark.npz", images=pixels // 2)
    np.savez(folder / "same.npz", images=pixels)
    return folder


@pytest.fixture
def flesd_files(_world, tmp_path):
    folder = tmp_path / "flesd"
    shutil.copytree(_world, folder)
    (folder / "out").touch()
    return folder


@pytest.fixture
def no_ensemble(flesd_files, refused):
    """An ensemble of a file with those of clients 2 and 3 is refused, also in a dry run."""

    def check(code, words, given, *more, kind="r"):
        files = [flesd_files / given, *(flesd_files / f"{kind}{k}" for k in (2, 3))]
        command = ("aggregate", "--rule", "ensemble", *files, *more)
        for dry in ((), ("--dry-run",)):
            refused(flesd_files, code, words, *command, *dry, "-o", flesd_files / "out")

    return check


@pytest.fixture
def no_distilling(flesd_files, refused):
    """A distillation is refused, and so is its dry run."""

    def check(code, words, *more, ensemble="e", start="g", output="out"):
        command = [
            "distill",
            flesd_files / ensemble,
            flesd_files / start,
            *DIGITS,
            *FAST,
        ]
        command += ["--anchors", 240, *more]
        for dry in ((), ("--dry-run",)):
            refused(
                flesd_files, code, words, *command, *dry, "-o", flesd_files / output
            )

    return check


def test_the_files_of_the_world_are_accepted(flesd_files, run):
    for ensemble in "em":
        words = ("distill", flesd_files / ensemble, flesd_files / "g", *DIGITS, *FAST)
        assert run(*words, "-o", flesd_files / "out").code == 0


@pytest.mark.parametrize(
    "given, message",
    [
        ("other set", "277"),
        ("all", "--part"),
        ("h", "--layer"),
        ("of the global", "client's model"),
        ("f1", "embed"),
        ("d", "dictionary"),
        ("k1", "private file"),
        ("c1", "checkpoint file"),
        ("p", "partition file"),
        ("e", "ensemble file"),
        ("s1", "similarity"),
        ("nowhere", "no such file"),
    ],
)
def test_files_that_are_no_uploads(flesd_files, no_ensemble, given, message):
    no_ensemble(65, (flesd_files / given, message), given)
    no_ensemble(65, (flesd_files / given, message), given, "--matrix")


def index_of(path):
    return Container(path).tensors()["index"]


@pytest.mark.parametrize("kind", ["r", "s"])
@pytest.mark.parametrize(
    "facts, message",
    [
        ({"round": 2}, "round"),
        ({"client": 2}, "client 2"),
    ],
)
def test_two_rounds_or_a_client_twice(
    flesd_files, forge, no_ensemble, kind, facts, message
):
    path = forge(flesd_files / f"{kind}1", facts=facts)
    no_ensemble(65, (path, message), path.name, kind=kind)


@pytest.mark.parametrize("kind", ["r", "s"])
def test_the_same_images_in_another_order(flesd_files, forge, no_ensemble, kind):
    index = index_of(flesd_files / f"{kind}1")
    index[[3, 4]] = index[[4, 3]]
    path = forge(flesd_files / f"{kind}1", {"index": index})
    no_ensemble(65, (path, "row 3"), path.name, kind=kind)


def test_a_missing_row(flesd_files, forge, no_ensemble):
    found = Container(flesd_files / "r1").tensors()
    path = forge(flesd_files / "r1", {name: array[1:] for name, array in found.items()})
    no_ensemble(65, (path, "359"), "r1")
    found = Container(flesd_files / "s1").tensors()
    less = {"matrix": found["matrix"][1:, 1:].copy(), "index": found["index"][1:]}
    path = forge(flesd_files / "s1", less)
    no_ensemble(65, (path, "359"), "s1", kind="s")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_similarity_that_is_not_finite(flesd_files, forge, no_ensemble, value):
    matrix = Container(flesd_files / "s1").tensors()["matrix"]
    matrix[7, 9] = value
    path = forge(flesd_files / "s1", {"matrix": matrix})
    no_ensemble(65, (path, "row 7", str(value)), "s1", kind="s")


def test_rows_of_zeros(flesd_files, forge, no_ensemble):
    rows = Container(flesd_files / "r1").tensors()["rows"]
    rows[5] = 0
    path = forge(flesd_files / "r1", {"rows": rows})
    no_ensemble(65, (path, "row 5"), "r1")


@pytest.mark.parametrize("kind", ["r", "s"])
def test_a_file_cut_short(flesd_files, no_ensemble, kind):
    path = flesd_files / f"{kind}1"
    path.write_bytes(path.read_bytes()[:-1])
    no_ensemble(65, (path, "truncated"), path.name, kind=kind)


def test_too_few_clients(no_ensemble):
    words = ("3 clients", "--at-least")
    no_ensemble(75, words, "r1", "--at-least", 4)


@pytest.mark.parametrize(
    "more, message",
    [
        (("--anchors", 1), "--anchors"),
        (("--anchors", 239), "--anchors 239"),
        (("--ema", 1.1), "--ema"),
        (("--ema", -0.1), "--ema"),
        (("--ema", "nan"), "--ema"),
        (("--temperature", 0), "--temperature"),
        (("--epochs", 0), "--epochs"),
        (("--batch-size", 1), "--batch-size"),
        (("--client", 1), "No such option"),
        (("--momentum", 0.5), "--momentum"),
        (("--device", "cuda:99"), "--device cuda:99"),
    ],
)
def test_options_that_make_no_sense(no_distilling, more, message):
    no_distilling(2, (message,), *more)


@pytest.mark.parametrize("output, more", [("e", ()), ("g", ()), ("same.npz", ("--data", "@"))])  # fmt: skip
def test_an_output_that_is_an_input(flesd_files, no_distilling, output, more):
    more = [flesd_files / "same.npz" if word == "@" else word for word in more]
    no_distilling(2, (f"-o {flesd_files / output}",), *more, output=output)


@pytest.mark.parametrize("ensemble", ["e", "m"])
@pytest.mark.parametrize(
    "more, message",
    [
        (("--data", "@few.npz"), "50"),
        (("--data", "@dark.npz"), "same number"),
        (("--split", "test"), "359"),
    ],
)
def test_other_images_than_the_ensemble_s(
    flesd_files, no_distilling, ensemble, more, message
):
    more = [flesd_files / str(w)[1:] if str(w).startswith("@") else w for w in more]
    words = (flesd_files / ensemble, message, "--data")
    no_distilling(65, words, *more, ensemble=ensemble)


@pytest.mark.parametrize(
    "ensemble, start, wrong, message",
    [
        ("r1", "g", "r1", "features file"),
        ("s1", "g", "s1", "similarity file"),
        ("d", "g", "d", "features file"),
        ("g", "g", "g", "checkpoint file"),
        ("k1", "g", "k1", "private file"),
        ("e", "e", "e", "ensemble file"),
        ("e", "p", "p", "partition file"),
        ("e", "k1", "k1", "private file"),
        ("e", "flat", "flat", "projector"),
        ("e", "kept", "kept", "BatchNorm"),
        ("nowhere", "g", "nowhere", "no such file"),
        ("e", "nowhere", "nowhere", "no such file"),
    ],
)
def test_files_of_another_kind(
    flesd_files, no_distilling, ensemble, start, wrong, message
):
    no_distilling(65, (flesd_files / wrong, message), ensemble=ensemble, start=start)


@pytest.mark.parametrize("start, more", [("flat", ("--layer", "h")), ("colour", ())])
def test_other_nets_that_do_fit(flesd_files, run, start, more):
    words = (
        "distill",
        flesd_files / "e",
        flesd_files / start,
        *DIGITS,
        *FAST,
        *more,
        "--dry-run",
    )
    assert run(*words, "-o", flesd_files / "out").code == 0


@pytest.mark.parametrize("index", [np.arange(1079, 1439), np.arange(-1, 359)])
@pytest.mark.parametrize("ensemble", ["e", "m"])
def test_images_that_are_not_there(flesd_files, forge, no_distilling, ensemble, index):
    forge(flesd_files / ensemble, {"index": index})
    no_distilling(65, (flesd_files / ensemble, "360", "1438"), ensemble=ensemble)


def test_an_ensemble_of_one_image(flesd_files, forge, no_distilling):
    parts = {f"part_{k}": np.ones((1, 4), "f4") for k in (1, 2, 3)}
    forge(flesd_files / "e", {**parts, "index": np.zeros(1, int)}, {"examples": 1})
    no_distilling(65, (flesd_files / "e", "1 image"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1])
def test_a_matrix_with_values_that_cannot_be(flesd_files, forge, run, value):
    """The matrix is read during the training, which has begun: no model is written."""
    matrix = np.full((360, 360), value, np.float32)
    forge(flesd_files / "m", {"matrix": matrix})
    done = run(
        "distill",
        flesd_files / "m",
        flesd_files / "g",
        *DIGITS,
        *FAST,
        "-o",
        flesd_files / "out",
    )
    assert done.code == 65 and done.out == ""
    assert f"{flesd_files / 'm'}: " in done.err and "matrix" in done.err
    assert (flesd_files / "out").read_bytes() == b""


def test_a_global_model_of_flesd_is_one_of_the_next_round(flesd_files, run, refused):
    words = (
        "distill",
        flesd_files / "e",
        flesd_files / "g",
        *DIGITS,
        *FAST,
        "-o",
        flesd_files / "g1",
    )
    assert run(*words).code == 0
    files = [flesd_files / "g1", flesd_files / "c2", flesd_files / "c3"]
    words = (flesd_files / "g1", "role")
    refused(flesd_files, 65, words, "aggregate", *files, "-o", flesd_files / "out")
