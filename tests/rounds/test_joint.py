"""A joint round of FedUSC: pretext epochs, mining, clustering epochs, one upload."""

import json
import math

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.models.loading import load_net, load_tensors, tensors_of
from tests.helpers import furlkit, save_digits, tensor_bytes

STILL = ("--crop-scale", "1,1", "--crop-ratio", "1,1", "--flip", 0, "--blur", 0,
         "--jitter-probability", 0, "--grey", 0)  # fmt: skip
LR, TAU, LAMBDA, K, XI = 0.05, 0.5, 5.0, 3, 0.25
PLAN = ("--batch-size", 64, "--optimiser", "sgd", "--momentum", 0, "--weight-decay", 0,
        "--lr", LR, "--epochs", 2, "--no-channels-last", *STILL, "-q")  # fmt: skip
CLUSTER = ("--objective", "cluster", "--nearest", K, "--nearest-used", "all")


@pytest.fixture(scope="module")
def two_clients(tmp_path_factory):
    """40 digits of two clients, and a model with projector and clusters."""
    folder = tmp_path_factory.mktemp("joint")
    save_digits(folder, 40, 0)
    data = ("--data", folder / "d.npz")
    split = ("--scheme", "volume", "--clients", 2, "--decay", 0.6)
    assert furlkit("partition", *data, *split, "-o", folder / "p") == 0
    net = ("--width", 0.02, "--projector", "16,8", "--head", "projector")
    net += ("--objective", "cluster", "--clusters", 4)
    assert furlkit("init", *data, *net, "-o", folder / "g0") == 0
    return folder


def learn(two_clients, folder, number, client, *more):
    """The pretext epochs of a client in a round."""
    words = ("local-train", two_clients / "p", folder / f"g{number - 1}", "--data")
    words += (two_clients / "d.npz", "--client", client, "--temperature", TAU)
    words += ("--update", "dum", "--mu", 0, "--xi", XI, *PLAN, *more)
    words += (
        "--private-out",
        folder / f"draft{number}_{client}",
        "-o",
        folder / f"l{number}_{client}",
    )
    assert furlkit(*words) == 0


def cluster(two_clients, folder, number, client, *more):
    """The clustering epochs."""
    words = ("local-train", two_clients / "p", folder / f"l{number}_{client}", "--data")
    words += (
        two_clients / "d.npz",
        "--client",
        client,
        "--update",
        "continue",
        *CLUSTER,
    )
    words += (*PLAN, "--private-out", folder / f"k{number}_{client}", *more)
    return furlkit(*words, "-o", folder / f"c{number}_{client}")


@pytest.fixture(scope="module")
def two_rounds(two_clients, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "g0").write_bytes((two_clients / "g0").read_bytes())
    for number in (1, 2):
        for client in (0, 1):
            kept = ("--private", folder / f"k{number - 1}_{client}")
            learn(two_clients, folder, number, client, *(kept if number > 1 else ()))
            assert cluster(two_clients, folder, number, client) == 0
        uploads = [folder / f"c{number}_{client}" for client in (0, 1)]
        assert furlkit("aggregate", *uploads, "-o", folder / f"g{number}") == 0
    return folder


# --- the transcription ----------------------------------------------------------------


def move(net, loss):
    """A step down the gradient."""
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for weight in net.parameters():
            if weight.grad is not None:
                weight -= LR * weight.grad


def pretext_loss(z):
    """FedUSC Eq. 1-2: of 2M views, of which i and (i + M) mod 2M are of one image."""
    views = [row / row.norm() for row in z]
    losses = []
    for i in range(len(views)):
        j = (i + len(views) // 2) % len(views)
        others = [views[i] @ v / TAU for m, v in enumerate(views) if m != i]
        positive = views[i] @ views[j] / TAU
        losses.append(torch.stack(others).exp().sum().log() - positive)
    return torch.stack(losses).mean()


def nearest(z):
    """The K images of highest cosine to each."""
    z = [row / row.norm() for row in z]
    found = []
    for i in range(len(z)):
        cosines = {j: float(z[i] @ z[j]) for j in range(len(z)) if j != i}
        found.append(sorted(cosines, key=cosines.__getitem__, reverse=True)[:K])
    return found


def clustering_loss(q, near):
    """FedUSC Eq. 3 for q (n, H)."""
    first = sum(-(q[x] @ q[y]).log() for x in range(len(q)) for y in near[x]) / len(q)
    p = sum(q) / len(q)
    return first + LAMBDA * sum(p_h * p_h.log() for p_h in p)


def joint_round(net, x):
    """What a client makes of the net: two pretext epochs and two clustering epochs."""
    for _ in range(2):
        net.train()
        move(net, pretext_loss(net.projector(net.encoder(torch.cat([x, x])))))
    net.eval()
    with torch.no_grad():
        near = nearest(net.projector(net.encoder(x)))
    for _ in range(2):
        net.train()
        q = net.clusters(net.encoder(x))[:, 0].softmax(dim=-1)
        move(net, clustering_loss(q, near))
    return {name: array.copy() for name, array in tensors_of(net).items()}


def mixed(own, shared):
    """FedUSC Eq. 4 beyond mu; the projector is the server's."""
    return {
        name: shared[name] if name.startswith("projector") or own is None
        else np.asarray(XI * own[name] + (1 - XI) * shared[name])
        for name in shared
    }  # fmt: skip


def test_two_joint_rounds_match_loops(two_clients, two_rounds):
    start = read_checkpoint(two_clients / "g0")
    images, partition = (
        Source(two_clients / "d.npz").images(),
        read_partition(two_clients / "p"),
    )
    (mean,), (std,) = start.facts.mean, start.facts.std
    pixels = torch.from_numpy(images.images).permute(0, 3, 1, 2) / 255
    shared, own = dict(start.tensors), [None, None]
    sizes = [len(partition.of(client)) for client in (0, 1)]
    assert sizes[0] > sizes[1] > K
    for number in (1, 2):
        for client in (0, 1):
            net = load_net(start, torch.device("cpu"))
            load_tensors(net, mixed(own[client], shared))
            x = (pixels[partition.of(client)] - mean) / std
            own[client] = joint_round(net, x)
        shared = {
            name: np.asarray((sizes[0] * own[0][name] + sizes[1] * own[1][name]) / 40)
            for name in shared
        }
        found = read_checkpoint(two_rounds / f"g{number}").tensors
        for name in (name for name in found if "num_batches" not in name):
            np.testing.assert_allclose(
                found[name], shared[name], rtol=1e-3, atol=2e-5, err_msg=name
            )


def test_a_joint_round_has_two_pretext_and_two_clustering_steps(two_rounds):
    """BatchNorm counts them: 4 of round 1; of round 2, DUM mixes 4 and 4, and 4 more."""
    for number, count in ((1, 4), (2, 8)):
        upload = read_checkpoint(two_rounds / f"c{number}_0").tensors
        assert upload["encoder.bn1.num_batches_tracked"] == count


def test_without_a_step_of_clustering_a_joint_round_is_the_pretext_round(
    two_clients, two_rounds, tmp_path
):
    """A tiny learning rate moves BatchNorm's statistics alone."""
    (tmp_path / "l1_0").write_bytes((two_rounds / "l1_0").read_bytes())
    assert cluster(two_clients, tmp_path, 1, 0, "--lr", 1e-12) == 0
    before, after = (read_checkpoint(tmp_path / f"{kind}1_0").tensors for kind in "lc")
    for name in (name for name in before if "running" not in name):
        if "num_batches" not in name:
            np.testing.assert_allclose(after[name], before[name], atol=1e-9)


# --- what a continued round writes ----------------------------------------------------


def test_both_trainings_are_of_one_round_and_the_upload_names_the_global_model(
    two_rounds,
):
    for number in (1, 2):
        model = read_checkpoint(two_rounds / f"g{number - 1}")
        for client in (0, 1):
            first, second = (
                read_checkpoint(two_rounds / f"{kind}{number}_{client}")
                for kind in "lc"
            )
            assert first.facts.round == second.facts.round == number
            assert first.facts.parent == second.facts.parent == model.content
            assert second.header.inputs["global"] == first.content
            assert second.header.options["update"] == "continue"
            kept = read_private(two_rounds / f"k{number}_{client}", client)
            assert kept.memory["neighbours.round"] == number
            last = kept.tensors["last.clusters.weight"]
            assert np.array_equal(last, second.tensors["clusters.weight"])


def test_the_second_training_draws_other_batches_than_the_first(two_clients, tmp_path):
    """With the same objective twice, the second does not repeat the first one's draws."""
    data = ("--data", two_clients / "d.npz", "--client", 0, "--epochs", 1, "-q")
    data += ("--lr", 1e-9)
    words = (
        "local-train",
        two_clients / "p",
        two_clients / "g0",
        *data,
        "--batch-size",
        8,
    )
    assert furlkit(*words, "-o", tmp_path / "a") == 0
    words = ("local-train", two_clients / "p", tmp_path / "a", *data, "--batch-size", 8)
    words += ("--update", "continue", "--private-out", tmp_path / "k")
    assert furlkit(*words, "-o", tmp_path / "b") == 0
    losses = [read_checkpoint(tmp_path / name).facts.loss for name in "ab"]
    assert losses[0] != losses[1] and math.isclose(*losses, rel_tol=0.3)


def test_a_round_is_continued_by_the_client_s_own_model_alone(
    two_clients, two_rounds, refused, tmp_path
):
    def words(model, client=0, *more):
        given = (
            "local-train",
            two_clients / "p",
            model,
            "--data",
            two_clients / "d.npz",
        )
        given += ("--client", client, "--update", "continue", *more)
        return (*given, "-o", tmp_path / "c{client}")

    out = ("--private-out", tmp_path / "k{client}")
    model, own = two_rounds / "g1", two_rounds / "l1_0"
    refused(tmp_path, 65, (model, "own model"), *words(model, 0, *out))
    refused(tmp_path, 65, (own, "client 0"), *words(own, 1, *out))
    refused(tmp_path, 2, ("--update continue", "2 clients"), *words(own, "0-1", *out))
    refused(tmp_path, 2, ("--private-out",), *words(own))


def test_the_model_after_the_pretext_epochs_never_leaves_a_client(two_rounds, run):
    """A client receives the global model and sends one upload."""
    names = ("g0", "l1_0", "l1_1", "c1_0", "c1_1", "g1")
    done = run("ledger", *(two_rounds / name for name in names), "--json")
    assert done.code == 0, done.err
    size = {name: (two_rounds / name).stat().st_size for name in names}
    total = json.loads(done.out)["total"]["bytes"]
    assert total == 2 * size["g0"] + size["c1_0"] + size["c1_1"]


def test_the_server_trains_on_the_public_images(two_clients, refused, tmp_path):
    data = ("--data", two_clients / "d.npz")
    split = ("partition", *data, "--clients", 2, "--public-count", 12)
    assert furlkit(*split, "-o", tmp_path / "p") == 0
    words = (
        "local-train",
        tmp_path / "p",
        two_clients / "g0",
        *data,
        "--client",
        "public",
    )
    words += ("--batch-size", 4, "--epochs", 1, "-q", "-o")
    assert furlkit(*words, tmp_path / "s") == 0
    facts = Container(tmp_path / "s").header.facts
    assert (facts["client"], facts["examples"]) == ("public", 12)
    assert furlkit("aggregate", tmp_path / "s", "-o", tmp_path / "g") == 0
    assert tensor_bytes(tmp_path / "g") == tensor_bytes(tmp_path / "s")
    refused(tmp_path, 2, ("--client public",), *words[:1], two_clients / "p", *words[2:],
            tmp_path / "x")  # fmt: skip
