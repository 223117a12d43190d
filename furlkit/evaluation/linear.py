"""Linear probe: linear classifiers on frozen features, several in parallel.

Features are not standardised: the papers chose their learning rates for raw features.
A head's result is the result of the last epoch, not of the best epoch.

The gradient and the optimisers are written out: for a small model, autograd and
torch.optim take longer than the arithmetic. A step of torch's functional Adam takes
four times the time of this step, and rounds differently. The tests compare with both.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from furlkit.errors import FurlkitError
from furlkit.evaluation.scores import check_features, check_labelled
from furlkit.evaluation.settings import LinearSettings

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
# On CIFAR-10, h of 256 numbers, the accuracies of independent heads had a std of 0.27
# points. Five heads with this lag had 0.23; with one order and no lag 0.11. Means of
# five varied by 0.14 and 0.26; means of independent heads vary by 0.12.
LAG = 0.1


class Head(NamedTuple):
    """A linear classifier: weight (classes, d) and bias (classes)."""

    weight: Tensor
    bias: Tensor


def fit_linear(
    features: Tensor,
    labels: Tensor,
    classes: int,
    settings: LinearSettings,
    generators: Sequence[torch.Generator],
) -> list[Head]:
    """Train a head for each generator on features (N, d) and labels (N).

    Each generator draws the initial weights of a head; the first generator also draws
    the order of the rows in each epoch, for all heads.
    """
    check_labelled(features, labels, classes)
    d = features.shape[1]
    starts = torch.stack([draw_start(d, classes, drawn) for drawn in generators])
    orders = draw_orders(len(labels), generators[0])
    return train_heads(features, labels, settings, starts, orders)


def draw_start(d: int, classes: int, generator: torch.Generator) -> Tensor:
    """Weight and bias in one vector, with the distribution of torch.nn.Linear."""
    size = classes * (d + 1)
    draw = torch.rand(size, generator=generator, device=generator.device)
    return (2 * draw - 1) / math.sqrt(d)  # uniform in +-1/sqrt(d)


def draw_orders(rows: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Endless orders of the rows, one per epoch."""
    while True:
        yield torch.randperm(rows, generator=generator, device=generator.device)


def train_heads(
    features: Tensor,
    labels: Tensor,
    settings: LinearSettings,
    starts: Tensor,
    orders: Iterator[Tensor],
) -> list[Head]:
    """Train the heads of `starts` (P, classes * (d + 1)) in one pass over the features.

    One product serves all heads, in half the time of separate products, with common
    batches. Heads differ mostly by the order of their last epochs, so the start of each
    head is delayed by LAG of the training.
    """
    heads = _Heads.of(starts.to(features.device, copy=True))
    lag = math.ceil(settings.epochs * LAG)
    for turn in range(settings.epochs + (len(starts) - 1) * lag):
        epochs = {p: turn - p * lag for p in range(len(starts))}
        own = {p: e for p, e in epochs.items() if 0 <= e < settings.epochs}
        some, order = heads.only(min(own), max(own) + 1), next(orders)
        _train_epoch(some, features, labels, settings, order, list(own.values()))
    if not torch.isfinite(heads.w).all():
        raise FurlkitError(f"linear head diverged at lr {settings.lr}; lower the rate")
    return [Head(*_divided(w[None], features.shape[1])) for w in heads.w]


def _train_epoch(
    heads: "_Heads",
    features: Tensor,
    labels: Tensor,
    settings: LinearSettings,
    order: Tensor,
    epochs: list[int],
) -> None:
    """Train one epoch, with the epoch number of each head; use a partial batch too."""
    batches = order.to(features.device).split(settings.batch_size)
    update = heads.adam if settings.optimiser == "adam" else heads.sgd
    factors = [_factors(settings, epoch, len(batches)) for epoch in epochs]
    # One copy to the device for an epoch: (heads, batches, factors).
    known = torch.tensor(factors, dtype=heads.w.dtype).to(features.device)
    for rows, factor in zip(batches, known.transpose(0, 1), strict=True):
        x = features.index_select(0, rows).float()  # (B, d)
        y = labels.index_select(0, rows).long()  # (B)
        update(heads.gradient(x, y), settings, factor)


def predict_linear(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Class with the largest logit of each row: (M, d) -> (M)."""
    check_features(features)
    return torch.addmm(bias, features.float(), weight.T).argmax(dim=1)


def _divided(w: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """Weights (P * classes, d) and biases (P * classes) of heads w."""
    weights = w.shape[1] // (d + 1) * d
    return w[:, :weights].reshape(-1, d), w[:, weights:].reshape(-1)


class _Heads(NamedTuple):
    """Heads: a row of w contains weight and bias, so a step is one update.

    `m` and `v` are an optimiser's averages.
    """

    w: Tensor
    m: Tensor
    v: Tensor

    @classmethod
    def of(cls, w: Tensor) -> "_Heads":
        """Heads before the first step."""
        return cls(w, torch.zeros_like(w), torch.zeros_like(w))

    def only(self, first: int, last: int) -> "_Heads":
        """View of some heads, in shared memory."""
        return _Heads(*(tensor[first:last] for tensor in self))

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradients of the mean cross-entropy of softmax(W x^T + b), in rows like w.

            e = (softmax(W x^T + b) - onehot(y)) / B,     dW = e x,     db = e 1

        Classes are the first axis: W x^T takes half the time of x W^T for few classes.
        """
        weight, bias = _divided(self.w, x.shape[1])
        logits = torch.addmm(bias[:, None], weight, x.T)  # (P * classes, B)
        p = logits.view(len(self.w), -1, len(y)).softmax(dim=1)
        rows = y.expand(len(p), 1, -1)
        p.scatter_add_(1, rows, p.new_full(rows.shape, -1.0))
        e = p.div_(len(y)).view_as(logits)
        parts = e @ x, e.sum(dim=1)
        return torch.cat([part.view(len(p), -1) for part in parts], dim=1)

    def adam(self, g: Tensor, s: LinearSettings, factors: Tensor) -> None:
        """Kingma and Ba, "Adam", ICLR 2015, Algorithm 1; `factors` (P, 2) of heads."""
        lr, wide = factors.split(1, dim=1)
        g.add_(self.w, alpha=s.weight_decay)
        self.m.lerp_(g, 1 - BETA_1)
        self.v.mul_(BETA_2).addcmul_(g, g, value=1 - BETA_2)
        scale = (self.v / wide).sqrt_()
        self.w.addcdiv_(self.m * lr, scale.add_(EPSILON), value=-1)

    def sgd(self, g: Tensor, s: LinearSettings, lr: Tensor) -> None:
        """m <- momentum m + g,   w <- w - lr m; lr (P, 1) of heads."""
        self.m.mul_(s.momentum).add_(g.add_(self.w, alpha=s.weight_decay))
        self.w.addcmul_(self.m, lr, value=-1)


def _factors(settings: LinearSettings, epoch: int, batches: int) -> list[list[float]]:
    """Learning rate of a head in each step of an epoch.

    Adam also needs the bias correction of the second moment.
    """
    lr, first = settings.lr_at(epoch), epoch * batches + 1
    if settings.optimiser != "adam":
        return [[lr]] * batches
    steps = range(first, first + batches)
    return [[lr / (1 - BETA_1**t), 1 - BETA_2**t] for t in steps]
