"""Dynamic update mechanism of FedUSC: a distant client keeps a share of its model.

Zhao et al., "FedUSC: Collaborative Unsupervised Representation Learning from
Decentralized Data for Internet of Things", IEEE Internet of Things Journal 2023.

    q_g, q_c    the global model's backbone and clusters; the client's after its last round
    mu          largest distance at which the client takes q_g
    xi          share of q_c kept beyond mu
"""

from furlkit.updates.decision import Decision
from furlkit.updates.distances import mean_conv, relative, sum_squares
from furlkit.weights import Tensors, divide, mixed

# Other heads, such as the pretext task's projector, are always the server's.
SCOPE = ("encoder", "clusters")
DISTANCES = {"mean-conv": mean_conv, "sum-squares": sum_squares, "relative": relative}


def dum(
    w_g: Tensors,
    w_k: Tensors | None,
    memory: Tensors,
    *,
    xi: float,
    mu: float,
    distance: str,
) -> tuple[Tensors, Tensors, Decision]:
    """FedUSC Eq. 4: q_c <- q_g                       if d(q_c, q_g) <= mu,
                     q_c <- xi q_c + (1 - xi) q_g     otherwise.

    xi also mixes BatchNorm statistics of the backbone.
    """
    q_g, q_c = (divide(w, SCOPE)[0] for w in (w_g, w_g if w_k is None else w_k))
    gap = DISTANCES[distance](q_g, q_c)
    if w_k is None:
        return w_g, memory, Decision(0.0)
    if gap <= mu or xi == 0:
        return w_g, memory, Decision(0.0, gap)
    return {**w_g, **mixed(q_c, q_g, xi)}, memory, Decision(xi, gap)
