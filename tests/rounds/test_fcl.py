"""FCL: the rows of encrypted images that clients share, and what leaves a client."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.exchanges.dictionary import rows_of_others
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.training import loop
from tests.helpers import epoch_losses, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
WAYS = ("averaged", "instahide", "mixup", "plain")
SIZE = ("--dictionary-size", 30)


@pytest.fixture(scope="module", params=["simclr", "moco"])
def averaged_round(request, tmp_path_factory):
    """Three clients, whose models of round 1 have been averaged; the objective's name."""
    folder = tmp_path_factory.mktemp("fcl")
    net = ("--width", 0.02, "--projector", "16,8", "--objective", request.param)
    assert furlkit("partition", *DIGITS, "--clients", 3, "-o", folder / "p") == 0
    assert furlkit("init", *DIGITS, *net, "-o", folder / "g0") == 0
    (folder / "objective").write_text(request.param)
    return folder


@pytest.fixture
def train(averaged_round, tmp_path):
    """Train clients from a global model; files are written to the test's folder."""
    name = (averaged_round / "objective").read_text()
    send = ("--send", "encoder,projector,target") if name == "moco" else ()

    def run(output, *more, model=None, clients="0", code=0):
        words = [
            "local-train",
            averaged_round / "p",
            model or averaged_round / "g0",
            *DIGITS,
        ]
        words += ["--client", clients, "--objective", name, "--epochs", 1]
        words += ["--batch-size", 240, *send, "-q", *more, "-o", tmp_path / output]
        assert furlkit(*words) == code
        return tmp_path / output

    return run


@pytest.fixture
def shared(train, tmp_path):
    """The rows that client 0 shares."""

    def run(name, way, *more):
        out = ("--features-out", tmp_path / f"{name}_rows", "--share-rows", way, *SIZE)
        train(name, *out, *more)
        return tmp_path / f"{name}_rows"

    return run


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_unit_rows_and_says_what_they_are(shared, run, way):
    more = ("--alpha", 0) if way == "averaged" else ()
    path = shared("a", way, *more)
    found, header = read_features(path), Container(path).header
    assert found.rows.shape == (10, 8) and found.index.tolist() == list(range(10))
    np.testing.assert_allclose(np.linalg.norm(found.rows, axis=1), 1, rtol=1e-6)
    assert found.facts.share_rows == (None if way == "averaged" else way)
    assert header.options.get("share-rows") == found.facts.share_rows
    assert ("alpha" in header.options) == (way == "averaged")
    said = json.loads(run("inspect", path, "--json").out)["summary"]
    assert ("not anonymous" in said) == (way != "averaged")
    assert ("broken" in said and "Carlini" in said) == (way == "instahide")


def test_ways_differ_and_each_is_the_same_when_repeated(shared):
    found = [read_features(shared(way, way)).rows for way in WAYS[1:]]
    again = [read_features(shared(f"{way}2", way)).rows for way in WAYS[1:]]
    other = [read_features(shared(f"{w}3", w, "--seed", 1)).rows for w in WAYS[1:]]
    for one, same, seeded in zip(found, again, other, strict=True):
        assert one.tobytes() == same.tobytes() != seeded.tobytes()
    assert len({rows.tobytes() for rows in found}) == 3


def test_plain_rows_are_those_of_averaged_features_without_averaging(shared):
    """One draws images and embeds them, the other embeds all and draws rows."""
    plain, averaged = (
        read_features(shared(way, way, *more)).rows
        for way, more in (("plain", ()), ("averaged", ("--alpha", 0)))
    )
    apart = np.linalg.norm(plain[:, None] - averaged, axis=2)
    assert apart.min(axis=0).max() < 1e-5 and apart.min(axis=1).max() < 1e-5


def test_rows_do_not_change_the_model_nor_depend_on_how_it_is_sent(train, tmp_path):
    alone = train("alone")
    out = ("--features-out", tmp_path / "f", "--share-rows", "instahide", *SIZE)
    assert tensor_bytes(train("with", *out)) == tensor_bytes(alone)


def test_rows_are_computed_by_the_slow_network_where_there_is_one(
    averaged_round, shared, forge, tmp_path
):
    """Plain rows against embed, of the uploaded net or of its target under its names."""
    rows, upload = read_features(shared("a", "plain")).rows, load_file(tmp_path / "a")
    slow = {k: v for k, v in upload.items() if k.startswith("target.")}
    assert bool(slow) == ((averaged_round / "objective").read_text() == "moco")

    def near(model):
        part = ("--partition", averaged_round / "p", "--part", 0, "--layer", "z")
        assert furlkit("embed", model, *DIGITS, *part, "-o", tmp_path / "z") == 0
        z = read_features(tmp_path / "z").rows
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        return np.linalg.norm(rows[:, None] - z, axis=2).min(axis=1).max()

    if not slow:
        assert near(tmp_path / "a") < 1e-5
        return
    assert near(tmp_path / "a") > 1e-3
    forge(tmp_path / "a", {k.removeprefix("target."): v for k, v in slow.items()})
    assert near(tmp_path / "a") < 1e-5


def test_the_global_model_may_compute_the_rows(shared, tmp_path):
    """Then the client learns nothing that its rows show."""
    rows = [
        shared(name, "instahide", "--dictionary-from", "global", "--lr", lr)
        for name, lr in (("a", 1e-3), ("b", 1e-2))
    ]
    assert tensor_bytes(rows[0]) == tensor_bytes(rows[1])
    assert tensor_bytes(tmp_path / "a") != tensor_bytes(tmp_path / "b")
    assert tensor_bytes(rows[0]) != tensor_bytes(shared("c", "instahide"))


@pytest.mark.parametrize("way", ["averaged", "instahide"])
def test_each_system_takes_the_rows_of_the_other(averaged_round, train, tmp_path, way):
    """FedCA (SimCLR) with encrypted rows, FCL (MoCo) with averaged ones; two rounds."""
    out = ("--features-out", tmp_path / "f{client}", "--share-rows", way, *SIZE)
    train("c{client}", *out, "--private-out", tmp_path / "k{client}", clients="0-2")
    models, rows = ([tmp_path / f"{k}{client}" for client in range(3)] for k in "cf")
    assert furlkit("aggregate", *models, "-o", tmp_path / "g") == 0
    pool = ("aggregate", "--rule", "dictionary", *SIZE, *rows, "-o", tmp_path / "d")
    assert furlkit(*pool) == 0
    bank = read_features(tmp_path / "d")
    assert len(bank.rows) == 30
    assert bank.facts.share_rows == (None if way == "averaged" else way)
    name, given = (averaged_round / "objective").read_text(), {"model": tmp_path / "g"}
    kept = ("--private", tmp_path / "k0", "--private-out", tmp_path / "k")
    plain = epoch_losses(train("a", *kept, **given))[-1][name]
    bank = ("--dictionary", tmp_path / "d", "--leave-own-out")
    assert epoch_losses(train("b", *kept, *bank, **given))[-1][name] > plain


@pytest.fixture
def bank(averaged_round, train, tmp_path):
    """Encrypted rows of three clients, 10 of each; the global model g is beside them."""
    out = ("--features-out", tmp_path / "f{client}", "--share-rows", "instahide", *SIZE)
    train("c{client}", *out, clients="0-2")
    models, rows = ([tmp_path / f"{k}{client}" for client in range(3)] for k in "cf")
    assert furlkit("aggregate", *models, "-o", tmp_path / "g") == 0
    pool = ("aggregate", "--rule", "dictionary", *SIZE, *rows, "-o", tmp_path / "d")
    assert furlkit(*pool) == 0
    return tmp_path / "d"


def test_without_a_bank_all_negatives_are_local_to_the_bit(train):
    plain = train("a").read_bytes()
    for way in ("fused", "remote", "local"):
        assert train(way, "--negatives", way).read_bytes() == plain


def test_which_negatives_a_client_takes_of_a_bank(averaged_round, train, bank):
    model = bank.with_name("g")
    given = ("--dictionary", bank, "--leave-own-out", "--negatives")
    ways = ("fused", "remote", "local")
    found = {way: train(way, *given, way, model=model) for way in ways}
    usual, none = train("usual", *given[:-1], model=model), train("none", model=model)
    assert usual.read_bytes() == found["fused"].read_bytes()
    assert tensor_bytes(none) == tensor_bytes(found["local"])
    name = (averaged_round / "objective").read_text()
    losses = {way: epoch_losses(path)[-1][name] for way, path in found.items()}
    assert losses["fused"] > max(losses["remote"], losses["local"])
    assert losses["remote"] != losses["local"]
    recorded = [Container(found[way]).header.options.get("negatives") for way in ways]
    assert recorded == [None, "remote", "local"]


MATCH = ("--neighbours", 3, "--neighbour-candidates", 12)


def test_neighbours_are_a_term_of_their_own_that_leaves_all_draws_alone(
    averaged_round, train, bank
):
    """With a weight of 0 the model is that without the term, to the bit."""
    given = ("--dictionary", bank, "--leave-own-out")
    model, name = bank.with_name("g"), (averaged_round / "objective").read_text()
    plain = train("plain", *given, model=model)
    still = train("still", *given, *MATCH, "--neighbour-weight", 0, model=model)
    assert tensor_bytes(still) == tensor_bytes(plain)
    matched = train("matched", *given, *MATCH, model=model)
    losses = epoch_losses(matched)[-1]
    assert losses.keys() == {name, "neighbours"}
    assert 0 < losses["neighbours"] <= 0.1 * np.log(12 - 3 + 1)
    assert tensor_bytes(matched) != tensor_bytes(plain)


def test_neighbours_draw_images_nearer_to_the_bank(train, bank):
    given = ("--dictionary", bank, "--leave-own-out", "--epochs", 5, *MATCH)
    given += ("--lr", 0.01, "--batch-size", 60)
    found = [
        epoch_losses(train(f"w{weight}", *given, "--neighbour-weight", weight,
                           model=bank.with_name("g")))
        for weight in (1e-9, 10)
    ]  # fmt: skip
    still, drawn = found[0][-1]["neighbours"] / 1e-9, found[1][-1]["neighbours"] / 10
    assert drawn < 0.9 * still


def test_a_training_with_a_bank_and_neighbours_is_resumed_with_the_same_bytes(
    averaged_round, train, bank, tmp_path, until_done
):
    name, given = (
        (averaged_round / "objective").read_text(),
        ("--dictionary", bank, *MATCH),
    )
    given += ("--negatives", "remote", "--save-every", 0, "--batch-size", 100)
    given += ("--private-out", tmp_path / "k", "--epochs", 2)
    words = [
        "local-train",
        averaged_round / "p",
        tmp_path / "g",
        *DIGITS,
        "--client",
        0,
        "-q",
    ]
    words += ["--objective", name, *given, "-o", tmp_path / "c"]
    assert furlkit(*words) == 0
    files = [tmp_path / "c", tmp_path / "k"]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    assert until_done(loop.Trainer, "step", *words) == 4
    assert [path.read_bytes() for path in files] == before


def test_a_pool_of_rows_made_in_different_ways_is_named(shared, train, tmp_path, run):
    one = shared("a", "instahide")
    out = ("--features-out", tmp_path / "f", "--share-rows", "plain", *SIZE)
    train("b", *out, clients="1")
    words = ("aggregate", "--rule", "dictionary", one, tmp_path / "f")
    done = run(*words, "-o", tmp_path / "d")
    assert done.code == 0 and str(one) in done.err and "--share-rows" in done.err
    assert read_features(tmp_path / "d").facts.share_rows == "instahide, plain"
    said = json.loads(run("inspect", tmp_path / "d", "--json").out)["summary"]
    assert "Carlini" in said and "single images" in said


def test_rows_are_the_same_after_a_kill(averaged_round, train, tmp_path, until_done):
    out = ("--features-out", tmp_path / "f", "--share-rows", "instahide", *SIZE)
    expected = train("c", *out, "--save-every", 0)
    before = [path.read_bytes() for path in (expected, tmp_path / "f")]
    for path in (expected, tmp_path / "f"):
        path.unlink()
    words = [
        "local-train",
        averaged_round / "p",
        averaged_round / "g0",
        *DIGITS,
        "--client",
        0,
    ]
    words += ["--objective", (averaged_round / "objective").read_text(), "--epochs", 1]
    if "moco" in words:
        words += ["--send", "encoder,projector,target"]
    words += ["--batch-size", 240, "-q", *out, "--save-every", 0, "-o", expected]
    assert until_done(loop.Trainer, "step", *words) >= 1
    assert [path.read_bytes() for path in (expected, tmp_path / "f")] == before


@pytest.mark.parametrize(
    "more, code, words",
    [
        (("--share-rows", "instahide"), 2, ("--features-out",)),
        (("--objective", "rotation", "--negatives", "remote"), 2,
         ("--negatives", "rotation")),
        (("--objective", "rotation", "--neighbours", 5), 2, ("--neighbours", "rotation")),
        (("--features-out", "f", "--share-rows", "plain", "--alpha", 0.5), 2,
         ("--alpha", "--share-rows plain")),
    ],
)  # fmt: skip
def test_rows_that_cannot_be(averaged_round, refused, tmp_path, more, code, words):
    train = (
        "local-train",
        averaged_round / "p",
        averaged_round / "g0",
        *DIGITS,
        "--client",
        0,
    )
    refused(tmp_path, code, words, *train, *more, "-o", tmp_path / "c")


def test_own_rows_need_rows_that_are_kept(averaged_round, refused, tmp_path):
    name = (averaged_round / "objective").read_text()
    words = (
        "local-train",
        averaged_round / "p",
        averaged_round / "g0",
        *DIGITS,
        "--client",
        0,
    )
    words += ("--objective", name, "--dictionary-positive", "own", "--features-out")
    words += (tmp_path / "f", "--share-rows", "instahide", "-o", tmp_path / "c")
    said = "--share-rows instahide" if name == "simclr" else "--objective moco"
    refused(tmp_path, 2, [said], *words)


def test_a_client_of_too_few_images_for_a_mixture(tmp_path, refused):
    np.savez(tmp_path / "few.npz", images=np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8, 1))  # fmt: skip
    data = ("--data", tmp_path / "few.npz")
    assert furlkit("partition", *data, "--clients", 1, "-o", tmp_path / "p") == 0
    net = ("--width", 0.02, "--projector", "8,4")
    assert furlkit("init", *data, *net, "-o", tmp_path / "g") == 0
    words = ("local-train", tmp_path / "p", tmp_path / "g", *data, "--client", 0)
    words += ("--features-out", tmp_path / "f", "--share-rows", "mixup")
    words += ("--batch-size", 2, "-o", tmp_path / "c")
    refused(tmp_path, 65, ["3 images", "mixup"], *words)


def test_a_bank_for_one_client_trains_it_as_the_full_bank_without_its_rows(
    averaged_round, train, run, tmp_path
):
    """The server leaves the rows out, or the client does: the same bytes."""
    out = ("--features-out", tmp_path / "f{client}", "--share-rows", "plain", *SIZE)
    train("c{client}", *out, clients="0-2")
    rows = [tmp_path / f"f{client}" for client in range(3)]
    models = [tmp_path / f"c{client}" for client in range(3)]
    assert run("aggregate", *models, "-o", tmp_path / "g").code == 0
    pool = ("aggregate", "--rule", "dictionary", *SIZE, *rows)
    assert run(*pool, "-o", tmp_path / "all").code == 0
    done = run(*pool, "--for", 1, "-o", tmp_path / "for1")
    assert done.code == 0 and "without those of client 1" in done.out
    full, made = read_features(tmp_path / "all"), read_features(tmp_path / "for1")
    assert made.facts.made_for == 1 and made.facts.owners == [[0, 10], [1, 0], [2, 10]]
    assert made.rows.tobytes() == rows_of_others(full, 1).tobytes()
    given = {"model": tmp_path / "g", "clients": "1"}
    local = train("l", "--dictionary", tmp_path / "all", "--leave-own-out", **given)
    for name, more in (("s", ()), ("t", ("--leave-own-out",))):
        server = train(name, "--dictionary", tmp_path / "for1", *more, **given)
        assert epoch_losses(server) == epoch_losses(local)
        assert tensor_bytes(server) == tensor_bytes(local)
    train("x", "--dictionary", tmp_path / "for1", model=tmp_path / "g", code=65)
    assert run(*pool, "--for", 2, "-o", tmp_path / "for2").code == 0
    both = ("--dictionary", tmp_path / "for{client}")
    train("both{client}", *both, model=tmp_path / "g", clients="1-2")
    assert tensor_bytes(tmp_path / "both1") == tensor_bytes(local)
    received = (averaged_round / "g0", tmp_path / "g", tmp_path / "for1")
    (tmp_path / "run").mkdir()
    for path in (*rows, *models, *received, server):
        shutil.copy(path, tmp_path / "run" / f"{path.name}.safetensors")
    told = json.loads(run("ledger", tmp_path / "run", "--json").out)
    (cell,) = [each for each in told["cells"] if each["round"] == 2]
    bank = cell["received"]["kinds"]["features"]
    assert bank["bytes"] == (tmp_path / "for1").stat().st_size
    assert bank["payload"] == made.rows.nbytes + made.index.nbytes


def test_for_needs_a_client(averaged_round, refused, tmp_path):
    given = ("--rule", "dictionary", tmp_path / "f0", "--for", "../x")
    refused(tmp_path, 2, ["--for"], "aggregate", *given, "-o", tmp_path / "d")
