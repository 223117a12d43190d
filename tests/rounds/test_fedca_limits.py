"""FedCA's limit cases on the command line, and the effect of its parts on training."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.targets import read_targets
from furlkit.training import loop
from furlkit.weights import is_batchnorm_statistic
from tests.helpers import epoch_losses, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
ALIGN = ("--align-data", "digits", "--align-batch-size", 60)


def aggregate(output, *files):
    words = ("aggregate", "--rule", "dictionary", *files, "-o", output)
    assert furlkit(*words) == 0
    return output


@pytest.fixture(scope="module")
def fedca_round(tmp_path_factory):
    """Three clients that have shared rows in round 1, and targets of 60 images."""
    folder = tmp_path_factory.mktemp("fedca")
    net = ("--width", 0.02, "--projector", "8,4")
    clients = ("--client", "0-2", "--epochs", 1, "--batch-size", 240, "-q")
    share = ("--features-out", folder / "f{client}", "--alpha", 0)
    share += ("--dictionary-size", 20)
    models, rows = ([folder / f"{k}{client}" for client in range(3)] for k in "cf")
    commands = [
        ("partition", *DIGITS, "--clients", 3, "-o", folder / "p"),
        ("init", *DIGITS, *net, "-o", folder / "g0"),
        ("pretrain-align", folder / "g0", *DIGITS, "--images", 60, "--epochs", 3,
         "--batch-size", 30, "-q", "--targets-out", folder / "t", "-o", folder / "a"),
        ("local-train", folder / "p", folder / "g0", *DIGITS, *clients, *share,
         "-o", folder / "c{client}"),
        ("aggregate", *models, "-o", folder / "g1"),
        ("aggregate", "--rule", "dictionary", *rows, "-o", folder / "d"),
    ]  # fmt: skip
    assert [furlkit(*command) for command in commands] == [0] * 6
    return folder


@pytest.fixture
def train(fedca_round, tmp_path):
    """Train client 2 for round 2 with more options; returns the file."""

    def run(name, *more, model="g1"):
        words = [
            "local-train",
            fedca_round / "p",
            fedca_round / model,
            *DIGITS,
            "--client",
            2,
        ]
        words += [] if "--phases" in more else ["--epochs", 1]
        words += ["--batch-size", 240, "--form", "oneway", "-q", *more]
        assert furlkit(*words, "--force", "-o", tmp_path / name) == 0
        return tmp_path / name

    return run


def losses(path):
    return epoch_losses(path)[-1]


def test_no_dictionary_and_beta_0_is_one_way_nt_xent(fedca_round, train, tmp_path):
    plain = tensor_bytes(train("plain"))
    weightless = train("beta", "--align", fedca_round / "t", *ALIGN, "--beta", 0)
    own = aggregate(tmp_path / "own", fedca_round / "f2")
    more = ("--dictionary", own, "--leave-own-out")
    without = train("k", *more)
    both = train("both", *more, "--align", fedca_round / "t", *ALIGN, "--beta", 0)
    assert (
        tensor_bytes(weightless) == tensor_bytes(without) == tensor_bytes(both) == plain
    )
    assert losses(both).keys() == {"simclr"}


def test_own_rows_left_out_are_as_if_they_had_never_been_shared(
    fedca_round, train, tmp_path
):
    others = aggregate(tmp_path / "others", fedca_round / "f0", fedca_round / "f1")
    left = tensor_bytes(
        train("left", "--dictionary", fedca_round / "d", "--leave-own-out")
    )
    assert left == tensor_bytes(train("never", "--dictionary", others))
    assert left != tensor_bytes(train("all", "--dictionary", fedca_round / "d"))


def test_more_negatives_cost_more(fedca_round, train):
    """Every image has 2, 14 or 21 more negatives."""
    plain, left, everything = (
        losses(train(name, *more))["simclr"]
        for name, more in (
            ("a", ()),
            ("b", ("--dictionary", fedca_round / "d", "--leave-own-out")),
            ("c", ("--dictionary", fedca_round / "d")),
        )
    )
    assert plain < left < everything


@pytest.mark.parametrize("form", ["oneway", "symmetric", "full"])
def test_a_dictionary_goes_with_every_form(fedca_round, train, form):
    plain = losses(train("a", "--form", form))
    more = losses(train("b", "--form", form, "--dictionary", fedca_round / "d"))
    assert more["simclr"] > plain["simclr"]


@pytest.fixture
def share(fedca_round, train, tmp_path):
    """Share all 599 rows of client 2, in one order, from a net without BatchNorm in z."""
    net = ("--width", 0.02, "--projector", 4)
    assert furlkit("init", *DIGITS, *net, "-o", tmp_path / "plain") == 0

    def run(name, *more):
        rows = ("--features-out", tmp_path / f"{name}_rows", "--dictionary-size", 599)
        rows += ("--participants", 1, "--alpha", 0)
        train(name, *rows, *more, model=tmp_path / "plain")
        return tmp_path / f"{name}_rows"

    return run


# Nothing but the projector is trained, and by too little to change a float.
STILL = ("--phases", "projector:1", "--lr", 1e-30)


def test_rows_of_the_global_model_are_the_client_s_where_nothing_is_learnt(share):
    still = share("a", *STILL), share("b", *STILL, "--dictionary-from", "global")
    assert tensor_bytes(still[0]) == tensor_bytes(still[1])
    learnt = share("c"), share("d", "--dictionary-from", "global")
    assert tensor_bytes(learnt[0]) != tensor_bytes(learnt[1]) == tensor_bytes(still[1])


def test_rows_of_the_global_model_are_what_embed_makes_of_it(
    share, fedca_round, tmp_path
):
    rows = read_features(share("a", "--dictionary-from", "global")).rows
    part = ("--partition", fedca_round / "p", "--part", 2, "--layer", "z")
    words = ("embed", tmp_path / "plain", *DIGITS, *part, "-o", tmp_path / "z")
    assert furlkit(*words) == 0
    z = read_features(tmp_path / "z").rows
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    np.testing.assert_allclose(np.sort(rows, axis=0), np.sort(z, axis=0), atol=1e-6)


def test_whose_rows_are_shared_changes_nothing_of_the_training(share, tmp_path):
    """And the default is recorded nowhere: files are as they were before the option."""
    share("a")
    share("b", "--dictionary-from", "global")
    assert tensor_bytes(tmp_path / "a") == tensor_bytes(tmp_path / "b")
    share("a2", "--dictionary-from", "client")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "a2").read_bytes()
    assert Container(tmp_path / "b").header.options["dictionary-from"] == "global"
    assert "dictionary-from" not in Container(tmp_path / "a").header.options


def test_averaged_rows_of_global_models_follow_equation_9(fedca_round, train, tmp_path):
    """alpha above 0: Z is the average of what both global models compute."""
    own = ("--dictionary-from", "global", "--features-out", tmp_path / "f")
    train("c1", *own, "--private-out", tmp_path / "v1", model="g0")
    more = ("--private", tmp_path / "v1", "--private-out", tmp_path / "v2")
    train("c2", *own, *more)
    z = []
    for model in ("g0", "g1"):
        part = ("--partition", fedca_round / "p", "--part", 2, "--layer", "z")
        words = ("embed", fedca_round / model, *DIGITS, *part, "-o", tmp_path / model)
        assert furlkit(*words) == 0
        z.append(read_features(tmp_path / model).rows)
    Z = load_file(tmp_path / "v2")["memory.averaged_features.rows"]
    np.testing.assert_allclose(Z, 0.25 * z[0] + 0.5 * z[1], rtol=1e-4, atol=1e-6)


def test_the_global_model_shares_no_rows_where_none_are_shared(
    fedca_round, refused, tmp_path
):
    words = (
        "local-train",
        fedca_round / "p",
        fedca_round / "g1",
        *DIGITS,
        "--client",
        2,
    )
    more = ("--dictionary-from", "global", "-o", tmp_path / "c")
    refused(tmp_path, 2, ("--dictionary-from", "--features-out"), *words, *more)


OWN = ("--dictionary-positive", "own")


def test_without_a_dictionary_the_positive_is_the_other_view(train):
    """As in round 1 of a recipe, which gives the flag in every round: the same bytes."""
    expected = train("a").read_bytes()
    assert train("b", *OWN).read_bytes() == expected
    assert train("d", *OWN, "--dictionary-from", "global").read_bytes() == expected
    assert train("c", "--dictionary-positive", "view").read_bytes() == expected


def test_own_rows_beside_a_dictionary_that_is_empty_change_nothing(
    fedca_round, train, tmp_path
):
    given = (
        "--dictionary",
        aggregate(tmp_path / "own", fedca_round / "f2"),
        "--leave-own-out",
    )
    more = (*given, *OWN, "--dictionary-from", "global")
    assert tensor_bytes(train("b", *more)) == tensor_bytes(train("a"))


def test_a_client_without_rows_of_its_own_is_warned(fedca_round, train, capsys):
    train("b", "--dictionary", fedca_round / "d", *OWN)
    assert "client 2: --dictionary-positive own" in capsys.readouterr().err


def test_own_rows_of_z_are_those_of_the_global_model_that_computed_them(
    share, train, fedca_round, tmp_path
):
    """Both readings at once: round 1 leaves every weight as it is and alpha is 0."""
    rows = share("c1", *STILL, *OWN, "--private-out", tmp_path / "v")
    assert furlkit("aggregate", tmp_path / "c1", "-o", tmp_path / "g") == 0
    given = ("--dictionary", aggregate(tmp_path / "d", rows))
    literal, kept, fresh = (
        train(name, *given, *more, model=tmp_path / "g")
        for name, more in (
            ("literal", ()),
            ("kept", (*OWN, "--private", tmp_path / "v")),
            ("fresh", (*OWN, "--dictionary-from", "global")),
        )
    )
    assert tensor_bytes(kept) == tensor_bytes(fresh) != tensor_bytes(literal)
    options = Container(fresh).header.options
    assert options["dictionary-positive"] == "own"


@pytest.mark.parametrize("origin", ["client", "global"])
def test_own_rows_are_the_same_after_a_kill(
    fedca_round, train, tmp_path, until_done, origin
):
    files = ("--dictionary", fedca_round / "d", "--features-out", tmp_path / "f")
    train("c1", *files[2:], *OWN, "--private-out", tmp_path / "v", model="g0")
    how = (*files, *OWN, "--dictionary-from", origin, "--private", tmp_path / "v")
    how += ("--private-out", tmp_path / "v2", "--save-every", 0, "--batch-size", 100)
    expected = train("c", *how)
    files = [tmp_path / name for name in ("c", "f", "v2")]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    words = [
        "local-train",
        fedca_round / "p",
        fedca_round / "g1",
        *DIGITS,
        "--client",
        2,
    ]
    words += ["--epochs", 1, "--form", "oneway", "-q", *how]
    assert until_done(loop.Trainer, "step", *words, "-o", expected) == 3
    assert [path.read_bytes() for path in files] == before


@pytest.mark.parametrize(
    "more, words",
    [
        (("--features-out", "{}/f", "--alpha", 0), ("--private-out", "own")),
        (("--objective", "rotation"), ("does not apply", "rotation")),
    ],
)
def test_own_rows_that_cannot_be(fedca_round, refused, tmp_path, more, words):
    more = [str(word).format(tmp_path) for word in more]
    train = (
        "local-train",
        fedca_round / "p",
        fedca_round / "g1",
        *DIGITS,
        "--client",
        2,
    )
    refused(tmp_path, 2, words, *train, *OWN, *more, "-o", tmp_path / "c")


def test_an_embedded_z_of_any_length_serves_as_a_dictionary(
    fedca_round, train, tmp_path
):
    path = tmp_path / "z"
    words = ("embed", fedca_round / "g1", *DIGITS, "--split", "test", "--layer", "z")
    assert furlkit(*words, "-o", path) == 0
    assert np.linalg.norm(read_features(path).rows, axis=1).std() > 1e-3
    assert losses(train("a", "--dictionary", path)) != losses(train("b"))


def test_alignment_costs_next_to_nothing_at_the_alignment_models_own_weights(
    fedca_round, train, tmp_path
):
    """test_terms.py compares exactly; here one batch has already changed BatchNorm."""
    net = ("--width", 0.02, "--projector", "8,4", "--from", fedca_round / "a")
    assert furlkit("init", *DIGITS, *net, "-o", tmp_path / "home") == 0
    assert tensor_bytes(tmp_path / "home") == tensor_bytes(fedca_round / "a")
    more = ("--align", fedca_round / "t", *ALIGN, "--batch-size", 479)
    away = losses(train("away", *more, model="g0"))["alignment"]
    home = losses(train("home_1", *more, model=tmp_path / "home"))["alignment"]
    assert away > 0 and home < 0.1 * away


def test_the_alignment_loss_is_beta_times_the_squared_distance(
    fedca_round, train, forge, tmp_path
):
    """Eq. 14, from the output of embed on the same 60 images in the only step.

    Then the net has the global model's weights, and BatchNorm has seen the batch.
    """
    more = ("--align", fedca_round / "t", *ALIGN, "--batch-size", 479)
    client = train("sum", *more)
    mean = train("mean", *more, "--align-reduction", "mean", "--beta", 3)
    seen = {k: v for k, v in load_file(client).items() if is_batchnorm_statistic(k)}
    shutil.copy(fedca_round / "g1", tmp_path / "net")
    forge(tmp_path / "net", seen)
    targets, total = read_targets(fedca_round / "t"), 0.0
    for layer in ("h", "z"):
        words = ("embed", tmp_path / "net", *DIGITS, "--layer", layer)
        assert furlkit(*words, "-o", tmp_path / layer) == 0
        rows = read_features(tmp_path / layer).rows[targets.index]
        total += np.square(rows - getattr(targets, layer)).sum()
    assert losses(client)["alignment"] == pytest.approx(0.01 * total, rel=1e-4)
    assert losses(mean)["alignment"] == pytest.approx(3 * total / 60, rel=1e-4)


def test_alignment_brings_a_client_nearer_to_the_alignment_model(
    fedca_round, train, tmp_path
):
    targets = read_targets(fedca_round / "t")

    def distance(name, *more):
        model = train(name, "--lr", 0.003, "--epochs", 3, *more)
        assert furlkit("embed", model, *DIGITS, "-o", tmp_path / "h") == 0
        rows = read_features(tmp_path / "h").rows[targets.index]
        return np.square(rows - targets.h).sum()

    align = ("--align", fedca_round / "t", *ALIGN, "--beta", 1)
    assert distance("with", *align) < 0.8 * distance("without")


def test_alignment_goes_with_other_objectives(fedca_round, train, tmp_path):
    net = ("--width", 0.02, "--projector", "8,4", "--head", "rotation")
    assert furlkit("init", *DIGITS, *net, "-o", tmp_path / "g") == 0
    words = ["local-train", fedca_round / "p", tmp_path / "g", *DIGITS, "--client", 0]
    words += ["--objective", "rotation", "--epochs", 1, "--batch-size", 240, "-q"]
    words += ["--align", fedca_round / "t", *ALIGN, "-o", tmp_path / "c"]
    assert furlkit(*words) == 0
    assert losses(tmp_path / "c").keys() == {"rotation", "alignment"}


def test_no_label_reaches_any_training(fedca_round, tmp_path):
    """With labels, and from files that have none: the same numbers everywhere."""
    found = []
    for name, more in (("with", ()), ("without", ("--no-labels",))):
        folder = tmp_path / name
        data = folder / "d.safetensors"
        train = ("--epochs", 1, "--batch-size", 240, "-q")
        fedca = ("--align", folder / "t", "--align-data", data)
        fedca += ("--dictionary", fedca_round / "d", "--dictionary-size", 20)
        out = ("--features-out", folder / "f", "--private-out", folder / "k")
        commands = [
            ("pack", "digits", *more, "-o", data),
            ("pretrain-align", fedca_round / "g0", "--data", data, "--images", 60, *train,
             "--targets-out", folder / "t", "-o", folder / "a"),
            ("local-train", fedca_round / "p", fedca_round / "g1", "--data", data, "--client", 0,
             *train, *fedca, *out, "-o", folder / "c"),
        ]  # fmt: skip
        assert [furlkit(*command) for command in commands] == [0, 0, 0]
        assert ("labels" in load_file(data)) == (name == "with")
        found.append({file: tensor_bytes(folder / file) for file in "atcfk"})
    assert found[0] == found[1]


def test_a_round_without_sharing_leaves_averaged_features_as_they_are(
    fedca_round, train, tmp_path
):
    first = ("--features-out", tmp_path / "f", "--private-out", tmp_path / "v1")
    train("c1", *first, model="g0")
    quiet = ("--private", tmp_path / "v1", "--private-out", tmp_path / "v2")
    train("c2", *quiet)
    before, after = tensor_bytes(tmp_path / "v1"), tensor_bytes(tmp_path / "v2")
    kept = {name for name in before if name.startswith("memory.")}
    assert kept and all(before[name] == after[name] for name in kept)


def test_a_dictionary_is_made_under_a_preset_that_also_has_options_of_the_mean(
    fedca_round, tmp_path, run
):
    words = (
        "aggregate",
        "--rule",
        "dictionary",
        fedca_round / "f0",
        fedca_round / "f1",
    )
    done = run(*words, "--preset", "fedca", "-o", tmp_path / "d")
    assert done.code == 0 and done.err == ""
    assert json.loads(run("inspect", tmp_path / "d", "--json").out)


def test_public_images_may_be_a_test_split(fedca_round, train, tmp_path, run):
    words = (
        "pretrain-align",
        fedca_round / "g0",
        *DIGITS,
        "--split",
        "test",
        "--epochs",
        1,
    )
    words += ("--images", 60, "-q", "--targets-out", tmp_path / "t")
    assert run(*words, "-o", tmp_path / "a").code == 0
    aligned = ("--align", tmp_path / "t", *ALIGN)
    assert "alignment" in losses(train("c", *aligned, "--align-split", "test"))
    refused = (
        "local-train",
        fedca_round / "p",
        fedca_round / "g1",
        *DIGITS,
        "--client",
        2,
    )
    done = run(*refused, *aligned, "-o", tmp_path / "d")
    assert done.code == 65 and f"{tmp_path / 't'}: " in done.err
