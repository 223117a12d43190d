"""Measures of a batch's representations without labels, for the journal of a training."""

import torch
from torch import Tensor

from furlkit.evaluation.collapse import rankme
from furlkit.evaluation.drift import alignment, uniformity


def quality(z: Tensor, pairs: bool) -> dict[str, float]:
    """RankMe and uniformity of z (N, d); with `pairs` also the alignment of two views.

    With `pairs` z has all first views, then all second views, and the uniformity is the
    mean over the views. A value that z does not allow is left out: the uniformity of a
    single row, and all values of rows that are not finite.
    """
    z = z.detach().float().cpu()
    if not torch.isfinite(z).all():
        return {}
    views = z.chunk(2) if pairs and len(z) % 2 == 0 else (z,)
    found = {"rankme": rankme(z)}
    if len(views[0]) > 1:
        found["uniformity"] = sum(map(uniformity, views)) / len(views)
    if len(views) == 2:
        found["alignment"] = alignment(*views)
    return found
