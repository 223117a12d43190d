"""Cross-entropy on labels: what FedAvg's supervised clients minimise.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, Eq. 1, with the log loss as f_i.
"""

import torch.nn.functional as F
from torch import Tensor


def supervised_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of labels y under the classifier's logits.

        -1/B sum_b log softmax(logits_b)[y_b]

    logits (B, classes); y (B), whole numbers 0 to classes - 1.
    """
    return F.cross_entropy(logits, y)


def step(net, batch) -> tuple[dict[str, Tensor], Tensor]:
    """One view is classified; gives h."""
    h = net.encoder(batch.one_view())
    logits = net.classifier(h).float()
    return {"supervised": supervised_loss(logits, batch.labels)}, h
