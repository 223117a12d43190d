"""Semantic clustering: an image and its neighbours fall into one cluster.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels", ECCV 2020, Eq. 2;
FedUSC Eq. 3.

    q(x)        probabilities of H clusters, the softmax of the head's logits
    x^          a neighbour of x: one is drawn for each step (SCAN), or Eq. 3 sums over
                all k nearest neighbours
    p           the mean of q over the images of a batch
    lambda      weight of the entropy of p

Logarithms are taken of sums of exponentials, never of a probability: log q and its
gradient stay finite if q is almost one-hot.

The sum of the losses of all heads trains the encoder. The best head of an epoch is the
head with the lowest loss.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from furlkit.objectives.learner import Forward

CONFIDENT = 0.99  # SCAN's threshold for self-labelling, FedUSC's sigma.


def scan_loss(log_q: Tensor, log_near: Tensor, weight: float) -> Tensor:
    """FedUSC Eq. 3 for log q of images (N, ..., H) and of k neighbours (N, k, ..., H):

        -1/N sum_x sum_x^ log <q(x), q(x^)> + lambda sum_h p_h log p_h

    The first term has k summands. With k = 1 (SCAN), lambda weighs k times as much.
    """
    each = consistency(log_q[:, None], log_near)  # (k, ...)
    return each.sum(dim=0) - weight * entropy(log_q)


def consistency(log_q: Tensor, log_near: Tensor) -> Tensor:
    """FedUSC Eq. 3, first term: the mean of -log <q(x), q(x^)>."""
    return -(log_q + log_near).logsumexp(dim=-1).mean(dim=0)


def entropy(log_q: Tensor) -> Tensor:
    """Entropy -sum_h p_h log p_h of the mean p of q: ln H for equal clusters."""
    log_p = log_q.logsumexp(dim=0) - math.log(len(log_q))
    return -(log_p.exp() * log_p).sum(dim=-1)


class Clustering(nn.Module):
    """The net, the neighbours of its images, and the assignments of the current epoch.

    Per head and cluster: `mass` is the sum of q, `members` the number of images
    assigned. `confident` is the number of images with max q >= CONFIDENT, per head. The
    counts belong to the epoch: the client neither sends nor stores them.
    """

    net: Any
    mass: Tensor
    members: Tensor
    confident: Tensor

    def __init__(
        self, net: Any, neighbours: Tensor | None, weight: float, all_near: bool
    ) -> None:
        super().__init__()
        self.net, self._weight = net, weight
        self._neighbours, self._all_near = neighbours, all_near

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Set the counts to 0."""
        heads, clusters = self.net.clusters.shape
        zeros = self.net.clusters.weight.new_zeros
        self.register_buffer("mass", zeros(heads, clusters))
        self.register_buffer("members", zeros(heads, clusters))
        self.register_buffer("confident", zeros(heads))

    def step(self, batch) -> Forward:
        """A view of each image, and of its neighbours, in one forward pass."""
        encoded = batch.at(self.choose(batch.index_cpu, batch.generator))
        places = [self._places(batch.index_cpu, encoded.index_cpu)] * self._all_near
        (x,), places = encoded.separate_views(None, also=places)  # (V, C, S, S)
        h = self.net.encoder(x)
        logits = self.net.clusters(h)  # (V, heads, H)
        N = len(batch.index_cpu)
        with torch.autocast(h.device.type, enabled=False):
            log_all = logits.float().log_softmax(dim=-1)
            if self._all_near:
                log_all = log_all[places[0]]
            log_q, near = log_all[:N], log_all[N:].unflatten(0, (N, -1))
            losses = scan_loss(log_q, near, self._weight)  # (heads)
        self._count(log_q.detach().exp())
        names = loss_names(len(losses))
        return Forward(dict(zip(names, losses, strict=True)), x, h)

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """Return the head with the lowest loss and the sizes of its clusters."""
        own = [losses[name] for name in loss_names(len(self.members))]
        head = own.index(min(own))
        spread = occupancy(self.mass[head], self.members[head])
        confident = float(self.confident[head]) / sum(spread["occupancy"])
        return {"head": head, **spread, "confident": confident}

    def choose(self, index: Tensor, rng: torch.Generator) -> Tensor:
        """Images to encode: the batch, then one drawn neighbour of each image.

        With all neighbours, images repeat: encode every image once, in ascending order.
        """
        near = self._near(index)  # (N, k)
        if self._all_near:
            return torch.cat([index, near.flatten()]).unique()
        chosen = torch.randint(near.shape[1], index.shape, generator=rng)
        return torch.cat([index, near[torch.arange(len(index)), chosen]])

    def _places(self, index: Tensor, encoded: Tensor) -> Tensor:
        """The place of every image and neighbour among the encoded images."""
        wanted = torch.cat([index, self._near(index).flatten()])
        return torch.searchsorted(encoded, wanted)

    def _near(self, index: Tensor) -> Tensor:
        if self._neighbours is None:
            raise ValueError("the neighbours of the images are not known")
        return self._neighbours[index]

    def _count(self, q: Tensor) -> None:
        """Add the assignments of a batch, q (N, heads, H)."""
        largest, cluster = q.max(dim=-1)  # (N, heads)
        self.mass += q.sum(dim=0)
        self.members.scatter_add_(1, cluster.T, torch.ones_like(largest).T)
        self.confident += (largest >= CONFIDENT).sum(dim=0)


def occupancy(mass: Tensor, members: Tensor) -> dict[str, Any]:
    """Distribution of images over clusters, from sums of q (H) and counts (H)."""
    mass, counts = mass.cpu().double(), members.long().tolist()
    return {
        "occupancy": counts,
        "largest_cluster": max(counts) / sum(counts),
        "used_clusters": sum(n > 0 for n in counts),
        "cluster_entropy": float(torch.special.entr(mass / mass.sum()).sum()),
    }


def loss_names(heads: int) -> list[str]:
    """Names of the losses of the heads."""
    return [f"cluster.{k}" for k in range(heads)] if heads > 1 else ["cluster"]


def upload_facts(losses: dict[str, float], measures: dict[str, Any]) -> dict[str, Any]:
    """The loss of each head in the last epoch, and the head of lowest loss."""
    if "head" not in measures:
        return {}
    named = losses.items()
    heads = [loss for name, loss in named if name.partition(".")[0] == "cluster"]
    return {"cluster_head": measures["head"], "cluster_losses": heads}


def learner(
    net: Any,
    *,
    entropy_weight: float,
    nearest_used: str = "one",
    neighbours: Tensor | None = None,
) -> Clustering:
    """`neighbours` (n, k) are positions among the n images, on the CPU."""
    return Clustering(net, neighbours, entropy_weight, nearest_used == "all")
