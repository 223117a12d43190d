"""The linear probe: a linear classifier on frozen features.

Features are not standardised: the papers chose their learning rates for raw features.
The result is the head of the last epoch, not the best one.

The gradient and the optimisers are written out: for so small a model, autograd and
torch.optim take longer than the arithmetic. A step of torch's functional Adam takes
four times as long as this one, and rounds differently. The tests compare with both.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from furlkit.errors import FurlkitError
from furlkit.evaluation.scores import check_features, check_labelled

GAMMA = 0.1
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class LinearSettings:
    """How the head is trained; the defaults are FedCA's.

    The learning rate is multiplied by 0.1 at each milestone, counted in epochs.
    `momentum` is only for SGD. Weight decay is added to the gradient.
    """

    optimiser: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 1e-6
    momentum: float = 0.0
    epochs: int = 100
    batch_size: int = 512
    milestones: tuple[int, ...] = ()

    def lr_at(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.lr * GAMMA ** sum(epoch >= m for m in self.milestones)


def fit_linear(
    features: Tensor,
    labels: Tensor,
    classes: int,
    settings: LinearSettings,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Train on features (N, d), labels (N): weight (classes, d) and bias (classes).

    The initial weights and a new order of the rows in each epoch are drawn from
    `generator`. The last, partial batch of an epoch is used too.
    """
    check_labelled(features, labels, classes)
    head = _Head(features.shape[1], classes, generator, features.device)
    update = head.adam if settings.optimiser == "adam" else head.sgd
    for epoch in range(settings.epochs):
        order = torch.randperm(
            len(labels), generator=generator, device=generator.device
        )
        for rows in order.to(features.device).split(settings.batch_size):
            x = features.index_select(0, rows).float()  # (B, d)
            y = labels.index_select(0, rows).long()  # (B)
            update(head.gradient(x, y), settings, settings.lr_at(epoch))
    if not torch.isfinite(head.w).all():
        raise FurlkitError(
            f"linear head diverged at lr {settings.lr}; use a smaller one"
        )
    return head.weight, head.bias


def predict_linear(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The class with the largest logit of each row: (M, d) -> (M)."""
    check_features(features)
    return torch.addmm(bias, features.float(), weight.T).argmax(dim=1)


class _Head:
    """Weight and bias as views of one vector w, so that a step is one update."""

    def __init__(
        self, d: int, classes: int, generator: torch.Generator, device: torch.device
    ) -> None:
        # Uniform in +-1/sqrt(d), the initialisation of torch.nn.Linear.
        size = classes * (d + 1)
        draw = torch.rand(size, generator=generator, device=generator.device)
        self.w = ((2 * draw - 1) / math.sqrt(d)).to(device)
        self.weight = self.w[: classes * d].view(classes, d)
        self.bias = self.w[classes * d :]
        self.m = torch.zeros_like(self.w)
        self.v = torch.zeros_like(self.w)
        self.steps = 0

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradient of the mean cross-entropy of softmax(W x^T + b), a vector like w.

            e = (softmax(W x^T + b) - onehot(y)) / B,     dW = e x,     db = e 1

        Classes are the first axis: W x^T takes half the time of x W^T for few classes.
        """
        p = torch.addmm(self.bias[:, None], self.weight, x.T).softmax(dim=0)
        p.scatter_add_(0, y[None], p.new_full((1, len(y)), -1.0))
        e = p.div_(len(y))  # (classes, B)
        return torch.cat([(e @ x).flatten(), e.sum(dim=1)])  # (classes * (d + 1),)

    def adam(self, g: Tensor, s: LinearSettings, lr: float) -> None:
        """Kingma and Ba, "Adam", ICLR 2015, Algorithm 1."""
        self.steps += 1
        g.add_(self.w, alpha=s.weight_decay)
        self.m.lerp_(g, 1 - BETA_1)
        self.v.mul_(BETA_2).addcmul_(g, g, value=1 - BETA_2)
        scale = (self.v / (1 - BETA_2**self.steps)).sqrt_().add_(EPSILON)
        self.w.addcdiv_(self.m, scale, value=-lr / (1 - BETA_1**self.steps))

    def sgd(self, g: Tensor, s: LinearSettings, lr: float) -> None:
        """m <- momentum m + g,   w <- w - lr m."""
        self.m.mul_(s.momentum).add_(g.add_(self.w, alpha=s.weight_decay))
        self.w.sub_(self.m, alpha=lr)
