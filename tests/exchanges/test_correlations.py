"""FedSC by the command line: two rounds in which clients share correlations."""

import json

import numpy as np
import pytest

from furlkit.files.container.read import Container
from furlkit.files.declared import read_shared
from furlkit.files.features import read_features
from furlkit.files.private import read_private
from furlkit.files.progress import ProgressFile
from furlkit.reports.ledger import read_ledger
from tests.helpers import digest, epoch_losses, furlkit, save_digits


def read_matrix(path):
    return read_shared(path, "correlations").tensors["R"]


FEDSC = ("--objective", "spectral", "--norm-bound", 1.5)


def train(folder, model, number, *more, clients="0-2"):
    words = ("local-train", folder / "p", model, "--data", folder / "d.npz", "-q")
    fast = (*FEDSC, "--epochs", 2, "--batch-size", 30, "--client", clients)
    shared = ("--correlations-out", folder / f"R{number}_{{client}}")
    kept = ("--private-out", folder / f"k{number}_{{client}}")
    return (
        *words,
        *fast,
        *shared,
        *kept,
        *more,
        "-o",
        folder / f"u{number}_{{client}}",
    )


def received(folder):
    return ("--correlations", folder / "R1", "--private", folder / "k1_{client}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("correlations")
    save_digits(folder, 180, 60)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", 3, "-o", folder / "p") == 0
    net = ("--width", 0.05, "--projector", "8,4")
    assert furlkit("init", *data, *net, "-o", folder / "g0") == 0
    for number in (1, 2):
        more = received(folder) if number == 2 else ()
        assert furlkit(*train(folder, folder / f"g{number - 1}", number, *more)) == 0
        for name, rule in (("u", ()), ("R", ("--rule", "correlations"))):
            files = [folder / f"{name}{number}_{k}" for k in range(3)]
            out = folder / (f"g{number}" if name == "u" else f"R{number}")
            assert furlkit("aggregate", *rule, *files, "-q", "-o", out) == 0
    return folder


def test_a_client_shares_the_correlations_of_its_images_by_its_model(folder):
    data = ("--data", folder / "d.npz", "--partition", folder / "p", "--part", 1)
    words = ("embed", folder / "u1_1", *data, "--layer", "z", "-q")
    assert furlkit(*words, "-o", folder / "all") == 0
    total = np.zeros((4, 4))
    for z in read_features(folder / "all").rows.astype(float):
        z *= min(1.0, 1.5**0.5 / np.linalg.norm(z))
        total += np.outer(z, z) / 60
    shared = read_matrix(folder / "R1_1")
    np.testing.assert_allclose(shared, total, atol=1e-5)
    assert np.array_equal(
        read_private(folder / "k1_1", 1).memory["correlations"], shared
    )


def test_the_server_writes_the_mean(folder):
    R = [read_matrix(folder / f"R1_{k}") for k in range(3)]
    mean = read_shared(folder / "R1", "correlations")
    np.testing.assert_allclose(mean.tensors["R"], sum(R) / 3, atol=1e-7)
    assert mean.facts.clients == 3 and mean.facts.round == 1


def test_the_second_round_contrasts_with_the_other_clients(folder):
    content = Container(folder / "R1").content
    assert Container(folder / "u2_0").header.inputs["correlations"] == content
    alone = ("--private", folder / "k1_{client}", "--force")
    assert furlkit(*train(folder, folder / "g1", 4, *alone, clients=0)) == 0
    with_others, without = (epoch_losses(folder / name)[0] for name in ("u2_0", "u4_0"))
    assert with_others["spectral"] != without["spectral"]


def test_the_noise_is_symmetric_and_has_the_stated_size(folder):
    noisy = ("--correlations-noise", 0.5)
    words = train(folder, folder / "g0", 5, *noisy, clients="0-2")
    assert furlkit(*words) == 0
    pairs = [(read_matrix(folder / f"R{n}_{k}") for n in (5, 1)) for k in range(3)]
    noise = np.concatenate([(one - other)[np.tril_indices(4)] for one, other in pairs])
    assert 0.3 < noise.std() < 0.7


def test_a_client_killed_at_every_save_shares_the_same_bytes(folder, until_done):
    more = (*received(folder), "--save-every", 0)
    words = train(folder, folder / "g1", 3, *more, clients=0)
    assert until_done(ProgressFile, "save", *words) > 1
    for name in ("R", "u", "k"):
        assert digest(folder / f"{name}3_0") == digest(folder / f"{name}2_0")


def test_shared_correlations_are_made_again_by_replay(folder, run, tmp_path):
    among = ("--among", folder, "--data", folder / "d.npz")
    words = ("replay", folder / "R2_1", "--depth", 1, *among, "--run")
    outcome = run(*words, "--into", tmp_path)
    assert outcome.code == 0 and "same bytes" in outcome.out


def test_inspect_and_ledger_know_correlations(folder, run, tmp_path):
    assert "correlations of z over images" in run("inspect", folder / "R1_1").out
    assert "4 x 4 values, after round 1" in run("inspect", folder / "R1").out
    outgoing = run("inspect", "--outgoing", "--json", folder / "R1_1")
    about = json.loads(outgoing.out)
    assert about["numbers"] == 16 and about["told"]["client"] == 1, about
    assert "a single image" in about["recoverable"][0]["what"]
    kept = run("inspect", "--outgoing", folder / "k1_1")
    assert kept.code == 65  # A private file does not leave the client.
    for name in ("u1_0", "R1_0", "R1", "u2_0", "R2_0", "R2", "g1"):
        copy = tmp_path / f"{name}.safetensors"
        copy.write_bytes((folder / name).read_bytes())
    transfers = read_ledger([tmp_path]).transfers
    ways = {(t.client, t.round, t.direction, t.role) for t in transfers}
    assert (0, 1, "sent", "upload") in ways
    assert (0, 2, "received", "correlations") in ways


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--correlations", "R1_0"), 65, ["R1_0", "--rule correlations"]),
        (("--correlations", "R2"), 65, ["R2", "round 2"]),
    ],
)
def test_options_and_files_that_do_not_fit(folder, refused, more, code, words):
    more = [folder / word if str(word).startswith("R") else word for word in more]
    refused(folder, code, words, *train(folder, folder / "g1", 6, *more, clients=0))


def test_another_objective_is_refused(folder, run, tmp_path):
    words = ("local-train", folder / "p", folder / "g1", "--data", folder / "d.npz")
    more = ("--client", 0, "--correlations", folder / "R1", "-o", tmp_path / "x")
    outcome = run(*words, *more)
    assert outcome.code == 2 and "--objective spectral" in outcome.err


def test_the_server_refuses_a_mean_and_a_matrix_that_is_not_symmetric(
    folder, run, forge, tmp_path
):
    words = ("aggregate", "--rule", "correlations", folder / "R1_0")
    outcome = run(*words, folder / "R1", "-o", tmp_path / "x")
    assert outcome.code == 65 and "R1" in outcome.err
    broken = tmp_path / "broken"
    broken.write_bytes((folder / "R1_1").read_bytes())
    forge(broken, {"R": np.float32(np.arange(16).reshape(4, 4))})
    outcome = run(*words, broken, "-o", tmp_path / "x")
    assert outcome.code == 65 and "broken" in outcome.err and "symmetric" in outcome.err
