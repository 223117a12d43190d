"""Update of ASTW: clients send deep layers only in some rounds.

Chen, Sun and Jin, "Communication-Efficient Federated Deep Learning with Layerwise
Asynchronous Model Update and Temporally Weighted Aggregation", IEEE TNNLS 2020. The
second half of ASTW, weights for models of earlier rounds, is `aggregate --staleness`.

Clients send parts: the encoder contains the paper's shallow layers, the heads the deep
layers (fully connected in the paper too). If the server has not published deep layers,
a client continues with its deep layers; the paper's clients return, at the first
exchange of a cycle, to the server's deep layers of the last exchange.
"""

from collections.abc import Iterable

from furlkit.errors import UsageError
from furlkit.weights import Tensors

SHALLOW = "encoder"


def astw(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors, *, cycle: int, exchanges: int
) -> tuple[Tensors, Tensors, None]:
    """w <- w_g; deep layers missing there are the client's."""
    return w_g, memory, None


def sent_parts(
    parts: Iterable[str], round_: int, *, cycle: int, exchanges: int
) -> tuple[str, ...]:
    """All parts in the last `exchanges` rounds of each cycle, otherwise the encoder.

    Rounds start at 1: cycles of 15 with 5 exchanges send all in 11 to 15, 26 to 30.
    """
    if exchanges > cycle:
        raise UsageError(
            f"--exchanges {exchanges}: are the last of the {cycle} rounds of --cycle, so "
            "there cannot be more of them; lower it"
        )
    place = (round_ - 1) % cycle + 1
    deep = place > cycle - exchanges
    return tuple(part for part in parts if deep or part == SHALLOW)
