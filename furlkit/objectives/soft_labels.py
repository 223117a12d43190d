"""Distillation of class probabilities, used by the server and the clients of DS-FL.

Itahara et al., "Distillation-Based Semi-Supervised Federated Learning for
Communication-Efficient Collaborative Training with Non-IID Private Data", IEEE TMC 2021.

    p    class probabilities of an image, combined from all clients    (B, C)
"""

import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward


def soft_label_loss(logits: Tensor, p: Tensor) -> Tensor:
    """-1/B sum_b sum_c p_bc log softmax(logits_b)[c]: cross-entropy with soft labels."""
    return -(p * F.log_softmax(logits, dim=1)).sum(dim=1).mean()


def step(net, batch, *, head, probabilities: Tensor) -> Forward:
    """Classify one view; `probabilities` (n, C) has a row for every image.

    `head` is a models.description.ClassHead.
    """
    x = batch.one_view()
    h = net.encoder(x)
    logits = head.logits(net, h).float()
    p = probabilities[batch.index]
    return Forward({"distillation": soft_label_loss(logits, p)}, x, h)
