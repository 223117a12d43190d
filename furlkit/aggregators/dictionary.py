"""The dictionary: rows of all clients, which are negatives for each of them."""

from collections.abc import Sequence

import numpy as np


def dictionary(rows: Sequence[np.ndarray], size: int) -> list[np.ndarray]:
    """FedCA, Algorithm 1, server, line 9: the clients' rows, one after the other.

    `rows` are each client's, in client order. At most `size` = K rows are kept: the
    last ones are cut off, client by client.
    """
    kept, room = [], size
    for given in rows:
        kept.append(given[:room])
        room -= len(kept[-1])
    return kept
