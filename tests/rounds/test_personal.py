"""Parts that leave a client and parts that stay: FedPer, FedRep, and every preset."""

import numpy as np
import pytest

from furlkit import presets
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.private import read_private
from furlkit.weights import PRIVATE, is_batchnorm_statistic, part_of, within
from tests.helpers import epochs, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
NET = ("--width", 0.02, "--projector", "8,4", "--predictor", "8,4")
FAST = (*DIGITS, "--batch-size", 96)
# So small a step that float32 weights stay as they are.
STILL = ("--epochs", 1, "--optimiser", "sgd", "--lr", 1e-30, "--weight-decay", 0)
PER = ("--send", "encoder")


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("personal")
    assert furlkit("partition", *DIGITS, "--clients", 3, "-o", folder / "p") == 0
    assert furlkit("init", *DIGITS, *NET, "-o", folder / "g0") == 0
    return folder


@pytest.fixture
def train(round_of_files, tmp_path):
    def run(name, *more, model=round_of_files / "g0", client=0):
        out = ("--private-out", tmp_path / f"{name}_k", "-o", tmp_path / name)
        words = ("local-train", round_of_files / "p", model, "--client", client, *FAST)
        return furlkit(*words, *more, *out)

    return run


@pytest.fixture
def second(round_of_files, train, tmp_path):
    """A first round of FedPer with clients 0 and 1; gives the global model."""
    for client in (0, 1):
        assert train(f"c{client}", *PER, "--epochs", 1, client=client) == 0
    clients = (tmp_path / "c0", tmp_path / "c1")
    assert furlkit("aggregate", *clients, "-o", tmp_path / "g1") == 0
    return tmp_path / "g1"


def weights(tensors, part):
    return {
        name: array
        for name, array in tensors.items()
        if part_of(name) == part and not is_batchnorm_statistic(name)
    }


def same(one, other):
    assert one.keys() == other.keys() and one
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_a_fedper_upload_holds_the_encoder_alone(second, tmp_path):
    upload, private = (
        read_checkpoint(tmp_path / "c0"),
        read_private(tmp_path / "c0_k", 0),
    )
    assert {part_of(name) for name in upload.tensors} == {"encoder"}
    assert upload.facts.parts == ["encoder"]
    assert private.facts.parts == ["encoder", "projector"]  # statistics of the encoder
    assert weights(private.tensors, "encoder") == {}
    assert read_checkpoint(second).facts.parts == ["encoder"]
    assert "projector" in upload.facts.architecture["heads"]


def test_a_client_continues_with_the_global_encoder_and_its_own_projector(
    second, train, tmp_path
):
    own = ("--private", tmp_path / "c1_k")
    assert train("d1", *PER, *STILL, *own, model=second, client=1) == 0
    upload, kept = read_checkpoint(tmp_path / "d1"), read_private(tmp_path / "d1_k", 1)
    before = read_private(tmp_path / "c1_k", 1)
    others = read_private(tmp_path / "c0_k", 0)
    shared = read_checkpoint(second).tensors
    assert same(weights(upload.tensors, "encoder"), weights(shared, "encoder"))
    projectors = [weights(k.tensors, "projector") for k in (kept, before, others)]
    assert same(projectors[0], projectors[1])
    assert not same(projectors[0], projectors[2])


def test_a_client_that_has_no_projector_draws_one_from_the_seed(
    second, train, tmp_path
):
    for name, client, seed in (("a", 2, 0), ("b", 2, 0), ("c", 1, 0), ("d", 2, 1)):
        more = (*PER, *STILL, "--seed", seed)
        assert train(name, *more, model=second, client=client) == 0
    found = [
        weights(read_private(tmp_path / f"{name}_k", client).tensors, "projector")
        for name, client in (("a", 2), ("b", 2), ("c", 1), ("d", 2))
    ]
    assert same(found[0], found[1])
    assert not same(found[0], found[2]) and not same(found[0], found[3])


def test_a_global_model_of_some_parts_is_evaluated_and_exported(second, tmp_path, run):
    for protocol in ("knn", "linear"):
        words = ("evaluate", protocol, second, *DIGITS, "-o", tmp_path / protocol)
        assert furlkit(*words) == 0
    assert furlkit("export", second, "-o", tmp_path / "encoder") == 0
    words = ("embed", second, *DIGITS, "--layer", "z", "-o", tmp_path / "z")
    done = run(*words)
    assert done.code == 65 and "projector" in done.err and str(second) in done.err


def test_sending_every_part_is_fedavg_to_the_bit(train, tmp_path):
    assert train("a", "--epochs", 1) == 0
    assert train("b", "--epochs", 1, "--send", "projector,encoder") == 0
    assert tensor_bytes(tmp_path / "a") == tensor_bytes(tmp_path / "b")


def test_fedrep_trains_the_projector_first_and_then_the_encoder(
    round_of_files, train, tmp_path
):
    phases = ("--phases", "projector:2,encoder:1")
    assert train("c", *PER, *phases) == 0
    assert [line["epoch"] for line in epochs(tmp_path / "c")] == [1, 2, 3]
    header = read_checkpoint(tmp_path / "c").header
    assert header.options["phases"] == "projector:2,encoder:1"
    assert header.options["epochs"] == 3
    # The projector's epochs alone leave the encoder as it was, statistics included.
    assert train("g", *PER, "--phases", "projector:2") == 0
    start = read_checkpoint(round_of_files / "g0").tensors
    alone = read_checkpoint(tmp_path / "g").tensors
    assert all(np.array_equal(alone[name], start[name]) for name in alone)


def test_a_head_that_no_phase_trains_is_a_warning(round_of_files, tmp_path, run):
    """FedRep of a loss with a predictor, which belongs to g."""
    model = ("init", *DIGITS, *NET, "--objective", "simsiam", "-o", tmp_path / "g")
    assert furlkit(*model) == 0
    words = (
        "local-train",
        round_of_files / "p",
        tmp_path / "g",
        "--client",
        0,
        *FAST,
        *PER,
    )
    words += ("--objective", "simsiam", "--private-out", tmp_path / "k", "--dry-run")
    for heads, warned in (("projector", True), ("projector+predictor", False)):
        phases = ("--phases", f"{heads}:1,encoder:1", "-o", tmp_path / "c")
        done = run(*words, *phases)
        assert done.code == 0 and ("projector+predictor:5" in done.err) == warned


@pytest.mark.parametrize(
    "more, words",
    [
        (("--send", "encoder,tail"), ("--send tail", "encoder", "projector")),
        (("--phases", "projector"), ("--phases",)),
        (("--phases", "projector:0"), ("--phases",)),
        (("--phases", "tail:1"), ("--phases tail", "projector")),
        (("--phases", "projector:1", "--epochs", 2), ("--epochs", "--phases")),
    ],
)
def test_wrong_parts_and_phases(round_of_files, train, capsys, more, words):
    capsys.readouterr()
    assert train("c", *more) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in words), err


def test_what_is_not_sent_needs_a_place(round_of_files, tmp_path, run):
    words = (
        "local-train",
        round_of_files / "p",
        round_of_files / "g0",
        "--client",
        0,
        *FAST,
        *PER,
    )
    done = run(*words, "-o", tmp_path / "c")
    assert done.code == 2 and "--private-out" in done.err and "projector" in done.err


SYSTEMS = [name for name in presets.names() if "local-train" in presets.tables(name)]


@pytest.mark.parametrize("name", SYSTEMS)
def test_sent_and_kept_are_disjoint_under_every_preset(round_of_files, tmp_path, name):
    """All but a copy of BatchNorm statistics, and of the last weights for an update."""
    small = ("--encoder", "cnn5", *NET)
    model = ("init", *DIGITS, "--preset", name, *small, "-o", tmp_path / "g")
    assert furlkit(*model) == 0
    length = () if "phases" in presets.tables(name)["local-train"] else ("--epochs", 1)
    train = (
        "local-train",
        round_of_files / "p",
        tmp_path / "g",
        *DIGITS,
        "--preset",
        name,
    )
    if "beta" in presets.tables(name)["local-train"]:
        targets = ("--data", "digits", "--epochs", 1, "--images", 50, "--preset", name)
        made = ("--targets-out", tmp_path / "t", "-o", tmp_path / "a")
        assert furlkit("pretrain-align", tmp_path / "g", *targets, *made) == 0
        length += ("--align", tmp_path / "t", "--align-data", "digits")
    if "infusion" in presets.tables(name)["local-train"]:
        # The printed z of `fedstyle` diverges.
        style = (*DIGITS, "--preset", name, "--epochs", 1, "--client", 0, "--normalise")
        files = (round_of_files / "p", tmp_path / "g", *style, "-o", tmp_path / "s")
        assert furlkit("pretrain-style", *files) == 0
        length += ("--private", tmp_path / "s")
    if {"alpha", "share-rows"} & presets.tables(name)["local-train"].keys():
        length += ("--features-out", tmp_path / "f")
    if "local-centroids" in presets.tables(name)["local-train"]:
        length += ("--centroids-out", tmp_path / "m")
    files = ("--private-out", tmp_path / "k", "-o", tmp_path / "c")
    assert furlkit(*train, "--client", 0, *length, *files) == 0
    upload = read_checkpoint(tmp_path / "c").tensors
    private = read_private(tmp_path / "k", 0).tensors
    kept = {k for k in private if not is_batchnorm_statistic(k)}
    assert not {k for k in kept if not k.startswith("last.")} & upload.keys()
    assert not any(within(part_of(name), PRIVATE) for name in upload)
