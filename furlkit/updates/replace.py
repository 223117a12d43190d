"""The update of FedAvg: the global model replaces the client's own."""

import numpy as np

Tensors = dict[str, np.ndarray]


def replace(w_global: Tensors, w_local: Tensors) -> Tensors:
    """w <- w_global.

    Tensors the server left out (BatchNorm statistics, under `aggregate --bn keep`) are
    the client's own, where it has them.
    """
    return {**w_local, **w_global}
