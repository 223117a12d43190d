"""FedDecorr: the numbers of a representation stay uncorrelated.

Shi et al., "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous
Federated Learning", ICLR 2023, the regulariser L_FedDecorr.

    h       representations of the batch, all views                           (N, d)
    K       correlation matrix of the columns of h                            (d, d)
    beta    weight of the term

    beta / d^2 ||K||_F^2

The paper was not at hand; the form follows quotations and the authors' code. The code
takes the mean over the off-diagonal values of (h^T h)^2 / N, h standardised by the
unbiased variance, which is (N - 1)^2 / N times the mean of K^2: `--decorrelation-form
code`. The diagonal of K is constant, so the two gradients differ by a factor only:
(N - 1)^2 d / (N (d - 1)).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

FORMS = ("paper", "code")
EPSILON = 1e-8  # Added to variances; a constant column then has the correlation 0.


def standardised(h: Tensor) -> Tensor:
    """Columns with mean 0 and variance 1."""
    h = h - h.mean(dim=0)
    return h / (h.square().mean(dim=0) + EPSILON).sqrt()


def decorrelation_loss(h: Tensor, form: str = "paper") -> Tensor:
    """||K||_F^2 / d^2 (paper), or (N - 1)^2 / N times the mean off-diagonal K^2 (code)."""
    if form not in FORMS:
        raise ValueError(f"form {form!r}: expected one of {', '.join(FORMS)}")
    x = standardised(h)
    N, d = x.shape
    # ||x^T x||_F = ||x x^T||_F: the smaller product.
    product = x @ x.T if d > N else x.T @ x
    total = product.square().sum() / N**2  # ||K||_F^2
    if form == "paper":
        return total / d**2
    diagonal = x.square().mean(dim=0).square().sum()
    return (N - 1) ** 2 / N * (total - diagonal) / max(d * (d - 1), 1)


def decorrelation(
    net: nn.Module,
    given: Mapping[str, Any],
    *,
    decorrelation: float,
    decorrelation_form: str,
) -> Callable | None:
    """The term with beta = `decorrelation`."""
    if not decorrelation:
        return None

    def term(batch, forward) -> Tensor:
        with torch.autocast(forward.h.device.type, enabled=False):
            loss = decorrelation_loss(forward.h.float(), decorrelation_form)
            return decorrelation * loss

    return term
