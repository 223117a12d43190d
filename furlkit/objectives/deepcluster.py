"""DeepCluster-v2: both views of an image are to fall into the cluster of that image.

Caron et al., "Deep Clustering for Unsupervised Learning of Visual Features", ECCV 2018,
Eq. 1-2, as improved in "Unsupervised Learning of Visual Features by Contrasting Cluster
Assignments", NeurIPS 2020, appendix D; the objective of FedDC.

    z         unit projections of views                                       (2N, d)
    bank      a unit projection of each of the client's n images              (n, d)
    C         centroids of the bank, unit rows: the prototypes, not trained   (K, d)
    y         the centroid that is nearest to an image, by cosine             (n)
    tau       temperature

There are several clusterings, each from its own random start. The bank is filled by a
pass over the images at the start of a round, and then by the steps of each epoch.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.simclr import normalise

EMBEDDED = 512  # Images of a forward pass that fills the bank.


@torch.no_grad()
def spherical_kmeans(
    z: Tensor, K: int, iterations: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """K centroids of unit rows z, all of them unit rows, and the nearest of each row.

    It starts from K random rows; no more centroids than rows are made. Rows and their
    sums are on z's device, draws are the generator's.
    """
    start = torch.randperm(len(z), generator=rng)[:K]
    C = z[start.to(z.device)]  # (K, d)
    for _ in range(iterations):
        C = moved_centroids(z, *(z @ C.T).max(dim=1), len(C))
    return C, (z @ C.T).argmax(dim=1)


def moved_centroids(z: Tensor, cosine: Tensor, nearest: Tensor, K: int) -> Tensor:
    """The mean direction of each centroid's rows.

    A centroid that has none takes a row that is far from its own: the farthest of all,
    the next one the second farthest, and so on.
    """
    sums = z.new_zeros(K, z.shape[1]).index_add_(0, nearest, z)  # (K, d)
    empty = (torch.bincount(nearest, minlength=K) == 0).nonzero().flatten()
    if len(empty):
        sums[empty] = z[cosine.argsort(stable=True)[: len(empty)]]
    return normalise(sums)


def cluster_loss(z: Tensor, C: Tensor, y: Tensor, tau: float) -> Tensor:
    """DeepCluster Eq. 1 with fixed prototypes: the mean of -log softmax(z C^T / tau)_y."""
    return F.cross_entropy(z @ C.T / tau, y)


class DeepCluster(nn.Module):
    """The net, and for the epoch under way the bank, all centroids and the assignments.

    `centroids` of all clusterings are below each other, (K_1 + K_2 + ..., d);
    `assignments` has a row for each clustering. They belong to the epoch: the client
    neither sends nor keeps them.
    """

    net: Any
    bank: Tensor
    centroids: Tensor
    assignments: Tensor
    _written: tuple[Tensor, Tensor]  # Images of the step under way, and their rows.

    def __init__(
        self, net: Any, clusters: tuple[int, ...], iterations: int, tau: float
    ):
        super().__init__()
        self.net, self._clusters, self._tau = net, clusters, tau
        self._iterations = iterations

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Cluster the client's own projections."""
        if epoch == 0:
            self.register_buffer("bank", self._projections(images, rng))
        how = self._iterations, rng
        made = [spherical_kmeans(self.bank, K, *how) for K in self._clusters]
        self.register_buffer("centroids", torch.cat([C for C, _ in made]))
        self.register_buffer("assignments", torch.stack([y for _, y in made]))

    def step(self, batch) -> Forward:
        """Both views in one forward pass, scored by each clustering."""
        x = batch.two_views()  # (2N, C, S, S)
        h = self.net.encoder(x)
        z = self.net.projector(h)  # (2N, d)
        index = batch.index
        with torch.autocast(z.device.type, enabled=False):
            unit = normalise(z.float())
            loss = self._loss(unit, self.assignments[:, index].repeat(1, 2))
        self._written = index, unit[: len(index)].detach()
        return Forward({"deepcluster": loss}, x, h, z)

    def after_step(self) -> None:
        """The first views of a batch take their images' places in the bank."""
        index, rows = self._written
        self.bank[index] = rows

    def _loss(self, z: Tensor, assigned: Tensor) -> Tensor:
        """The mean over clusterings; assigned (clusterings, 2N)."""
        sizes = [min(K, len(self.bank)) for K in self._clusters]
        pairs = zip(self.centroids.split(sizes), assigned, strict=True)
        losses = [cluster_loss(z, C, y, self._tau) for C, y in pairs]
        return torch.stack(losses).mean()

    @torch.no_grad()
    def _projections(self, images: Any, rng: torch.Generator) -> Tensor:
        """A view of each image as the net sees it in training: BatchNorm by batches."""
        count, rows = len(images), []
        order = torch.randperm(count, generator=rng)
        # Parts of nearly the same size: BatchNorm cannot normalise a single image.
        for index in order.tensor_split(-(-count // EMBEDDED)):
            x = images.batch(index, rng).one_view()
            rows.append(self.net.projector(self.net.encoder(x)).float())
        # Row i of the parts together is of image order[i].
        return normalise(torch.cat(rows))[order.argsort().to(rows[0].device)]


def learner(
    net: Any, *, temperature: float, clusters: tuple[int, ...], kmeans_iterations: int
) -> DeepCluster:
    """Nothing is clustered before the first epoch."""
    return DeepCluster(net, clusters, kmeans_iterations, temperature)
