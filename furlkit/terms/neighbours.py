"""Neighbourhood matching: each image is drawn to its nearest rows.

"Federated Contrastive Representation Learning with Feature Fusion and Neighborhood
Matching", FCL, Eq. 7-12.

    q_i        unit rows, projections of the batch                           (B, d)
    Q'         K candidates, drawn from the rows Q_s u Q_l                   (K, d)
    P(q_i)     neighbours n_j of q_i: the N candidates with the highest cosine
    L_j        n_j and the candidates outside P(q_i), K - N + 1 rows
    p_ija      softmax over the rows a of L_j of q_i . n_a / tau
    lambda     weight of the term

A small entropy of p_ij means a confident choice of n_j by q_i.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def draw_candidates(rows: Tensor, K: int, generator: Generator) -> Tensor:
    """FCL Eq. 7: draw K different rows uniformly; all rows if there are fewer."""
    if len(rows) <= K:
        return rows
    order = torch.randperm(len(rows), generator=generator)
    # On a CPU rows[...] takes five times as long.
    return rows.index_select(0, order[:K].to(rows.device))


def neighbour_loss(q: Tensor, candidates: Tensor, N: int, tau: float) -> Tensor:
    """FCL Eq. 8-11 for unit rows: the mean entropy of p_ij over images i, neighbours j.

    The sets L_j of an image share the rows outside P(q_i), the rest. The entropy of
    p_ij is the entropy of the choice between n_j (probability w) and the rest, plus the
    entropy within the rest:

        H(p_ij) = H(w, 1 - w) + (1 - w) H(rest)        w = p_ij of n_j

    One softmax over the candidates then serves all N neighbours. Candidates take no
    gradient. Without a rest p_ij is 1, and the loss 0.
    """
    if len(candidates) <= N:
        return q.new_zeros(())
    s = (q / tau) @ candidates.detach().T  # (B, K)
    top, where = s.topk(N + 1, dim=1)
    near, highest = top[:, :N], top[:, N:].detach()  # (B, N) and (B, 1), of the rest
    rest = s.scatter(1, where[:, :N], float("-inf"))  # (B, K)
    # The softmax by hand: torch's, with logsumexp, takes nearly twice as long.
    weights = (rest - highest).exp()
    total = weights.sum(dim=1, keepdim=True)  # (B, 1)
    log_sum = highest + total.log()
    entropy = log_sum - torch.linalg.vecdot(weights, s)[:, None] / total  # (B, 1)
    log_w, log_v = F.logsigmoid(near - log_sum), F.logsigmoid(log_sum - near)  # (B, N)
    w, v = log_w.exp(), log_v.exp()  # v = 1 - w
    return (v * entropy - w * log_w - v * log_v).mean()


def neighbours(
    net,
    given,
    *,
    neighbours: int,
    neighbour_candidates: int,
    neighbour_temperature: float,
    neighbour_weight: float,
) -> Callable | None:
    """FCL Eq. 12, second summand: lambda L_neigh on the rows of the step.

    For objectives without negatives, the rows are rows of other clients. The objective
    draws its random numbers first, so the term does not change them; the generator
    belongs to the step, so a resumed training draws equal rows.
    """
    if not neighbours:
        return None

    def term(batch, forward) -> Tensor:
        with torch.autocast(forward.z.device.type, enabled=False):
            q = F.normalize(forward.z.float(), dim=1)
            rows = given.get("rows") if forward.rows is None else forward.rows
            rows = q[:0] if rows is None else rows  # No client has shared rows yet.
            rows = draw_candidates(rows, neighbour_candidates, batch.generator)
            loss = neighbour_loss(q, rows, neighbours, neighbour_temperature)
            return neighbour_weight * loss

    return term
