"""FedU2's flexible uniform regulariser: z is spread over the sphere.

Liao et al., "Rethinking the Representation in Federated Unsupervised Learning with
Non-IID Data", CVPR 2024, the regulariser FUR.

    u_i     unit rows, projections of one view of the N images                (N, d)
    y_j     N unit rows with the directions of a Gaussian sample, new in each step
    C_ij    ||u_i - y_j||^2
    pi      plan of the transport between u and y, with free marginals        (N, N)
    rho     weight of the marginals; epsilon, smoothness of the plan

    pi = argmin <pi, C> + epsilon KL(pi | 1/N^2)
                + rho KL(pi 1 | 1/N) + rho KL(pi^T 1 | 1/N)
    FUR = lambda <pi, C>, summed over the views

The plan takes no gradient: at the minimum, the gradient of the whole expression is the
gradient of <pi, C> with a constant plan. A small rho lets rows far from the sample stay.

This is not the term of the authors' clients, which train with a sliced Wasserstein
distance in tangent spaces of the sphere; its gradient is 100 times larger. The form here
follows the abstract, summaries, and a class that the authors' clients do not use, which
solves without epsilon; the paper was not at hand. rho, epsilon and unit rows are our
choices: squared distances on the sphere are near 2, and with the class's rho of 0.1 the
plan is nearly 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@torch.no_grad()
def transport_plan(C: Tensor, rho: float, epsilon: float, iterations: int) -> Tensor:
    """pi for costs C (..., N, M), by Sinkhorn's iterations with soft marginals."""
    N, M = C.shape[-2:]
    K = (-C / epsilon).exp()
    kappa = rho / (rho + epsilon)
    v = C.new_ones(*C.shape[:-2], M, 1)
    for _ in range(iterations):
        u = (K @ v / M) ** -kappa  # (..., N, 1)
        v = (K.mT @ u / N) ** -kappa  # (..., M, 1)
    return u * K * v.mT / (N * M)


def transport_loss(
    u: Tensor, y: Tensor, rho: float, epsilon: float, iterations: int
) -> Tensor:
    """<pi, C> of unit rows u (..., N, d) and y (M, d), summed over leading dimensions."""
    C = 2 - 2 * u @ y.T  # (..., N, M)
    return (transport_plan(C.detach(), rho, epsilon, iterations) * C).sum()


def uniformity(
    net: nn.Module,
    given: Mapping[str, Any],
    *,
    uniformity: float,
    uniformity_marginals: float,
    uniformity_epsilon: float,
    uniformity_iterations: int,
) -> Callable | None:
    """The term with lambda = `uniformity`.

    The objective draws random numbers first, so the term does not change its draws.
    """
    if not uniformity:
        return None
    how = uniformity_marginals, uniformity_epsilon, uniformity_iterations

    def term(batch, forward) -> Tensor:
        z, N = forward.z, len(batch.index_cpu)
        y = torch.randn(N, z.shape[1], generator=batch.generator)
        y = F.normalize(y, dim=1).to(z.device)
        with torch.autocast(z.device.type, enabled=False):
            views = F.normalize(z.float(), dim=1).unflatten(0, (-1, N))
            return uniformity * transport_loss(views, y, *how)

    return term
