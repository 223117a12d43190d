"""Style infusion: the objective's loss once more, of views infused with local style.

"More Generalized and Personalized Unsupervised Representation Learning In A Distributed
System", FedStyle, Eq. 3 and Algorithm 3.

    h_c       h of a view by the net, the content model                     (N, d)
    h_s       of the same image, not augmented, by the client's style model
    h_sobel   the same of its Sobel image
    G         the generator, (h_c, h_s) -> h', trained with the net, and kept
    lambda    weight of the second loss

View 1 is infused with h_s, view 2 with h_sobel. The style model is frozen, so that both
are known before the first step.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def infused(G: nn.Module, h_c: Tensor, h_s: Tensor) -> Tensor:
    """FedStyle Algorithm 3, lines 7-8: h' = G(concat[h_c, h_s])."""
    return G(torch.cat([h_c, h_s], dim=1))  # (N, d)


@contextmanager
def statistics_kept(norms: Iterable[_BatchNorm]) -> Iterator[None]:
    """BatchNorm still normalises by batches, but leaves its running statistics alone.

    They stay those of views that are not infused, which is what the heads are given
    in eval mode.
    """
    for norm in norms:
        norm.track_running_stats = False
    yield
    for norm in norms:
        norm.track_running_stats = True


def infusion(
    net: nn.Module, given: Mapping[str, Any], *, infusion: float, freeze_generator: bool
) -> Callable | None:
    """FedStyle Eq. 3, second summand: lambda L_unsup(g(h'_1), g(h'_2))."""
    if not infusion:
        return None
    learner, styles = given["learner"], given["styles"]
    G = learner.generator
    G.requires_grad_(not freeze_generator)
    every = (m for m in learner.modules() if isinstance(m, _BatchNorm))
    norms = [norm for norm in every if norm.track_running_stats]

    def term(batch, forward):
        if forward.again is None:
            raise ValueError("infusion: the objective's pass cannot be made again")
        rows = batch.index
        h_s = [style[rows] for style in styles]  # of view 1, of view 2
        with statistics_kept(norms):
            again = forward.again(lambda h, view: infused(G, h, h_s[view]))
        (loss,) = again.losses.values()
        # The views differ in style, which would hide that images of one are all alike.
        z = again.z[: len(rows)]
        return again._replace(losses={"infusion": infusion * loss}, z=z)

    return term
