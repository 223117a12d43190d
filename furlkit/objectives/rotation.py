"""Rotation prediction: classify by how many quarter turns an image is rotated.

Gidaris et al., "Unsupervised Representation Learning by Predicting Image Rotations",
ICLR 2018; the objective of FedPR (FedRot).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward


def rotation_loss(logits: Tensor, turns: Tensor) -> Tensor:
    """Mean cross-entropy of the quarter turns.

        -1/B sum_b log softmax(logits_b)[turns_b]

    logits (B, 4); turns (B), whole numbers 0 to 3, in quarter turns.
    """
    return F.cross_entropy(logits, turns)


def step(net, batch) -> Forward:
    """Rotate every image by all four turns."""
    x = batch.one_view()  # (N, C, S, S)
    turned = torch.cat([torch.rot90(x, k, (2, 3)) for k in range(4)])  # (4N, C, S, S)
    turns = torch.arange(4, device=x.device).repeat_interleave(len(x))
    h = net.encoder(turned)
    loss = rotation_loss(net.rotation(h).float(), turns)
    return Forward({"rotation": loss}, turned, h)
