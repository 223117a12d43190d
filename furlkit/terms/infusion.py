"""Style infusion: a second loss, of views infused with the client's style.

"More Generalized and Personalized Unsupervised Representation Learning In A Distributed
System", FedStyle, Eq. 3 and Algorithm 3.

    h_c       h of a view by the net, the content model                     (N, d)
    h_s       h of the image, without augmentation, by the client's style model
    h_sobel   h of the image's Sobel image by the style model
    G         the generator, (h_c, h_s) -> h', trained with the net, and stored
    lambda    weight of the second loss

View 1 is infused with h_s, view 2 with h_sobel. The style model is frozen, so h_s and
h_sobel are computed before the first step.
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
    """BatchNorm normalises by batches but does not update its running statistics.

    In eval mode, heads receive views without style; the statistics describe only them.
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
            raise ValueError("infusion: the objective's pass cannot be repeated")
        rows = batch.index
        h_s = [style[rows] for style in styles]  # views 1 and 2
        with statistics_kept(norms):
            again = forward.again(lambda h, view: infused(G, h, h_s[view]))
        (loss,) = again.losses.values()
        # The views differ in style, which would hide a collapse within a view.
        z = again.z[: len(rows)]
        return again._replace(losses={"infusion": infusion * loss}, z=z)

    return term
