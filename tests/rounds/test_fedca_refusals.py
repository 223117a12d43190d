"""What FedCA's stages refuse: exit code, key words, and no file on disk changed."""

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
    """All files of a round of three clients: models, rows, ensembles, dictionary."""
    folder = tmp_path_factory.mktemp("fedca")
    out = [f"--{name}-out" for name in ("features", "private")]
    places = [folder / "f{client}", folder / "k{client}"]
    share = [w for pair in zip(out, places, strict=True) for w in pair]
    models, rows = ([folder / f"{k}{client}" for client in range(3)] for k in "cf")
    test = ("--split", "test")
    commands = [
        ("partition", *DIGITS, "--clients", 3, "-o", folder / "p"),
        ("init", *DIGITS, *NET, "--head", "rotation", "-o", folder / "g0"),
        ("pretrain-align", folder / "g0", *DIGITS, "--images", 30, *FAST,
         "--targets-out", folder / "t", "-o", folder / "a"),
        ("local-train", folder / "p", folder / "g0", *DIGITS, "--client", "0-2", *FAST,
         "--dictionary-size", 9, *share, "-o", folder / "c{client}"),
        ("aggregate", *models, "-o", folder / "g1"),
        ("aggregate", "--rule", "dictionary", *rows, "-o", folder / "d"),
        ("embed", folder / "g1", *DIGITS, *test, "-o", folder / "h"),
        ("embed", folder / "c0", *DIGITS, *test, "--layer", "z", "-o", folder / "z"),
    ]  # fmt: skip
    assert [furlkit(*command) for command in commands] == [0] * len(commands)
    pixels, _ = read_digits("train")
    np.savez(folder / "few.npz", images=pixels[:50])
    np.savez(folder / "dark.npz", images=pixels // 2)
    return folder


@pytest.fixture
def fedca_files(_world, tmp_path):
    folder = tmp_path / "fedca"
    shutil.copytree(_world, folder)
    (folder / "out").touch()
    return folder


def train(fedca_files, *more, model="g1"):
    """Round 2 of client 0; `more` names files of the folder as @name."""
    words = (
        "local-train",
        fedca_files / "p",
        fedca_files / model,
        *DIGITS,
        "--client",
        0,
        *FAST,
    )
    given = [_place(fedca_files, word) for word in more]
    return *words, *given, "-o", fedca_files / "out"


def _place(fedca_files, word):
    return fedca_files / word[1:] if str(word).startswith("@") else word


ALIGN = ("--align", "@t", "--align-data", "digits")
SHARE = ("--features-out", "@f", "--private-out", "@k")


@pytest.fixture
def no_training(fedca_files, refused):
    """A training is refused, and so is its dry run."""

    def check(code, words, *more, **model):
        for dry in ((), ("--dry-run",)):
            command = train(fedca_files, *more, **model)
            refused(fedca_files, code, words, *command[:-2], *dry, *command[-2:])

    return check


def test_the_files_of_the_world_are_accepted(fedca_files, run):
    more = ("--dictionary", "@d", "--leave-own-out", "--private", "@k0")
    done = run(*train(fedca_files, *more, *ALIGN, *SHARE, "--dictionary-size", 9))
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "more, words",
    [
        (("--alpha", 0.5), ("--alpha", "--features-out")),
        (("--dictionary-size", 9), ("--dictionary-size", "--features-out")),
        (("--participants", 2), ("--participants", "--features-out")),
        (("--features-out", "@f"), ("--alpha 0.5", "--private-out")),
        (("--features-out", "@f", "--alpha", 0.1), ("--alpha 0.1", "--private-out")),
        (("--beta", 1), ("does not apply without --align",)),
        (("--align-batch-size", 9), ("does not apply without --align",)),
        (("--align-reduction", "mean"), ("does not apply without --align",)),
        (("--align-data", "digits"), ("does not apply without --align",)),
        (("--align", "@t"), ("give --align-data too",)),
        (("--dictionary", "@z", "--leave-own-out"),
         ("@z", "--leave-own-out")),
        (("--objective", "rotation", "--dictionary", "@d"),
         ("--dictionary", "--objective rotation")),
        (("--objective", "rotation", *SHARE),
         ("--features-out", "--objective rotation")),
        ((*SHARE, "--features-out", "@k"), ("@k", "-out")),
        ((*SHARE, "--features-out", "@out"), ("@out", "-o")),
        ((*SHARE, "--dictionary", "@d", "--features-out", "@d"), ("@d", "--features-out")),
        ((*SHARE, *ALIGN, "--private-out", "@t"), ("@t", "--private-out")),
        ((*SHARE, "--private", "@k0", "--private-out", "@k0"), ("@k0", "--private-out")),
        ((*SHARE, "--align", "@t", "--align-data", "@dark.npz", "--features-out",
          "@dark.npz"), ("@dark.npz", "--features-out")),
        ((*SHARE, "--data", "@dark.npz", "--private-out", "@dark.npz"),
         ("@dark.npz", "--private-out")),
        ((*SHARE, "--client", "0-1", "-o", "@c_{client}"), ("pattern",)),
        ((*SHARE, "--alpha", 1), ("--alpha", "1")),
        ((*SHARE, "--alpha", -0.1), ("--alpha", "-0.1")),
        ((*SHARE, "--alpha", "nan"), ("--alpha", "nan")),
        ((*SHARE, "--dictionary-size", 0), ("--dictionary-size",)),
        ((*SHARE, "--participants", 0), ("--participants",)),
        ((*ALIGN, "--beta", -1), ("--beta",)),
        ((*ALIGN, "--beta", "inf"), ("--beta",)),
        ((*ALIGN, "--align-batch-size", 0), ("--align-batch-size",)),
        ((*ALIGN, "--align-reduction", "max"), ("--align-reduction", "max")),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(fedca_files, no_training, more, words):
    no_training(2, [_place(fedca_files, word) for word in words], *more)


@pytest.mark.parametrize(
    "more, message",
    [
        (("--dictionary", "@h"), "holds h"),
        (("--dictionary", "@c0"), "checkpoint file"),
        (("--dictionary", "@k0"), "private file"),
        (("--dictionary", "@nowhere"), "no such file"),
        (("--align", "@a", "--align-data", "digits"), "targets"),
        (("--align", "@f0", "--align-data", "digits"), "targets"),
        (("--align", "@nowhere", "--align-data", "digits"), "no such file"),
        (("--private", "@f0"), "features file"),
        (("--private", "@k1"), "client 1"),
        (("--private", "@nowhere"), "no such file"),
    ],
)
def test_files_of_another_kind(fedca_files, no_training, more, message):
    no_training(65, (fedca_files / more[1][1:], message), *more)


@pytest.mark.parametrize(
    "data, message",
    [
        ("@few.npz", "50"),
        ("@dark.npz", "same number"),
    ],
)
def test_targets_of_other_images(fedca_files, no_training, data, message):
    more = ("--align", "@t", "--align-data", data)
    words = (fedca_files / "t", message, "--align-data")
    no_training(65, words, *more)


@pytest.mark.parametrize(
    "part, value",
    [
        ("width", 0.03),
        ("image_size", 16),
        ("channels", 3),
        ("projector", (8, 5)),
        ("projector", None),
    ],
)
def test_targets_of_another_net(fedca_files, forge, no_training, part, value):
    known = Container(fedca_files / "t").header.facts["architecture"]
    changed = {**known, part: value}
    if part == "projector":
        heads = {"projector": value, "rotation": [4]}
        changed = {**known, "heads": {k: v for k, v in heads.items() if v}}
    forge(fedca_files / "t", facts={"architecture": changed})
    no_training(65, (fedca_files / "t", f"{part} {value}"), *ALIGN)


def test_targets_of_another_encoder(fedca_files, forge, no_training):
    known = Container(fedca_files / "t").header.facts["architecture"]
    other = {**known, "encoder": "resnet18", "width": 1.0, "stem": "small"}
    forge(fedca_files / "t", facts={"architecture": other})
    no_training(65, (fedca_files / "t", "encoder resnet18"), *ALIGN)


def test_heads_that_alignment_does_not_use_may_differ(fedca_files, run, forge):
    known = Container(fedca_files / "t").header.facts["architecture"]
    only = {"projector": known["heads"]["projector"]}
    forge(fedca_files / "t", facts={"architecture": {**known, "heads": only}})
    assert run(*train(fedca_files, *ALIGN, "--dry-run")).code == 0


@pytest.mark.parametrize("name", ["mean", "std"])
def test_targets_of_another_normalisation(fedca_files, forge, no_training, name):
    forge(fedca_files / "t", facts={name: [0.5]})
    words = (fedca_files / "t", f"{name} [0.5]", fedca_files / "g1")
    no_training(65, words, *ALIGN)


@pytest.mark.parametrize(
    "tensors, facts, message",
    [
        ({"h": np.ones((30, 40), "f4")}, {}, "40"),
        ({"z": np.ones((30, 3), "f4")}, {}, "3 numbers"),
        ({"h": np.ones((29, 41), "f4")}, {}, "(30, "),
        ({"index": np.arange(1409, 1439)}, {}, "1409 to 1438"),
        ({"index": np.arange(-1, 29)}, {}, "-1 to 28"),
        ({}, {"dataset": {}}, "dataset"),
        ({}, {"dataset": {"examples": "x"}}, "dataset"),
    ],
)
def test_targets_that_cannot_be(
    fedca_files, forge, no_training, tensors, facts, message
):
    forge(fedca_files / "t", tensors, facts)
    no_training(65, (fedca_files / "t", message), *ALIGN)


@pytest.mark.parametrize(
    "tensors, facts, message",
    [
        ({"rows": np.ones((9, 5), "f4")}, {}, "5 numbers"),
        ({}, {"round": 2}, "round 2"),
        ({}, {"owners": [[0, 3], [1, 3]]}, "9 rows"),
        ({}, {"owners": [[0, 10], [1, -1]]}, "owners"),
        ({"rows": np.full((9, 4), np.nan, "f4")}, {}, "NaN"),
    ],
)
def test_dictionaries_that_do_not_fit(
    fedca_files, forge, no_training, tensors, facts, message
):
    forge(fedca_files / "d", tensors, facts)
    no_training(65, (fedca_files / "d", message), "--dictionary", "@d")
    no_training(
        65, (fedca_files / "d", message), "--dictionary", "@d", "--leave-own-out"
    )


def test_a_dictionary_is_not_for_the_model_it_was_made_from(fedca_files, no_training):
    words = (fedca_files / "d", "round 1", "round 0")
    no_training(65, words, "--dictionary", "@d", model="g0")


@pytest.mark.parametrize(
    "tensors, facts, message",
    [
        ({}, {"round": 2}, "round 2"),
        ({}, {"round": 9}, "round 9"),
        ({"memory.averaged_features.rows": np.ones((480, 5), "f4")}, {}, "(480, 5)"),
        ({"memory.averaged_features.index": np.arange(479)}, {}, "(480, 4)"),
        ({"memory.averaged_features.index": None}, {}, "(480, 4)"),
        ({"memory.averaged_features.index": np.ones(480)}, {}, "(480, 4)"),
        ({"memory.averaged_features.index": np.zeros((480, 1), int)}, {}, "(480, 4)"),
        ({"encoder.bn1.running_mean": np.ones(7, "f4")}, {}, "running_mean"),
        ({"unheard_of": np.ones(7, "f4")}, {}, "unheard_of"),
    ],
)
def test_private_files_that_do_not_fit(
    fedca_files, forge, no_training, tensors, facts, message
):
    forge(fedca_files / "k0", tensors, facts)
    no_training(65, (fedca_files / "k0", message), *SHARE, "--private", "@k0")


def test_alignment_without_a_projector(fedca_files, run, no_training):
    net = ("--width", 0.02, "--objective", "rotation", "-o", fedca_files / "flat")
    assert run("init", *DIGITS, *net).code == 0
    words = (fedca_files / "flat", "projector")
    no_training(65, words, "--objective", "rotation", *ALIGN, model="flat")


@pytest.mark.parametrize(
    "rule, given, message",
    [
        ("dictionary", "k0", "private file"),
        ("mean", "k0", "private file"),
        ("dictionary", "c0", "checkpoint file"),
        ("mean", "f0", "features file"),
        ("mean", "d", "features file"),
        ("mean", "t", "targets file"),
        ("mean", "a", "role align"),
        ("dictionary", "t", "targets file"),
        ("dictionary", "d", "--features-out"),
        ("dictionary", "h", "--features-out"),
        ("dictionary", "z", "length"),
    ],
)
def test_files_that_are_no_uploads(fedca_files, refused, rule, given, message):
    others = [
        fedca_files / f"{'f' if rule == 'dictionary' else 'c'}{k}" for k in (1, 2)
    ]
    words = (
        "aggregate",
        "--rule",
        rule,
        fedca_files / given,
        *others,
        "-o",
        fedca_files / "out",
    )
    refused(fedca_files, 65, (fedca_files / given, message), *words)


# --- warnings about forgotten and old files; --strict makes them errors ------------------


@pytest.fixture
def new_output(fedca_files):
    """The output does not exist."""
    (fedca_files / "out").unlink()


def test_a_dictionary_of_an_earlier_round(
    new_output, fedca_files, forge, no_training, run
):
    forge(fedca_files / "d", facts={"round": 0})
    words = (fedca_files / "d", fedca_files / "g1", "round 0", "round 1")
    no_training(65, words, "--strict", "--dictionary", "@d")
    done = run(*train(fedca_files, "--dictionary", "@d"))
    assert done.code == 0 and done.err.count("warning: ") == 1, done.err


def test_a_forgotten_dictionary(new_output, fedca_files, no_training):
    more = ("--strict", *SHARE, "--private", "@k0")
    no_training(65, (fedca_files / "k0", "--dictionary"), *more)


def test_a_forgotten_private_file(new_output, fedca_files, no_training, run):
    for round_ in ("r1", "r2"):
        (fedca_files / round_).mkdir()
    shutil.copy(fedca_files / "k0", fedca_files / "r1" / "k")
    more = ("--private-out", "@r2/k", "--dictionary", "@d")
    words = (fedca_files / "r1" / "k", "round 1", "--private")
    no_training(65, words, "--strict", *more)
    shutil.copy(fedca_files / "k1", fedca_files / "r1" / "k")  # Of another client.
    assert run(*train(fedca_files, *more, "--strict")).code == 0


def test_rows_without_a_rule(new_output, fedca_files, refused):
    rows = [fedca_files / f"f{client}" for client in range(3)]
    words = ("aggregate", *rows, "-o", fedca_files / "out")
    refused(fedca_files, 65, (rows[0], "features", "--rule dictionary"), *words)
