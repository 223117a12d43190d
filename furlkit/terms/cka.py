"""Hetero-SSFL: a client relates public images to each other like the mean of all clients.

Makhija, Ho and Ghosh, "Federated Self-supervised Learning for Heterogeneous Clients",
2022 (arXiv 2205.12493). No weights are exchanged, so clients may have different nets.

    u         unit rows: h or z of B public images by the client's net           (B, d)
    K         u u^T, cosines between these images                                (B, B)
    K_mean    mean of the clients' cosines after the last round, for these images
    H         I - 1/B, the centring matrix
    mu        weight of the term

    CKA(K, L) = <HKH, HLH> / (||HKH|| ||HLH||)
    loss      = objective + mu (1 - CKA(K, K_mean))

The paper was not at hand; the form follows the abstract and public summaries: a linear
CKA between the client's kernel and the mean kernel of all clients, on a common dataset.
Our choices: unit rows, because in a mean of kernels of raw rows a net with long rows
outweighs the others; 1 - CKA for the distance; a random batch of the public images in
each step, with K and K_mean centred within the batch; eval mode like in `embed`, so that
BatchNorm's statistics describe private images only. The pass over the public batch costs
as much as for equally many views of private images.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.terms.alignment import eval_mode

EPSILON = 1e-8  # Added to ||HKH||^2: a collapsed net has HKH = 0, and a CKA of 0.


def centred(K: Tensor) -> Tensor:
    """H K H / ||H K H||, with means of rows and columns 0."""
    K = K - K.mean(dim=0, keepdim=True)
    K = K - K.mean(dim=1, keepdim=True)
    return K / (K.square().sum() + EPSILON).sqrt()


def linear_cka(K: Tensor, L: Tensor) -> Tensor:
    """CKA of two kernels (B, B): 0 to 1, and 1 for proportional centred kernels."""
    return (centred(K) * centred(L)).sum()


class Cka:
    """mu (1 - CKA) on a batch of public images."""

    def __init__(
        self, net: Any, given: Mapping[str, Any], mu: float, size: int
    ) -> None:
        self._net, self._given, self._mu, self._size = net, given, mu, size

    def batch_at(self, step: int) -> Any:
        """Public images of a step; the loop gathers mapped images one step ahead."""
        return self._given["kernel_images"](step, self._size)

    def __call__(self, batch, forward) -> Tensor:
        public, net = self.batch_at(batch.step), self._net
        with eval_mode(net):
            rows = net.encoder(public.plain())
            if self._given["kernel_layer"] == "z":
                rows = net.projector(rows)
        K_mean, places = self._given["kernel"], public.index
        with torch.autocast(rows.device.type, enabled=False):
            u = F.normalize(rows.float(), dim=1)
            L = K_mean[places].index_select(1, places)
            return self._mu * (1 - linear_cka(u @ u.T, L))


def cka(
    net: Any, given: Mapping[str, Any], *, cka: float, cka_batch_size: int
) -> Cka | None:
    """The term with mu = `cka`; none in a round without a mean kernel."""
    if not cka or "kernel" not in given:
        return None
    return Cka(net, given, cka, cka_batch_size)
