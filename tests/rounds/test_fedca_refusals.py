"""What FedCA's doors refuse: code, words, and that nothing on disk has changed."""

import shutil

import numpy as np
import pytest

from furlkit.cli.program import _outcome
from furlkit.data.sets.digits import read_digits
from furlkit.files.container.read import Container

DIGITS = ("--data", "digits")
NET = ("--width", 0.02, "--projector", "8,4")
FAST = ("--epochs", 1, "--batch-size", 240, "-q")


def furlkit(*arguments):
    return _outcome([str(argument) for argument in arguments])


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
def world(_world, tmp_path):
    folder = tmp_path / "fedca"
    shutil.copytree(_world, folder)
    (folder / "out").write_bytes(b"what an earlier command wrote")
    return folder


def train(world, *more, model="g1"):
    """Round 2 of client 0; `more` names files of the folder as @name."""
    words = ("local-train", world / "p", world / model, *DIGITS, "--client", 0, *FAST)
    given = [_place(world, word) for word in more]
    return *words, *given, "-o", world / "out"


def _place(world, word):
    return world / word[1:] if str(word).startswith("@") else word


ALIGN = ("--align", "@t", "--align-data", "digits")
SHARE = ("--features-out", "@f", "--private-out", "@k")


@pytest.fixture
def turned_away(world, refused):
    """A training is refused, and so is its dry run."""

    def check(code, words, *more, **model):
        for dry in ((), ("--dry-run",)):
            command = train(world, *more, **model)
            refused(world, code, words, *command[:-2], *dry, *command[-2:])

    return check


def test_what_the_world_has_is_taken(world, run):
    more = ("--dictionary", "@d", "--leave-own-out", "--private", "@k0")
    done = run(*train(world, *more, *ALIGN, *SHARE, "--dictionary-size", 9))
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "more, words",
    [
        (("--alpha", 0.5), ("--alpha", "without --features-out")),
        (("--dictionary-size", 9), ("--dictionary-size", "without --features-out")),
        (("--participants", 2), ("--participants", "without --features-out")),
        (("--features-out", "@f"), ("--alpha 0.5", "give --private-out, or --alpha 0")),
        (("--features-out", "@f", "--alpha", 0.1), ("--alpha 0.1", "--private-out")),
        (("--beta", 1), ("does not apply without --align",)),
        (("--align-batch-size", 9), ("does not apply without --align",)),
        (("--align-reduction", "mean"), ("does not apply without --align",)),
        (("--align-data", "digits"), ("does not apply without --align",)),
        (("--align", "@t"), ("give --align-data too",)),
        (("--dictionary", "@z", "--leave-own-out"),
         ("--leave-own-out", "does not say whose rows it has")),
        (("--objective", "rotation", "--dictionary", "@d"),
         ("--dictionary does not apply to --objective rotation",)),
        (("--objective", "rotation", *SHARE),
         ("--features-out does not apply to --objective rotation",)),
        ((*SHARE, "--features-out", "@k"), ("@k", "uses that file already")),
        ((*SHARE, "--features-out", "@out"), ("@out", "uses that file already")),
        ((*SHARE, "--dictionary", "@d", "--features-out", "@d"), ("@d", "uses that")),
        ((*SHARE, *ALIGN, "--private-out", "@t"), ("@t", "uses that file already")),
        ((*SHARE, "--private", "@k0", "--private-out", "@k0"), ("@k0", "uses that")),
        ((*SHARE, "--align", "@t", "--align-data", "@dark.npz", "--features-out",
          "@dark.npz"), ("@dark.npz", "uses that file already")),
        ((*SHARE, "--data", "@dark.npz", "--private-out", "@dark.npz"),
         ("@dark.npz", "uses that file already")),
        ((*SHARE, "--client", "0-1", "-o", "@c_{client}"), ("need a pattern",)),
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
def test_options_that_make_no_sense(world, turned_away, more, words):
    turned_away(2, [_place(world, word) for word in words], *more)


@pytest.mark.parametrize(
    "more, message",
    [
        (("--dictionary", "@h"), "holds h, a dictionary of z was wanted"),
        (("--dictionary", "@c0"), "is a checkpoint file, a features was wanted"),
        (("--dictionary", "@k0"), "is a private file, a features was wanted"),
        (("--dictionary", "@nowhere"), "no such file"),
        (("--align", "@a", "--align-data", "digits"), "a targets was wanted here"),
        (("--align", "@f0", "--align-data", "digits"), "a targets was wanted here"),
        (("--align", "@nowhere", "--align-data", "digits"), "no such file"),
        (("--private", "@f0"), "is a features file, a private was wanted"),
        (("--private", "@k1"), "is private to client 1, client 0 asked for it"),
        (("--private", "@nowhere"), "no such file"),
    ],
)
def test_files_of_another_kind(world, turned_away, more, message):
    turned_away(65, (world / more[1][1:], message), *more)


@pytest.mark.parametrize(
    "data, message",
    [
        ("@few.npz", "one has 1,438 examples, the other 50"),
        ("@dark.npz", "they have the same number of examples but other images"),
    ],
)
def test_targets_of_other_images(world, turned_away, data, message):
    more = ("--align", "@t", "--align-data", data)
    words = (world / "t", "was made of other images than", message, "--align-data")
    turned_away(65, words, *more)


@pytest.mark.parametrize(
    "part, value",
    [
        ("encoder", "resnet18"),
        ("width", 0.03),
        ("image_size", 16),
        ("channels", 3),
        ("projector", [8, 5]),
        ("projector", None),
        ("stem", "small"),
    ],
)
def test_targets_of_another_net(world, forge, turned_away, part, value):
    known = Container(world / "t").header.facts["architecture"]
    forge(world / "t", facts={"architecture": {**known, part: value}})
    words = (world / "t", f"was made by a net with {part} {value}", "pretrain-align")
    turned_away(65, words, *ALIGN)


def test_heads_that_alignment_does_not_use_may_differ(world, run, forge):
    known = Container(world / "t").header.facts["architecture"]
    forge(world / "t", facts={"architecture": {**known, "rotation": False}})
    assert run(*train(world, *ALIGN, "--dry-run")).code == 0


@pytest.mark.parametrize("name", ["mean", "std"])
def test_targets_of_another_normalisation(world, forge, turned_away, name):
    forge(world / "t", facts={name: [0.5]})
    words = (world / "t", f"its net normalises images by {name} [0.5]", world / "g1")
    turned_away(65, words, *ALIGN)


@pytest.mark.parametrize(
    "tensors, facts, message",
    [
        ({"h": np.ones((30, 40), "f4")}, {}, "h has 40 numbers, the model's has 41"),
        ({"z": np.ones((30, 3), "f4")}, {}, "z has 3 numbers, the model's has 4"),
        ({"h": np.ones((29, 41), "f4")}, {}, "a row for each of its 30 images"),
        ({"index": np.arange(1409, 1439)}, {}, "names images 1409 to 1438, digits has"),
        ({"index": np.arange(-1, 29)}, {}, "names images -1 to 28, digits has 1438"),
        ({}, {"dataset": {}}, "does not say how many images its dataset has"),
        (
            {},
            {"dataset": {"examples": "x"}},
            "does not say how many images its dataset",
        ),
    ],
)
def test_targets_that_cannot_be(world, forge, turned_away, tensors, facts, message):
    forge(world / "t", tensors, facts)
    turned_away(65, (world / "t", message), *ALIGN)


@pytest.mark.parametrize(
    "tensors, facts, message",
    [
        ({"rows": np.ones((9, 5), "f4")}, {}, "rows have 5 numbers, the model's z has"),
        ({}, {"round": 2}, "is of round 2, the model of round 1"),
        ({}, {"owners": [[0, 3], [1, 3]]}, "has 9 rows, its owners have 6"),
        (
            {},
            {"owners": [[0, 10], [1, -1]]},
            "its owners are no list of [client, rows]",
        ),
        ({"rows": np.full((9, 4), np.nan, "f4")}, {}, "36 values that are NaN"),
    ],
)
def test_dictionaries_that_do_not_fit(
    world, forge, turned_away, tensors, facts, message
):
    forge(world / "d", tensors, facts)
    turned_away(65, (world / "d", message), "--dictionary", "@d")
    turned_away(65, (world / "d", message), "--dictionary", "@d", "--leave-own-out")


def test_a_dictionary_is_not_for_the_model_it_was_made_from(world, turned_away):
    words = (world / "d", "is of round 1, the model of round 0")
    turned_away(65, words, "--dictionary", "@d", model="g0")


@pytest.mark.parametrize(
    "tensors, facts, message",
    [
        ({}, {"round": 2}, "is of round 2, and this is round 2"),
        ({}, {"round": 9}, "is of round 9, and this is round 2"),
        ({"ensemble.rows": np.ones((480, 5), "f4")}, {}, "its ensemble is (480, 5)"),
        ({"ensemble.index": np.arange(479)}, {}, "its ensemble is (480, 4)"),
        ({"ensemble.index": None}, {}, "its ensemble is (480, 4)"),
        ({"ensemble.index": np.ones(480)}, {}, "its ensemble is (480, 4)"),
        ({"ensemble.index": np.zeros((480, 1), int)}, {}, "its ensemble is (480, 4)"),
        ({"encoder.bn1.running_mean": np.ones(7, "f4")}, {}, "running_mean"),
        ({"unheard_of": np.ones(7, "f4")}, {}, "has unheard_of, which its"),
    ],
)
def test_private_files_that_do_not_fit(
    world, forge, turned_away, tensors, facts, message
):
    forge(world / "k0", tensors, facts)
    turned_away(65, (world / "k0", message), *SHARE, "--private", "@k0")


def test_alignment_without_a_projector(world, run, turned_away):
    net = ("--width", 0.02, "--objective", "rotation", "-o", world / "flat")
    assert run("init", *DIGITS, *net).code == 0
    words = (world / "flat", "has no projector")
    turned_away(65, words, "--objective", "rotation", *ALIGN, model="flat")


@pytest.mark.parametrize(
    "rule, given, message",
    [
        ("dictionary", "k0", "is a private file, a features was wanted"),
        ("mean", "k0", "is a private file, a checkpoint was wanted"),
        ("dictionary", "c0", "is a checkpoint file, a features was wanted"),
        ("mean", "f0", "is a features file, a checkpoint was wanted"),
        ("mean", "d", "is a features file, a checkpoint was wanted"),
        ("mean", "t", "is a targets file, a checkpoint was wanted"),
        ("mean", "a", "is a checkpoint of role align"),
        ("dictionary", "t", "is a targets file, a features was wanted"),
        ("dictionary", "d", "is not what a client shares"),
        ("dictionary", "h", "is not what a client shares"),
        ("dictionary", "z", "a row has length"),
    ],
)
def test_files_that_are_no_uploads(world, refused, rule, given, message):
    others = [world / f"{'f' if rule == 'dictionary' else 'c'}{k}" for k in (1, 2)]
    words = ("aggregate", "--rule", rule, world / given, *others, "-o", world / "out")
    refused(world, 65, (world / given, message), *words)
