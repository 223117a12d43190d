"""DeepCluster-v2: both views of an image should fall into the image's cluster.

Caron et al., "Deep Clustering for Unsupervised Learning of Visual Features", ECCV 2018,
Eq. 1-2, with the changes of "Unsupervised Learning of Visual Features by Contrasting
Cluster Assignments", NeurIPS 2020, appendix D; the objective of FedDC.

    z         unit projections of views                                       (2N, d)
    bank      a unit projection of every image of the client                  (n, d)
    C         centroids of the bank, unit rows: the prototypes, not trained   (K, d)
    y         the nearest centroid of every image, by cosine                  (n)
    tau       temperature

Every clustering has a separate random start. A pass over the images fills the bank at
the start of a round; the steps of each epoch then update the bank.
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
    """Cluster unit rows z; return K unit centroids and the centroid of every row.

    The start is K random rows, or all rows if z has fewer than K. The computation runs
    on the device of z; random numbers come from `rng`.
    """
    start = torch.randperm(len(z), generator=rng)[:K]
    C = z[start.to(z.device)]  # (K, d)
    for _ in range(iterations):
        C = moved_centroids(z, *(z @ C.T).max(dim=1), len(C))
    return C, (z @ C.T).argmax(dim=1)


def moved_centroids(z: Tensor, cosine: Tensor, nearest: Tensor, K: int) -> Tensor:
    """Mean direction of the rows of each centroid.

    Centroids without rows take the rows farthest from their centroids, farthest first.
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
    """The net, and the bank, centroids and assignments of the current epoch.

    `centroids` stacks the centroids of all clusterings, (K_1 + K_2 + ..., d);
    `assignments` has a row for each clustering. Both belong to the epoch: the client
    neither sends nor stores them.
    """

    net: Any
    bank: Tensor
    centroids: Tensor
    assignments: Tensor
    _written: tuple[Tensor, Tensor]  # Images and rows of the current step.

    def __init__(
        self, net: Any, clusters: tuple[int, ...], iterations: int, tau: float
    ):
        super().__init__()
        self.net, self._clusters, self._tau = net, clusters, tau
        self._iterations = iterations

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Cluster the client's projections."""
        if epoch == 0:
            self.register_buffer("bank", self._projections(images, rng))
        how = self._iterations, rng
        made = [spherical_kmeans(self.bank, K, *how) for K in self._clusters]
        self.register_buffer("centroids", torch.cat([C for C, _ in made]))
        self.register_buffer("assignments", torch.stack([y for _, y in made]))

    def step(self, batch) -> Forward:
        """Encode both views in one forward pass; score them with each clustering."""
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
        """Write the projections of the first views into the bank."""
        index, rows = self._written
        self.bank[index] = rows

    def _loss(self, z: Tensor, assigned: Tensor) -> Tensor:
        """Mean loss over clusterings; assigned (clusterings, 2N)."""
        sizes = [min(K, len(self.bank)) for K in self._clusters]
        pairs = zip(self.centroids.split(sizes), assigned, strict=True)
        losses = [cluster_loss(z, C, y, self._tau) for C, y in pairs]
        return torch.stack(losses).mean()

    @torch.no_grad()
    def _projections(self, images: Any, rng: torch.Generator) -> Tensor:
        """Project a view of every image, with BatchNorm in training mode."""
        count, rows = len(images), []
        order = torch.randperm(count, generator=rng)
        # Parts of nearly equal size: BatchNorm cannot normalise a single image.
        for index in order.tensor_split(-(-count // EMBEDDED)):
            x = images.batch(index, rng).one_view()
            rows.append(self.net.projector(self.net.encoder(x)).float())
        # Row i of the concatenated parts belongs to image order[i].
        return normalise(torch.cat(rows))[order.argsort().to(rows[0].device)]


def learner(
    net: Any, *, temperature: float, clusters: tuple[int, ...], kmeans_iterations: int
) -> DeepCluster:
    """DeepCluster without clusters; `begin_epoch` computes them."""
    return DeepCluster(net, clusters, kmeans_iterations, temperature)
