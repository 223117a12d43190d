"""Update of a client that continues with its model and ignores the server's."""

from furlkit.weights import Tensors


def own(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors
) -> tuple[Tensors, Tensors, None]:
    """w <- w_k; in the client's first round w <- w_g.

    FedStyle uses FedProx in this way: a client does not start from w_g; the proximal
    term pulls the client towards w_g.
    """
    return {**w_g, **(w_k or {})}, memory, None
