"""The server of SCAFFOLD: clients correct their steps by control variates.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
ICML 2020, Algorithm 1, lines 16 to 17.

    x         the global model that the clients started from: --parent
    c         the server's control variate, tensors control.NAME of --parent; 0 at first
    y_k       the model of client k
    Delta_k   c_k+ - c_k, tensors control.NAME of the upload of client k
    S, N      clients of the round, and of the federation: --clients
    eta_g     --lr

    x <- x + eta_g sum_k p_k (y_k - x)
    c <- c + |S| / N mean_k Delta_k

The paper has equal shares p_k. The result holds x and, as control.NAME, c, which every
client of the next round needs. BatchNorm's statistics and integers are averaged.

Memory is a piece of a tensor for each thread; the uploads are read once.
"""

from collections.abc import Iterator

import numpy as np

from furlkit.aggregators.mean import mean
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.errors import UsageError
from furlkit.weights import weighted_sum

CONTROL = "control."


def scaffold(uploads: Uploads, *, lr: float, clients: int | None) -> Pieces:
    """Algorithm 1, lines 16 to 17; N is `clients`, or the clients of the round."""
    average, present = mean(uploads), len(uploads.clients)
    total = clients or present
    if total < present:
        raise UsageError(
            f"--clients {clients}: is the number of all clients; this round alone has "
            f"{present}"
        )

    def pieces(name: str) -> Iterator[np.ndarray]:
        if name not in uploads.weights:
            return average(name)
        # |S| / N times a mean over S is a sum over S, divided by N.
        if name.startswith(CONTROL):
            shares, start, scale = [1 / total] * present, 1.0, 1.0
        else:
            shares, start, scale = list(uploads.shares(name)), 1 - lr, lr

        def step(column: Iterator[np.ndarray]) -> np.ndarray:
            before = next(column).astype(np.float64)
            found = weighted_sum((a.astype(np.float64) for a in column), shares)
            return (start * before + scale * found).astype(uploads.weights[name])

        return uploads.combine(name, step, parent=True)

    return pieces
