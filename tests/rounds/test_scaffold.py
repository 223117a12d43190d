"""SCAFFOLD by the command line: three rounds of two of three clients each."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private, write_private
from furlkit.files.progress import ProgressFile
from furlkit.models.loading import load_net, view_of
from furlkit.weights import below, is_batchnorm_statistic
from tests.helpers import digest, epochs, furlkit

N, K, ETA, ETA_G = 3, 3, 0.05, 0.8
ROUNDS = ((0, 1), (1, 2), (0, 2))
PLAIN = ("--optimiser", "sgd", "--momentum", 0, "--lr", ETA, "--weight-decay", 0)
# Every step has all images of a client, as they are.
WHOLE = ("--epochs", K, "--batch-size", 20, "--objective", "supervised",
         "--crop-scale", "1,1", "--flip", 0, "--jitter", "0,0,0,0", "--grey", 0,
         "--blur", 0)  # fmt: skip


def tensors(path):
    return read_checkpoint(path).tensors


def train(folder, model, clients, *more):
    words = ("local-train", folder / "p", folder / model, "--data", folder / "d.npz")
    return (*words, "--client", clients, *WHOLE, *PLAIN, *more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of three clients, and three rounds; v_K has client K's newest file."""
    folder = tmp_path_factory.mktemp("scaffold")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (60, 8, 8, 1), dtype=np.uint8)
    np.savez(folder / "d.npz", images=pixels, labels=np.arange(60) % 4)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", N, "-o", folder / "p") == 0
    net = ("--width", 0.02, "--objective", "supervised")
    assert furlkit("init", *data, *net, "-o", folder / "g0") == 0
    for number, chosen in enumerate(ROUNDS, 1):
        for k in chosen:
            private = [folder / f"v{r}_{k}" for r in range(1, number)]
            newest = [path for path in private if path.exists()][-1:]
            kept = ("--private", newest[0]) if newest else ()
            out = ("--private-out", folder / f"v{number}_{k}")
            words = train(folder, f"g{number - 1}", k, "--scaffold", *kept, *out)
            assert furlkit(*words, "-o", folder / f"u{number}_{k}") == 0
        assert furlkit(*average(folder, number), "-o", folder / f"g{number}") == 0
    return folder


def average(folder, number, rule="scaffold", clients=N):
    uploads = [folder / f"u{number}_{k}" for k in ROUNDS[number - 1]]
    more = ("--lr", ETA_G, "--clients", clients) if rule == "scaffold" else ()
    parent = ("--parent", folder / f"g{number - 1}")
    return ("aggregate", "--rule", rule, *more, *parent, *uploads)


def in_loops(folder):
    """Algorithm 1 with Option II: x and c after each round.

    Arithmetic of tensors by name; torch gives the gradients of one batch.
    """
    start = read_checkpoint(folder / "g0")
    net = load_net(start, torch.device("cpu")).train()
    partition = read_partition(folder / "p")
    view = view_of(start, Augmentation())
    data = np.load(folder / "d.npz")
    x = {name: p.detach().double() for name, p in net.named_parameters()}
    c = {name: torch.zeros_like(p) for name, p in x.items()}
    c_k = [dict(c) for _ in range(N)]
    for chosen in ROUNDS:
        delta_y, delta_c = [], []
        for k in chosen:
            index, cpu = partition.of(k), torch.device("cpu")
            own = Images(data["images"], data["labels"], index, view, cpu)
            batch = own.batch(torch.arange(len(own)), torch.Generator(), 0)
            images, labels, y = batch.plain(), batch.labels, dict(x)
            for _ in range(K):
                net.load_state_dict({n: v.float() for n, v in y.items()}, strict=False)
                net.zero_grad()
                F.cross_entropy(net.classifier(net.encoder(images)), labels).backward()
                g = {n: p.grad.double() for n, p in net.named_parameters()}
                for name in y:
                    y[name] = y[name] - ETA * (g[name] - c_k[k][name] + c[name])
            new = {n: c_k[k][n] - c[n] + (x[n] - y[n]) / (K * ETA) for n in x}
            delta_y.append({n: y[n] - x[n] for n in x})
            delta_c.append({n: new[n] - c_k[k][n] for n in x})
            c_k[k] = new
        S = len(chosen)
        x = {n: v + ETA_G / S * sum(d[n] for d in delta_y) for n, v in x.items()}
        c = {n: v + S / N * sum(d[n] for d in delta_c) / S for n, v in c.items()}
        yield x, c, c_k


def test_three_rounds_of_sampled_clients_match_loops(folder):
    for number, (x, c, c_k) in enumerate(in_loops(folder), 1):
        found = tensors(folder / f"g{number}")
        assert below("control.", found).keys() == c.keys() == x.keys()
        for name in x:
            close = {"rtol": 2e-3, "atol": 2e-5}
            np.testing.assert_allclose(found[name], x[name], **close)
            np.testing.assert_allclose(found[f"control.{name}"], c[name], **close)
        for k in ROUNDS[number - 1]:
            memory = below("control.", read_private(folder / f"v{number}_{k}").memory)
            for name in x:
                np.testing.assert_allclose(memory[name], c_k[k][name], **close)


def test_the_first_round_is_that_of_fedavg_and_later_ones_are_corrected(folder):
    assert furlkit(*train(folder, "g0", 1), "-o", folder / "plain") == 0
    corrected, plain = tensors(folder / "u1_1"), tensors(folder / "plain")
    assert all(np.array_equal(corrected[name], plain[name]) for name in plain)
    first, second = (epochs(folder / f"u{r}_1")[-1]["losses"] for r in (1, 2))
    assert first["scaffold"] == 0 != second["scaffold"]


def test_an_upload_has_the_change_of_the_control_variate(folder):
    before, after = (read_private(folder / f"v{r}_1").memory for r in (1, 2))
    sent = tensors(folder / "u2_1")
    names = [name for name in sent if name.startswith("control.")]
    assert names and not any(is_batchnorm_statistic(name) for name in names)
    for name in names:
        assert np.array_equal(sent[name], after[name] - before[name])


@pytest.mark.parametrize("rule", ["mean", "fedavgm", "median"])
def test_other_rules_refuse_changes_of_control_variates(folder, refused, rule):
    words = [str(folder / "u1_0"), "--rule scaffold"]
    state = ("--state-out", folder / "s") if rule == "fedavgm" else ()
    refused(folder, 2, words, *average(folder, 1, rule), *state, "-o", folder / "no")


def test_fewer_clients_in_all_than_in_the_round_are_refused(folder, refused):
    words = average(folder, 1, clients=1)
    refused(folder, 2, ["--clients 1"], *words, "-o", folder / "no")


def test_a_client_killed_at_every_save_ends_with_the_same_bytes(folder, until_done):
    out = ("--private-out", folder / "v_again", "-o", folder / "u_again")
    kept = ("--private", folder / "v1_1", "--save-every", 0)
    words = train(folder, "g1", 1, "--scaffold", *kept, *out)
    assert until_done(ProgressFile, "save", *words) > 1
    assert digest(folder / "v_again") == digest(folder / "v2_1")
    assert digest(folder / "u_again") == digest(folder / "u2_1")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--momentum", 0.9), "momentum"),
        (("--send", "encoder"), "--send"),
        (("--personal", "ditto"), "--personal"),
    ],
)
def test_options_that_do_not_fit(run, folder, more, word):
    out = ("--private-out", folder / "n", "-o", folder / "no")
    outcome = run(*train(folder, "g0", 0, "--scaffold", *out, *more))
    assert outcome.code == 2
    assert "--scaffold" in outcome.err and word in outcome.err


def test_a_model_with_control_variates_is_evaluated_as_any_other(folder):
    words = ("evaluate", "knn", folder / "g2", "--data", folder / "d.npz")
    test = ("--test-data", folder / "d.npz", "--k", 5)
    assert furlkit(*words, *test, "-o", folder / "knn.json") == 0


def test_a_control_variate_of_another_shape_is_refused(run, folder):
    private = read_private(folder / "v1_0")
    name = next(name for name in private.memory if name.endswith("weight"))
    memory = {**private.memory, name: np.zeros(3, np.float32)}
    path = folder / "forged"
    provenance = Provenance("local-train")
    write_private(path, private.tensors, memory, private.facts, provenance)
    out = ("--private-out", folder / "n", "-o", folder / "no")
    outcome = run(*train(folder, "g1", 0, "--scaffold", "--private", path, *out))
    assert outcome.code == 65
    assert str(path) in outcome.err and "control variate" in outcome.err
