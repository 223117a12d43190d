"""DeepCluster-v2: k-means and loss in loops, by property and by hand; bank; rounds."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.objectives.deepcluster import (
    EMBEDDED,
    cluster_loss,
    learner,
    moved_centroids,
    spherical_kmeans,
)
from furlkit.objectives.simclr import normalise
from tests.helpers import furlkit, round_0, tensor_bytes


def units(*shape, seed=0):
    return normalise(torch.randn(*shape, generator=seeded(seed), dtype=torch.float64))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# --- k-means --------------------------------------------------------------------------


def test_kmeans_matches_loops():
    z, K = units(40, 3), 4
    C = [z[i].tolist() for i in torch.randperm(40, generator=seeded()).tolist()[:K]]

    def nearest(row):
        cosines = [sum(a * b for a, b in zip(row, c, strict=True)) for c in C]
        return cosines.index(max(cosines))

    for _ in range(6):
        places = [nearest(row) for row in z.tolist()]
        for k in range(K):
            own = [
                row for row, place in zip(z.tolist(), places, strict=True) if place == k
            ]
            assert own  # Empty clusters have a test of their own.
            total = [sum(column) for column in zip(*own, strict=True)]
            length = math.sqrt(sum(value**2 for value in total))
            C[k] = [value / length for value in total]
    found, assigned = spherical_kmeans(z, K, 6, seeded())
    torch.testing.assert_close(found, torch.tensor(C, dtype=torch.float64))
    assert assigned.tolist() == [nearest(row) for row in z.tolist()]


def test_no_iteration_makes_the_fit_worse_and_the_draws_are_the_generator_s():
    z = units(60, 5)
    fits = []
    for iterations in range(8):
        C, assigned = spherical_kmeans(z, 7, iterations, seeded())
        fits.append(float((z * C[assigned]).sum()))
        torch.testing.assert_close(C.norm(dim=1), torch.ones(7, dtype=torch.float64))
    assert fits == sorted(fits) and fits[-1] > fits[0]
    again = [spherical_kmeans(z, 7, 7, seeded(seed))[0] for seed in (0, 0, 1)]
    assert torch.equal(again[0], again[1]) and not torch.equal(again[0], again[2])


def test_clusters_by_hand():
    """Bundles around two directions are found, also where both starts are in one."""
    bundles = torch.eye(2).repeat_interleave(10, dim=0)
    z = normalise(bundles + 0.05 * torch.randn(20, 2, generator=seeded()))
    starts = set()
    for seed in range(10):
        first = torch.randperm(20, generator=seeded(seed))[:2]
        starts.add(int((first < 10).sum()))
        C, assigned = spherical_kmeans(z, 2, 20, seeded(seed))
        places = assigned.view(2, 10)
        assert (places == places[:, :1]).all() and places[0, 0] != places[1, 0]
        expected = normalise(z.view(2, 10, 2).sum(dim=1))
        torch.testing.assert_close(C[places[:, 0]], expected)
    assert starts == {0, 1, 2}


def test_an_empty_cluster_takes_the_row_that_is_farthest_from_its_own():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    C = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
    cosine, nearest = (z @ C.T).max(dim=1)
    assert nearest.tolist() == [0, 0, 0, 0]
    moved = moved_centroids(z, cosine, nearest, 3)
    assert moved[1:].tolist() == [z[3].tolist(), z[2].tolist()]
    torch.testing.assert_close(moved[0], normalise(z.sum(dim=0, keepdim=True))[0])


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_there_are_no_more_clusters_than_rows(rows):
    C, assigned = spherical_kmeans(z := units(rows, 3), 100, 3, seeded())
    assert C.shape == (rows, 3) and sorted(assigned.tolist()) == list(range(rows))
    torch.testing.assert_close(C[assigned], z)
    # Rows that are all the same leave clusters without any.
    same, places = spherical_kmeans(z[:1].repeat(6, 1), 3, 3, seeded())
    assert same.isfinite().all() and len(places.unique()) == 1


# --- the loss -------------------------------------------------------------------------


def test_loss_matches_loops():
    z, C, y = units(5, 3), units(4, 3, seed=1), torch.tensor([0, 3, 1, 1, 2])
    total = 0.0
    for n in range(5):
        scores = [math.exp(float(z[n] @ c) / 0.1) for c in C]
        total -= math.log(scores[y[n]] / sum(scores))
    assert float(cluster_loss(z, C, y, 0.1)) == pytest.approx(total / 5, abs=1e-12)


def test_loss_by_hand():
    z, y = torch.eye(3, dtype=torch.float64), torch.tensor([0, 1, 2])
    # Its own centroid has cosine 1, the others 0.
    expected = math.log(1 + 2 * math.exp(-2))
    assert float(cluster_loss(z, z, y, 0.5)) == pytest.approx(expected)
    assert float(cluster_loss(z, z[:1].repeat(3, 1), y, 0.5)) == pytest.approx(
        math.log(3)
    )


# --- the learner ----------------------------------------------------------------------


class Tiny(nn.Module):
    """A net of flat images."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        self.projector = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 4))


def images_of(count):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 1), np.uint8)
    view = View(Augmentation(), 8, 1, (0.5,), (0.5,))
    return Images(pixels, None, np.arange(count), view, torch.device("cpu"))


def deepcluster_of(net, clusters):
    return learner(net, temperature=0.1, clusters=clusters, kmeans_iterations=5)


def test_an_epoch_begins_with_clusters_of_the_bank_and_a_step_renews_its_rows():
    net, images = Tiny(), images_of(20)
    method = deepcluster_of(net, (3, 4))
    method.begin_epoch(images, 0, seeded())
    assert method.bank.shape == (20, 4) and method.centroids.shape == (7, 4)
    parts = method.centroids.split([3, 4])
    for C, y in zip(parts, method.assignments, strict=True):
        assert torch.equal((method.bank @ C.T).argmax(dim=1), y)
    before, index = method.bank.clone(), torch.tensor([5, 0, 9])
    forward = method.step(images.batch(index, seeded()))
    z, expected = normalise(forward.z), []
    for C, y in zip(parts, method.assignments, strict=True):
        expected += [cluster_loss(part, C, y[index], 0.1) for part in z.chunk(2)]
    loss = forward.losses["deepcluster"]
    torch.testing.assert_close(loss, torch.stack(expected).mean())
    loss.backward()
    assert net.encoder[1].weight.grad.abs().sum() > 0
    method.after_step()
    assert torch.equal(method.bank[index], z[:3].detach())
    others = [i for i in range(20) if i not in index.tolist()]
    assert torch.equal(method.bank[others], before[others])
    # The next epoch clusters what the steps left in the bank.
    kept = method.bank.clone()
    method.begin_epoch(images, 1, seeded(1))
    assert torch.equal(method.bank, kept)


@pytest.mark.parametrize("count", [2, EMBEDDED, EMBEDDED + 1])
def test_each_row_of_the_bank_is_of_its_own_image(count):
    """Also where the last part would have held one image alone."""
    net, images = Tiny(), images_of(count)
    still = Augmentation(
        crop_scale=(1, 1), crop_ratio=(1, 1), flip=0, jitter_probability=0, grey=0
    )
    images._view = View(still, 8, 1, (0.5,), (0.5,))
    net.eval()  # BatchNorm that does not look at other images.
    method = deepcluster_of(net, (2,))
    method.begin_epoch(images, 0, seeded())
    x = images.batch(torch.arange(count), seeded()).one_view()
    expected = normalise(net.projector(net.encoder(x))).detach()
    torch.testing.assert_close(method.bank, expected)


# --- rounds ---------------------------------------------------------------------------


def test_neither_upload_nor_private_file_tells_of_banks_or_clusters(tmp_path, refused):
    net = ("--width", 0.02, "--objective", "deepcluster", "--projector", "8,4")
    world = round_0(tmp_path, ("--clients", 40), net)
    words = ("local-train", world / "p.st", world / "g.st", "--data", "digits")
    words += ("--client", 0, "--objective", "deepcluster", "--epochs", 2)
    files = ("--private-out", world / "k", "-o", world / "c")
    # More clusters than the client has images.
    assert furlkit(*words, "--clusters", "3,100", *files) == 0
    names = tensor_bytes(world / "c").keys() | tensor_bytes(world / "k").keys()
    assert {name.split(".")[0] for name in names} == {"encoder", "projector"}
    refused(world, 2, ("--clusters",), *words, "--clusters", "3,0", "-o", world / "d")
