"""The update of FedAvg: the model that was given replaces the client's own."""

from furlkit.weights import Tensors


def replace(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors
) -> tuple[Tensors, Tensors, None]:
    """w <- w_g.

    With --update keep the client's own last model is given in the place of w_g: FLESD's
    clients may differ in architecture, so that no global model fits them. With --update
    continue it is the client's model of the same round, which is trained once more.
    """
    return w_g, memory, None
