"""MOON: z agrees with the global net and departs from the client's net of the last round.

Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021, Eq. 3-4.

    z        projections of the batch by the client's net                     (N, d)
    z_glob   projections of the batch by the global net at the start of the round
    z_prev   projections of the batch by the client's net at the end of the last round
    tau, mu  temperature, and weight of the term

    l_con = -log(exp(cos(z, z_glob) / tau)
                 / (exp(cos(z, z_glob) / tau) + exp(cos(z, z_prev) / tau)))
    loss  = objective + mu l_con

The objective of the paper is a cross-entropy of labels; here any objective with a
projector. The rows of z are all views of the batch, each compared with the same view in
the other nets.

The term is 0 in a client's first round, which has no z_prev: the authors' code starts
with an empty pool of earlier nets, and a softmax of a single number is 1. The text of the
paper on the first round was not at hand. A step makes two further forward passes without
gradients, for z_glob and z_prev: 1.6 times the CPU time of a step of SimCLR with cnn5. A
client keeps the weights of the round in the private file.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.terms.frozen import PARTS, Frozen


def model_contrast(z: Tensor, z_glob: Tensor, z_prev: Tensor, tau: float) -> Tensor:
    """MOON Eq. 3, the mean over rows; z_glob and z_prev are constant.

    With two logits the cross-entropy is softplus of their difference.
    """
    near = F.cosine_similarity(z, z_glob.detach(), dim=1)
    far = F.cosine_similarity(z, z_prev.detach(), dim=1)
    return F.softplus((far - near) / tau).mean()


def moon(
    net: Any, given: Mapping[str, Any], *, moon: float, moon_temperature: float
) -> Callable | None:
    """MOON Eq. 4, second summand, with mu = `moon`; None in a client's first round."""
    last = given["last"] if moon else {}
    if not {*PARTS} <= {name.partition(".")[0] for name in last}:
        return None
    global_net, previous_net = Frozen(net, given["received"]), Frozen(net, last)

    def term(batch, forward) -> Tensor:
        x, z = forward.views, forward.z
        z_glob, z_prev = global_net(x), previous_net(x)
        with torch.autocast(z.device.type, enabled=False):
            rows = (z.float(), z_glob.float(), z_prev.float())
            return moon * model_contrast(*rows, moon_temperature)

    return term
