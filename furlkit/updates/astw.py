"""The update of ASTW: deep layers travel in some rounds only.

Chen, Sun and Jin, "Communication-Efficient Federated Deep Learning with Asynchronous
Model Update and Temporally Weighted Aggregation", IEEE TNNLS 2020. Its other half, the
weights of models of earlier rounds, is `aggregate --staleness`.

What travels are parts, so the encoder is what the paper calls the shallow layers, and
the heads, which are fully connected there too, are the deep ones. Where the server has
not published deep layers, a client trains on with its own; the paper's clients return at
the first exchange of a cycle to what the server has kept from the last one.
"""

from collections.abc import Iterable

from furlkit.errors import UsageError
from furlkit.weights import Tensors

SHALLOW = "encoder"


def astw(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors, *, cycle: int, exchanges: int
) -> tuple[Tensors, Tensors, None]:
    """w <- w_g, whose deep layers are the client's own where the server has none."""
    return w_g, memory, None


def sent_parts(
    parts: Iterable[str], round_: int, *, cycle: int, exchanges: int
) -> tuple[str, ...]:
    """All parts in the last `exchanges` rounds of each cycle, else the encoder alone.

    Rounds are counted from 1: of cycles of 15 with 5 exchanges, in 11 to 15, 26 to 30.
    """
    if exchanges > cycle:
        raise UsageError(
            f"--exchanges {exchanges}: are the last of the {cycle} rounds of --cycle, so "
            "there cannot be more of them; lower it"
        )
    place = (round_ - 1) % cycle + 1
    deep = place > cycle - exchanges
    return tuple(part for part in parts if deep or part == SHALLOW)
