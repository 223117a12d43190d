"""Update of FedAvg: the received model replaces the client's."""

from furlkit.weights import Tensors


def replace(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors
) -> tuple[Tensors, Tensors, None]:
    """w <- w_g.

    With --update keep, w_g is the client's last model: FLESD's clients may differ in
    architecture, so no global model fits them. With --update continue, w_g is the
    client's model of the current round, for further training.
    """
    return w_g, memory, None
