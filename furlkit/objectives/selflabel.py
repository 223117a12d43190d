"""Self-labelling: a model is trained on its confident predictions.

FedUSC (Zhao et al. 2023), Eq. 5; Van Gansbeke et al., "SCAN: Learning to Classify Images
without Labels", ECCV 2020, section 2.3.

    q         softmax of the head's outputs for B images                   (B, H)
    sigma     smallest probability of a confident prediction
    y         pseudo-labels, argmax_h q_h(x)                               (B)

Eq. 5 takes label and loss from one view. SCAN takes the label from a weak view of an
image and the loss from a strong view, and gives every class an equal weight.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.cluster import occupancy
from furlkit.objectives.learner import Forward

NAME = "self-labelling"


def pseudo_labels(q: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """FedUSC Eq. 5: y = argmax_h q_h(x), confident if max_h q_h(x) >= sigma."""
    largest, y = q.max(dim=1)  # (B) each
    return y, largest >= sigma


def inverse_frequency(y: Tensor, classes: int, counts: Tensor) -> Tensor:
    """A weight for each of n labels that count, n / (K n_c), for K classes among them.

    n_c labels have the same class. Every class weighs the same in all, and the mean
    weight is 1. Labels are below `classes`; the weights of other rows mean nothing.
    """
    held = class_counts(y, classes, counts)  # (classes)
    # Without a label that counts, a division by 0 would leave NaN in the gradients.
    return counts.sum() / ((held > 0).sum() * held[y]).clamp(min=1)


def class_counts(y: Tensor, classes: int, counts: Tensor | None = None) -> Tensor:
    """Number of labels, or of labels that count, by class; bincount would wait."""
    held = torch.zeros(classes, dtype=torch.long, device=y.device)
    ones = torch.ones_like(y) if counts is None else counts.long()
    return held.scatter_add_(0, y, ones)


def self_labelling_loss(
    logits: Tensor, y: Tensor, counts: Tensor, *, class_weights: bool, mean_over: str
) -> Tensor:
    """FedUSC Eq. 5, 1/n sum_x 1(x confident) w_y CE(y, softmax(logits)).

    n is B as printed, or the number of images that count (`mean_over` confident); w is 1
    as printed, or balances the classes. Without an image that counts, the loss is 0.
    """
    losses = F.cross_entropy(logits, y, reduction="none")
    if class_weights:
        losses = losses * inverse_frequency(y, logits.shape[1], counts)
    total = _sum_of(losses, counts)
    return total / (counts.sum().clamp(min=1) if mean_over == "confident" else len(y))


def _sum_of(losses: Tensor, counts: Tensor) -> Tensor:
    """Sum of the losses that count."""
    if losses.device.type == "cpu":  # Elsewhere a mask as an index would wait.
        return losses[counts].sum()
    return torch.where(counts, losses, 0.0).sum()


class SelfLabelling(nn.Module):
    """The net, the number of skipped steps, and the labels of the epoch.

    By class, `mass` holds the sum of q and `members` the number of images; `confident`
    is the number of confident images, `skipped` the number of steps without any.
    `first_used` is the number of classes among the labels of the first epoch.
    """

    net: Any
    skipped: Tensor
    first_used: Tensor
    mass: Tensor
    members: Tensor
    confident: Tensor

    def __init__(self, net: Any, head: Any, weak: Any, sigma: float, **loss: Any):
        super().__init__()
        self.net, self._head, self._weak = net, head, weak
        self._sigma, self._loss = sigma, loss
        device = next(net.parameters()).device
        for name in ("skipped", "first_used"):
            count = torch.zeros((), dtype=torch.long, device=device)
            self.register_buffer(name, count)

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Set the epoch's counts to 0."""
        H, device = self._head.classes, self.skipped.device
        for name, shape in {"mass": (H,), "members": (H,), "confident": ()}.items():
            self.register_buffer(name, torch.zeros(shape, device=device))

    def step(self, batch) -> Forward:
        """Labels from a weak view and losses from another, or both from one view."""
        self._before = [buffer.clone() for buffer in self._buffers_of_passes()]
        both = self._weak is not None
        x, *strong = batch.separate_views(*[self._weak, None] if both else [None])[0]
        with torch.set_grad_enabled(not both):
            h, logits = self._outputs(x)
        y, counts = self._labels(logits.detach().softmax(dim=1))
        if both:
            x = strong[0]
            h, logits = self._outputs(x)
        loss = self_labelling_loss(logits, y, counts, **self._loss)
        self._counts = counts.any()
        return Forward({NAME: loss}, x, h, counts=self._counts)

    @torch.no_grad()
    def after_step(self) -> None:
        """If no image counts, the net stays as it was, BatchNorm statistics included."""
        self.skipped += ~self._counts
        for buffer, old in zip(self._buffers_of_passes(), self._before, strict=True):
            buffer.copy_(torch.where(self._counts, buffer, old))

    def _buffers_of_passes(self) -> list[Tensor]:
        """Buffers that a forward pass may change; counters on the CPU are of others."""
        return [b for b in self.net.buffers() if b.device == self.skipped.device]

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """Return the share of confident images and the sizes of the classes."""
        spread = occupancy(self.mass, self.members)
        if not self.first_used:
            self.first_used.fill_(spread["used_clusters"])
        confident = float(self.confident) / sum(spread["occupancy"])
        counts = {"skipped": int(self.skipped), "first_used": int(self.first_used)}
        return {**spread, "confident": confident, **counts}

    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return h (B, d), and the head's outputs (B, H) in float32."""
        h = self.net.encoder(x)
        return h, self._head.logits(self.net, h).float()

    def _labels(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """Count pseudo-labels; return the labels and a mask of the confident ones."""
        y, counts = pseudo_labels(q, self._sigma)
        self.mass += q.sum(dim=0)
        self.members += class_counts(y, len(self.members))
        self.confident += counts.sum()
        return y, counts


def learner(
    net: Any,
    *,
    head: Any,
    weak: Any,
    confidence: float,
    class_weights: bool,
    mean_over: str,
) -> SelfLabelling:
    """`head`: the models.description.ClassHead that predicts the labels.

    `weak`: augmentation of the view for the labels; None for a single view.
    """
    loss = {"class_weights": class_weights, "mean_over": mean_over}
    return SelfLabelling(net, head, weak, confidence, **loss)
