"""FedMatch with labels at the server: clients learn from confident predictions.

Jeong et al., "Federated Semi-Supervised Learning with Inter-Client Consistency &
Disjoint Learning", ICLR 2021.

    theta = sigma + psi    the weights of the network
    sigma                  trained by the server with labels; constant at clients
    psi                    trained by clients without labels; constant at the server
    u, pi(u)               an unchanged image and its strong view
    p, p_j                 probabilities by the client and by its H helpers
    tau                    smallest probability of a confident prediction

With constant sigma, the gradient by psi equals the gradient by theta. Clients and
server therefore train the network theta directly, and psi is theta - sigma.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.supervised import supervised_loss

PARTS = ("encoder", "classifier")


def agreed_labels(p: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Class with the most votes, (B), of the client's p (B, C) and of the helpers.

    In a tie the client's class wins if it is among the tied classes; in the authors'
    code, the lowest class wins.
    """
    classes = p.shape[1]
    votes = 1.5 * F.one_hot(p.argmax(dim=1), classes)  # (B, C)
    for each in others:
        votes = votes + F.one_hot(each.argmax(dim=1), classes)
    return votes.argmax(dim=1)


def divergences(log_p: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Inter-client consistency of each image, 1/H sum_j KL(p_j || p), (B)."""
    each = [(torch.special.xlogy(p_j, p_j) - p_j * log_p).sum(dim=1) for p_j in others]
    return torch.stack(each).mean(dim=0)


def mean_over(counts: Tensor, losses: Tensor) -> Tensor:
    """Mean of the losses (B) of the images with True in `counts`; 0 without any.

    A boolean index would wait for the GPU in every step.
    """
    return losses.masked_fill(~counts, 0).sum() / counts.sum().clamp_min(1)


def l1_penalty(theta: Iterable[Tensor], sigma: Iterable[Tensor]) -> Tensor:
    """L1 norm ||psi||_1, for a sparse psi."""
    pairs = zip(theta, sigma, strict=True)
    return torch.stack([(w - s).abs().sum() for w, s in pairs]).sum()


def l2_penalty(theta: Iterable[Tensor], sigma: Iterable[Tensor]) -> Tensor:
    """||sigma - psi||^2, which keeps psi near sigma."""
    pairs = zip(theta, sigma, strict=True)
    return torch.stack([(2 * s - w).square().sum() for w, s in pairs]).sum()


def nearest_clients(
    answers: Mapping[int | str, np.ndarray], own: np.ndarray, count: int
) -> list[int | str]:
    """Choose the helpers: the clients with the answers nearest to `own`."""
    far = {client: float(((a - own) ** 2).sum()) for client, a in answers.items()}
    return sorted(far, key=lambda k: (far[k], isinstance(k, str), k))[:count]


class Weights(NamedTuple):
    """tau, and the weights lambda of the four losses."""

    confidence: float
    agreement: float
    consistency: float
    l1: float
    l2: float


class Sigma(nn.ModuleDict):
    """Frozen copy of a network's weights, without BatchNorm statistics.

    The copy is divided by 1 + `share`: psi is then `share` times sigma.
    """

    def __init__(self, net: Any, share: float) -> None:
        super().__init__({name: deepcopy(getattr(net, name)) for name in PARTS})
        self.requires_grad_(False)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.track_running_stats = False
                module.running_mean = module.running_var = None
                module.num_batches_tracked = None
        with torch.no_grad():
            for weight in self.parameters():
                weight.div_(1 + share)


class FedMatch(nn.Module):
    """The net theta, sigma, and the number of confident images of the epoch.

    The helpers are nets of other clients; they are neither trained nor stored.
    """

    net: Any
    images: Tensor
    confident: Tensor

    def __init__(
        self, net: Any, sigma: Sigma, weights: Weights, helpers: Sequence[Any]
    ):
        super().__init__()
        self.net, self.sigma, self._weights = net, sigma, weights
        # A plain list: a ModuleList would add the helpers to the client's state_dict.
        self._helpers = [helper.eval() for helper in helpers]

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Set the counts to 0."""
        for name in ("images", "confident"):
            device = next(self.net.parameters()).device
            self.register_buffer(name, torch.zeros((), device=device))

    def step(self, batch) -> Forward:
        """Compute labels from u and the loss from pi(u); penalise psi."""
        u = batch.plain()
        h = self.net.encoder(u)
        logits = self.net.classifier(h).float()  # (B, C)
        others = self._answers(u)
        p = logits.detach().softmax(dim=1)
        counts = p.amax(dim=1) >= self._weights.confidence  # (B)
        self.images += len(p)
        self.confident += counts.sum()
        y = agreed_labels(p, others)
        strong = self.net.classifier(self.net.encoder(batch.one_view())).float()
        each = F.cross_entropy(strong, y, reduction="none")
        agreement = self._weights.agreement * mean_over(counts, each)
        losses = {**self._penalties(), "agreement": agreement}
        if others:
            apart = mean_over(counts, divergences(logits.log_softmax(dim=1), others))
            losses["consistency"] = self._weights.consistency * apart
        return Forward(losses, u, h)

    def end_epoch(self, losses: dict[str, float]) -> dict[str, float]:
        """Share of confident images."""
        return {"confident": float(self.confident) / float(self.images)}

    @torch.no_grad()
    def _answers(self, u: Tensor) -> list[Tensor]:
        nets = self._helpers
        return [net.classifier(net.encoder(u)).float().softmax(dim=1) for net in nets]

    def _penalties(self) -> dict[str, Tensor]:
        theta = [w for name in PARTS for w in getattr(self.net, name).parameters()]
        sigma = list(self.sigma.parameters())
        with torch.autocast(sigma[0].device.type, enabled=False):
            return {
                "l1": self._weights.l1 * l1_penalty(theta, sigma),
                "l2": self._weights.l2 * l2_penalty(theta, sigma),
            }


def learner(
    net: Any,
    *,
    confidence: float,
    agreement_weight: float,
    consistency_weight: float,
    l1: float,
    l2: float,
    psi_share: float,
    helpers: Sequence[Any] = (),
) -> FedMatch:
    """Split a net into sigma and psi; a stored sigma is loaded afterwards."""
    weights = Weights(confidence, agreement_weight, consistency_weight, l1, l2)
    return FedMatch(net, Sigma(net, psi_share), weights, helpers)


def labelled_step(net, batch, *, label_weight: float) -> Forward:
    """Server step: lambda_s times the cross-entropy of labels under sigma + psi."""
    x = batch.one_view()
    h = net.encoder(x)
    loss = supervised_loss(net.classifier(h).float(), batch.labels)
    return Forward({"supervised": label_weight * loss}, x, h)
