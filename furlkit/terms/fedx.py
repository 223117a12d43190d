"""FedX: knowledge distillation between a client's net and the frozen global net.

Han et al., "FedX: Unsupervised Federated Learning with Cross Knowledge Distillation",
ECCV 2022. The loss of FedX is the sum of four parts; the objective of the client is the
first part, the local contrastive loss.

    z_1, z_2     projections of two views of N images by the client's net      (N, d)
    p_1, p_2     predictions from z_1, z_2; z_1, z_2 in a model without a predictor
    g_1, g_2     projections of the views by the global net at the start of the round
    a            projections of other images: by the client's net or the global net
    tau, tau_t   temperatures of the relations and of the target

    global contrast     NT-Xent(p_1, g_2)                       over 2N rows
    relation            r_i = softmax(cos(z_i, a) / tau)        i = 1, 2
    target              r = mean_i softmax(cos(z_i, a) / tau_t)
    relational loss     (KL(r || r_1) + KL(r || r_2)) / 2       local: z and a of the net;
                                                                global: p and a of g

The paper was not at hand; the equations follow the authors' code. With tau = tau_t, as
in the code's defaults, the mean of both divergences is the Jensen-Shannon divergence
with its arguments exchanged; the gradient also flows through the target, as in the code.

The authors draw a second batch as `a`, which takes a further pass of both nets. Here `a`
is the first view of the other images of the batch, also a random sample of the client.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.terms.frozen import Frozen


def global_contrast(p_1: Tensor, g_2: Tensor, tau: float) -> Tensor:
    """NT-Xent over the 2N rows of p_1 and g_2, normalised here; g_2 is constant."""
    rows = F.normalize(torch.cat([p_1, g_2.detach()]), dim=1)  # (2N, d)
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    logits = (rows @ rows.T / tau).masked_fill(itself, float("-inf"))
    partners = torch.arange(len(rows), device=rows.device).roll(len(p_1))
    return F.cross_entropy(logits, partners)


def relational_loss(
    x_1: Tensor, x_2: Tensor, a: Tensor, tau: float, tau_t: float
) -> Tensor:
    """Mean over images of (KL(r || r_1) + KL(r || r_2)) / 2.

    All arguments are (N, d), with equal rows of images; row n of `a` is no anchor of
    image n.
    """
    a, cosines = F.normalize(a, dim=1), []
    itself = torch.eye(len(a), dtype=torch.bool, device=a.device)
    for x in (x_1, x_2):
        products = F.normalize(x, dim=1) @ a.T  # (N, N)
        # Not -inf: 0 times infinity in the divergence has no value.
        cosines.append(products.masked_fill(itself, -1e4))
    sharp = [F.log_softmax(c / tau_t, dim=1) for c in cosines]
    log_r = torch.logaddexp(*sharp) - math.log(2)
    return (
        _divergence(log_r, cosines[0] / tau) + _divergence(log_r, cosines[1] / tau)
    ) / 2


def _divergence(log_r: Tensor, logits: Tensor) -> Tensor:
    """KL(r || softmax(logits)), the mean over rows; finite even if r is 0 somewhere."""
    apart = log_r - F.log_softmax(logits, dim=1)
    return torch.linalg.vecdot(log_r.exp(), apart).mean()


def fedx(
    net: Any,
    given: Mapping[str, Any],
    *,
    fedx: float,
    fedx_temperature: float,
    fedx_target_temperature: float,
) -> Callable | None:
    """The term with weight `fedx`: global contrast, local and global relations."""
    if not fedx:
        return None
    frozen = Frozen(net, given["received"])
    tau, tau_t = fedx_temperature, fedx_target_temperature
    predict = net.head("predictor") or nn.Identity()

    def term(batch, forward) -> Tensor:
        z, g, p = forward.z, frozen(forward.views), predict(forward.z)
        with torch.autocast(z.device.type, enabled=False):
            (z_1, z_2), (p_1, p_2) = z.float().chunk(2), p.float().chunk(2)
            g_1, g_2 = g.float().chunk(2)
            local = relational_loss(z_1, z_2, z_1, tau, tau_t)
            distilled = relational_loss(p_1, p_2, g_1, tau, tau_t)
            return fedx * (global_contrast(p_1, g_2, tau) + local + distilled)

    return term
