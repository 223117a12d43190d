"""The update of a client that carries on from its own model."""

import numpy as np

Tensors = dict[str, np.ndarray]


def keep(w_own: Tensors, w_kept: Tensors) -> Tensors:
    """w <- w_own: the model the client trained last, whatever the server made since.

    FLESD's clients may differ in architecture, so that no global model fits them. What
    the client kept in a private file fills in what its model lacks.
    """
    return {**w_kept, **w_own}
