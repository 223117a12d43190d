"""The update of a client that continues with its own model, whatever the server sends."""

from furlkit.weights import Tensors


def own(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors
) -> tuple[Tensors, Tensors, None]:
    """w <- w_k, and w <- w_g in the client's first round.

    So FedStyle has FedProx: w_g is not what a client starts from, only what the proximal
    term pulls it towards.
    """
    return {**w_g, **(w_k or {})}, memory, None
