"""FedBN by the command line: loops, properties, two rounds that are scored."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.private import read_private
from furlkit.inputs.own import own_model
from furlkit.models.loading import batchnorm_names, load_net
from tests.helpers import digest, few_digits, furlkit

KEEP = ("--keep-norms",)
NET = ("--width", 0.05, "--projector", "8,4")


def tensors(path):
    return read_checkpoint(path).tensors


def train(folder, model, number, *more, clients="0-2"):
    words = ("local-train", folder / "p", model, "--data", folder / "d.npz", "-q")
    fast = ("--epochs", 1, "--batch-size", 20, "--client", clients)
    out = ("--private-out", folder / f"k{number}_{{client}}")
    return (*words, *fast, *more, *out, "-o", folder / f"u{number}_{{client}}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two rounds of three clients, whose BatchNorm layers stay with them."""
    folder = few_digits(tmp_path_factory.mktemp("fedbn"), 3, NET)
    for number in (1, 2):
        model, kept = folder / f"g{number - 1}", ()
        if number == 2:
            kept = ("--private", folder / "k1_{client}")
        assert furlkit(*train(folder, model, number, *KEEP, *kept)) == 0
        uploads = [folder / f"u{number}_{k}" for k in range(3)]
        out = ("-q", "-o", folder / f"g{number}")
        assert furlkit("aggregate", *uploads, *out) == 0
    return folder


def test_tensors_of_batchnorm_layers_are_found_by_type_not_by_name():
    net = nn.ModuleDict({
        "bn": nn.Linear(2, 2), "a": nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)),
        "b": nn.BatchNorm1d(3, affine=False), "c": nn.GroupNorm(1, 2),
    })  # fmt: skip
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    expected = {f"a.1.{name}" for name in ("weight", "bias", *statistics)}
    assert batchnorm_names(net) == expected | {f"b.{name}" for name in statistics}


def test_no_file_of_the_server_has_a_tensor_of_a_batchnorm_layer(folder):
    start = read_checkpoint(folder / "g0")
    kept = batchnorm_names(load_net(start, torch.device("cpu")))
    assert kept and kept < start.tensors.keys()
    for number in (1, 2):
        for name in (f"g{number}", *(f"u{number}_{k}" for k in range(3))):
            assert tensors(folder / name).keys() == start.tensors.keys() - kept
        for k in range(3):
            assert kept <= read_private(folder / f"k{number}_{k}").tensors.keys()


def test_the_first_round_differs_from_fedavg_only_in_the_tensors_sent(folder):
    words = train(folder, folder / "g0", 9, clients=1)
    assert furlkit(*words) == 0
    whole = tensors(folder / "u9_1")
    private = read_private(folder / "k1_1").tensors
    together = {**tensors(folder / "u1_1"), **private}
    assert together.keys() == whole.keys()
    assert all(np.array_equal(together[name], whole[name]) for name in whole)


def test_a_client_s_round_starts_from_the_mean_and_the_client_s_layers(folder):
    """Algorithm 1 in loops: w_k <- mean over clients, except BatchNorm layers."""
    sizes = [60, 60, 60]
    uploads = [tensors(folder / f"u1_{k}") for k in range(3)]
    for k in range(3):
        private = read_private(folder / f"k1_{k}")
        found = own_model(read_checkpoint(folder / "g1"), private).tensors
        for name, array in found.items():
            if name in private.tensors:
                assert np.array_equal(array, private.tensors[name])
            else:
                total = sum(n * u[name] for n, u in zip(sizes, uploads, strict=True))
                np.testing.assert_allclose(array, total / 180, atol=1e-6)
    # An epoch at almost no learning rate changes only statistics.
    still = ("--lr", 1e-30, "--private", folder / "k1_{client}", *KEEP)
    assert furlkit(*train(folder, folder / "g1", 8, *still, clients=2)) == 0
    after = {**read_private(folder / "k8_2").tensors, **tensors(folder / "u8_2")}
    for name in after:
        if "running" not in name and "num_batches" not in name:
            np.testing.assert_allclose(after[name], found[name], atol=1e-7)


def test_a_client_that_joins_later_starts_from_new_layers(folder):
    out = ("local-train", folder / "p", folder / "g1", "--data", folder / "d.npz", "-q")
    more = ("--epochs", 1, "--batch-size", 20, "--client", 0, "--lr", 1e-30, *KEEP)
    files = ("--private-out", folder / "k_new", "-o", folder / "u_new")
    assert furlkit(*out, *more, *files) == 0
    private = read_private(folder / "k_new").tensors
    weights = [v for k, v in private.items() if k.endswith(".weight")]
    assert weights and all((weight == 1).all() for weight in weights)


def test_a_target_s_layers_stay_too(folder):
    net = (*NET, "--predictor", "8,4", "--objective", "byol")
    data = ("--data", folder / "d.npz")
    assert furlkit("init", *data, *net, "-o", folder / "b0") == 0
    send = ("--objective", "byol", "--send", "encoder,projector,predictor,target")
    words = train(folder, folder / "b0", 7, *KEEP, *send, clients=0)
    assert furlkit(*words) == 0
    sent, kept = tensors(folder / "u7_0"), read_private(folder / "k7_0").tensors
    assert "target.encoder.conv1.weight" in sent
    assert not any(".bn1." in name for name in sent)
    assert {"encoder.bn1.weight", "target.encoder.bn1.weight"} <= kept.keys()


def test_personal_models_are_scored_and_the_server_s_is_refused(folder, run):
    data = ("--data", folder / "d.npz", "--test-data", folder / "t.npz")
    data += ("--epochs", 20, "--lr", 0.1, "--probes", 2)
    private = [folder / f"k2_{k}" for k in range(3)]
    words = ("evaluate", "personal", folder / "p", folder / "g2", *private, *data)
    assert furlkit(*words, "-q", "-o", folder / "own.json") == 0
    found = json.loads((folder / "own.json").read_text())
    assert len(found["clients"]) == 3 and found["accuracy"] > 0.2
    outcome = run("evaluate", "linear", folder / "g2", *data, "-o", folder / "no")
    assert outcome.code == 65
    assert str(folder / "g2") in outcome.err and "evaluate personal" in outcome.err


def test_a_client_that_does_not_keep_layers_refuses_the_model(folder, refused):
    words = train(folder, folder / "g1", 6, clients=0)
    refused(folder, 65, [str(folder / "g1"), "lacks"], *words)


def test_options_that_do_not_fit(folder, refused):
    words = ("local-train", folder / "p", folder / "g0", "--data", folder / "d.npz")
    out = ("--client", 0, *KEEP, "-o", folder / "no")
    refused(folder, 2, ["--keep-norms", "--private-out"], *words, *out)
    scaffold = ("--scaffold", "--optimiser", "sgd", "--momentum", 0)
    more = (*scaffold, "--private-out", folder / "n")
    refused(folder, 2, ["--scaffold", "--keep-norms"], *words, *more, *out)


def test_a_repeated_command_changes_nothing(folder, run):
    before = digest(folder / "u1_0")
    words = train(folder, folder / "g0", 1, *KEEP, clients=0)
    assert "already there" in run(*words).out and digest(folder / "u1_0") == before
