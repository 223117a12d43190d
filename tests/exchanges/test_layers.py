"""Training by layers: uploads of some layers, completed at the server."""

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.progress import ProgressFile
from furlkit.reports.ledger import read_ledger
from tests.helpers import digest, furlkit, save_digits

LAYERS = "conv3,bn3"
CHOSEN = ("encoder.conv3.", "encoder.bn3.")


def train(folder, *more, layers=LAYERS, output="c{client}", model="g0"):
    name = f"{output}.safetensors"
    words = ("local-train", folder / "p", folder / f"{model}.safetensors", "-q")
    fast = ("--data", folder / "d.npz", "--epochs", 1, "--batch-size", 20)
    return (*words, *fast, "--train-layers", layers, *more, "-o", folder / name)


def complete(folder, output, *more, parent="g0"):
    uploads = [folder / f"c{client}.safetensors" for client in (0, 1)]
    start = ("--parent", folder / f"{parent}.safetensors")
    return (
        "aggregate",
        *uploads,
        *start,
        *more,
        "-o",
        folder / f"{output}.safetensors",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    save_digits(folder, 80, 20)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", 2, "-o", folder / "p") == 0
    net = (*data, "--width", 0.05, "--projector", "8,4", "--predictor", "8,4")
    net += ("--objective", "byol")
    assert furlkit("init", *net, "-o", folder / "g0.safetensors") == 0
    assert furlkit(*train(folder, "--client", "0-1", "--objective", "byol")) == 0
    assert furlkit(*complete(folder, "g1", "--complete")) == 0
    return folder


def tensors(folder, name):
    return read_checkpoint(folder / f"{name}.safetensors").tensors


def test_an_upload_has_the_trained_layers_and_the_heads(folder):
    start, upload = tensors(folder, "g0"), tensors(folder, "c0")
    heads = {name for name in start if not name.startswith("encoder.")}
    assert {*upload} == heads | {name for name in start if name.startswith(CHOSEN)}
    assert not np.array_equal(
        upload["encoder.conv3.weight"], start["encoder.conv3.weight"]
    )


def test_the_server_s_model_is_whole_and_other_layers_are_unchanged(folder):
    start, result = tensors(folder, "g0"), tensors(folder, "g1")
    assert result.keys() == start.keys()
    for name, array in start.items():
        own = name.startswith("encoder.") and not name.startswith(CHOSEN)
        if own:  # Also the statistics of BatchNorm.
            assert np.array_equal(result[name], array), name
    mean = (tensors(folder, "c0")["encoder.conv3.weight"]
            + tensors(folder, "c1")["encoder.conv3.weight"]) / 2  # fmt: skip
    np.testing.assert_allclose(result["encoder.conv3.weight"], mean, atol=1e-6)
    assert furlkit("evaluate", "knn", folder / "g1.safetensors", "--data",
                   folder / "d.npz", "--test-data", folder / "d.npz",
                   "-o", folder / "k.json") == 0  # fmt: skip


def test_the_other_layers_take_no_part_in_training(folder, tmp_path):
    """All layers, named one by one, give the upload of a training without the option."""
    start = tensors(folder, "g0")
    every = ",".join({n.split(".")[1] for n in start if n.startswith("encoder.")})
    one = ("--client", 0, "--objective", "byol")
    assert furlkit(*train(folder, *one, layers=every, output="all")) == 0
    words = [w for w in train(folder, *one, output="plain") if w != "--train-layers"]
    assert furlkit(*[word for word in words if word != LAYERS]) == 0
    whole, plain = tensors(folder, "all"), tensors(folder, "plain")
    assert whole.keys() == plain.keys()
    assert all(np.array_equal(whole[name], array) for name, array in plain.items())


def test_fewer_bytes_are_sent(folder):
    transfers = read_ledger([folder]).transfers
    sent = [t.file.size for t in transfers if t.direction == "sent" and t.round == 1]
    whole = (folder / "g0.safetensors").stat().st_size
    assert sent and max(sent) < 0.5 * whole


def test_a_killed_client_sends_the_same_bytes(folder, until_done):
    more = ("--client", 0, "--objective", "byol", "--save-every", 0)
    assert until_done(ProgressFile, "save", *train(folder, *more, output="again")) > 0
    assert digest(folder / "again.safetensors") == digest(folder / "c0.safetensors")


def test_a_completed_model_is_made_again_by_replay(folder, run, tmp_path):
    words = ("replay", folder / "g1.safetensors", "--depth", 1, "--run")
    outcome = run(*words, "--into", tmp_path)
    assert outcome.code == 0 and "same bytes" in outcome.out, outcome.err


@pytest.mark.parametrize("more, code, word", [
    (("--personal", "ditto", "--private-out", "k"), 2, "--personal"),
    (("--scaffold", "--optimiser", "sgd", "--momentum", 0, "--private-out", "k"), 2,
     "--scaffold"),
])  # fmt: skip
def test_methods_that_need_all_layers_are_refused(folder, run, more, code, word):
    outcome = run(*train(folder, "--client", 0, *more, output="x"))
    assert outcome.code == code and word in outcome.err
    assert not (folder / "x.safetensors").exists()


def test_an_unknown_layer_is_refused_with_the_known_layers(folder, run):
    outcome = run(*train(folder, "--client", 0, layers="layer9", output="x"))
    assert outcome.code == 65 and "layer9" in outcome.err and "conv1" in outcome.err


def test_the_start_is_needed_to_complete(folder, run):
    words = [w for w in complete(folder, "x", "--complete") if w != "--parent"]
    words.remove(folder / "g0.safetensors")
    outcome = run(*words)
    assert outcome.code == 2 and "--parent" in outcome.err
    alone = complete(folder, "part")
    outcome = run(*alone)
    assert outcome.code == 65 and "--complete" in outcome.err
    start = alone.index("--parent")
    assert furlkit(*alone[:start], *alone[start + 2 :]) == 0
    outcome = run(*train(folder, "--client", 0, output="x", model="part"))
    assert outcome.code == 65 and "lacks" in outcome.err
