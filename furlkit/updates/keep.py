"""The update of a client that continues from its own model."""

from furlkit.weights import Tensors


def keep(
    w_own: Tensors, w_k: Tensors | None, memory: Tensors
) -> tuple[Tensors, Tensors]:
    """w <- w_own: the model that the client trained last, given in the global one's place.

    FLESD's clients may differ in architecture, so that no global model fits them.
    """
    return w_own, memory
