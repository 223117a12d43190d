"""FedStyle Eq. 4: train a linear classifier on h = h_c + G(concat[h_c, h_s]), and G.

    h_c, h_s    outputs of the frozen content and style models                (N, d)
    G           the client's generator, (h_c, h_s) -> (N, d), trained with the head

"For the personalization linear evaluation, we optimize the generator along with the
linear classifier": one optimiser trains both, starting from the client's G.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.errors import FurlkitError
from furlkit.evaluation.linear import (
    Head,
    LinearSettings,
    draw_orders,
    draw_start,
    predict_linear,
)
from furlkit.evaluation.scores import check_labelled, check_pair


class Pair(NamedTuple):
    """h_c and h_s of a set of images."""

    content: Tensor
    style: Tensor


class Personal(NamedTuple):
    """A generator and the classifier of its outputs."""

    G: nn.Module
    head: Head

    def predict(self, pair: Pair) -> Tensor:
        """Class with the largest logit of each row: (M)."""
        return predict_linear(stylised(self.G, pair).detach(), *self.head)


def stylised(G: nn.Module, pair: Pair) -> Tensor:
    """FedStyle Eq. 4: h = h_c + G(concat[h_c, h_s])."""
    return pair.content + G(torch.cat(pair, dim=1))  # (N, d)


def fit_stylised(
    pair: Pair,
    labels: Tensor,
    classes: int,
    settings: LinearSettings,
    generators: Sequence[torch.Generator],
    G: nn.Module,
) -> list[Personal]:
    """Train a head and a copy of G for each random generator.

    A random generator draws the head's initial weights, then the order of the rows in
    each epoch, like the first in `fit_linear`. Frozen parameters of G stay constant.
    """
    check_labelled(pair.content, labels, classes)
    check_pair(*pair)
    return [_fit(pair, labels, classes, settings, drawn, G) for drawn in generators]


def _fit(
    pair: Pair,
    labels: Tensor,
    classes: int,
    settings: LinearSettings,
    drawn: torch.Generator,
    G: nn.Module,
) -> Personal:
    own, d = deepcopy(G), pair.content.shape[1]
    start = draw_start(d, classes, drawn).to(pair.content.device)
    weight = start[: classes * d].reshape(classes, d).clone().requires_grad_()
    bias = start[classes * d :].clone().requires_grad_()
    trained = [weight, bias, *(p for p in own.parameters() if p.requires_grad)]
    optimiser = _optimiser(trained, settings)
    orders = draw_orders(len(labels), drawn)
    for epoch in range(settings.epochs):
        optimiser.param_groups[0]["lr"] = settings.lr_at(epoch)
        for rows in next(orders).to(labels.device).split(settings.batch_size):
            h = stylised(own, Pair(*(part[rows] for part in pair)))
            loss = F.cross_entropy(F.linear(h, weight, bias), labels[rows].long())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    if not all(torch.isfinite(each).all() for each in trained):
        raise FurlkitError(
            f"linear head and generator diverged at lr {settings.lr}; lower the rate"
        )
    return Personal(own, Head(weight.detach(), bias.detach()))


def _optimiser(trained: list[Tensor], s: LinearSettings) -> torch.optim.Optimizer:
    lr, decay = s.lr, s.weight_decay
    if s.optimiser == "adam":
        return torch.optim.Adam(trained, lr=lr, weight_decay=decay)
    return torch.optim.SGD(trained, lr=lr, momentum=s.momentum, weight_decay=decay)
