"""Cross-entropy on labels, the loss of FedAvg's supervised clients.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, with the log loss for f_i.
"""

import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward


def supervised_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of labels y under the classifier's logits.

        -1/B sum_b log softmax(logits_b)[y_b]

    logits (B, classes); y (B), whole numbers 0 to classes - 1.
    """
    return F.cross_entropy(logits, y)


def step(net, batch) -> Forward:
    """Classify one view."""
    x = batch.one_view()
    h = net.encoder(x)
    loss = supervised_loss(net.classifier(h).float(), batch.labels)
    return Forward({"supervised": loss}, x, h)
