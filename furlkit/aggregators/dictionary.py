"""FedCA's dictionary: rows of the clients, used as negatives by every client.

Zhang et al., "Federated Unsupervised Representation Learning", FedCA, Eq. 9-10 and
Algorithm 1. A client averages the projections of private images over rounds, keeps the
averages and shares some rows; the shared rows form the next dictionary.

    Z        averaged features, a row for each image, 0 before round 1      (n, d)
    z        projections of the images                                      (n, d)
    alpha    weight of the past, 0 <= alpha < 1
    K, m     rows of the dictionary, clients that share rows

The client's trained model computes z (Algorithm 1, line 5); or the received global
model, as in the paper's text on a dictionary without averaging, alpha 0. With the
global model and alpha above 0, Eq. 9 averages the global models' z.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

# Rows equal to DIGITS digits are duplicates; warn above the fraction REPEATED.
DIGITS, REPEATED = 4, 0.1
ONE_WAY = 0.99  # Length of the mean of unit rows with nearly one direction.
# Warn above this fraction of rows that another client has too, of SAMPLE rows.
COPIED, SAMPLE = 0.5, 64


def average_features(Z: np.ndarray, z: np.ndarray, alpha: float) -> np.ndarray:
    """FedCA Eq. 9: Z <- alpha Z + (1 - alpha) z; with alpha = 0, z."""
    if Z.shape != z.shape:
        raise ValueError(f"Z {Z.shape} and z {z.shape}: not the same images")
    return (alpha * Z + (1 - alpha) * z).astype(z.dtype)


def unit_rows(Z: np.ndarray) -> np.ndarray:
    """FedCA Eq. 10: Z_i / ||Z_i||; the correction 1 / (1 - alpha^t) cancels.

    A row of zeros has no direction and stays unchanged.
    """
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return (Z / np.maximum(length, np.finfo(Z.dtype).tiny)).astype(Z.dtype)


def rows_to_share(size: int, participants: int) -> int:
    """ceil(K / m): number of rows that each of m clients gives to K rows."""
    return -(-size // participants)


def drawn_places(images: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random images to share, by place; all images if there are fewer than `count`."""
    return rng.choice(images, min(count, images), replace=False)


def shared_rows(Z: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """FedCA Eq. 10 for `count` random rows of Z (all rows, if Z has fewer).

    Rows of zeros, from a collapsed model, have no direction and are dropped.
    """
    chosen = Z[drawn_places(len(Z), count, rng)]
    return unit_rows(chosen[np.abs(chosen).max(axis=1) > 0])


def noisy_rows(rows: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Unit rows u + sigma n, scaled back to length 1; n has standard Gaussian numbers.

    In d dimensions the expected cosine with u is about 1 / sqrt(1 + d sigma^2): equal
    sigma hides more in longer rows. The lengths tell nothing after scaling.
    """
    noise = rng.standard_normal(rows.shape, np.float32)
    return unit_rows((rows + sigma * noise).astype(rows.dtype))


def dictionary(rows: Sequence[np.ndarray], size: int) -> list[np.ndarray]:
    """FedCA, Algorithm 1, server, line 9: concatenate the clients' rows.

    `rows`: rows of each client, in client order. At most `size` = K rows remain: the
    last rows are cut off, client by client.
    """
    kept, room = [], size
    for given in rows:
        kept.append(given[:room])
        room -= len(kept[-1])
    return kept


def mixed_order(rows: np.ndarray) -> np.ndarray:
    """Sort rows by a hash of the row: the order tells nothing about the owners.

    A shuffle needs randomness that is neither public nor lost, to give equal bytes in a
    repeated command. This order depends on the set of the rows alone, so whoever knows
    the rows learns nothing from the order.
    """
    digests = [sha256(np.ascontiguousarray(row).data).digest() for row in rows]
    return rows[sorted(range(len(rows)), key=digests.__getitem__)]


def distinct_rows(rows: np.ndarray, most: float) -> np.ndarray:
    """Drop unit rows with a cosine above `most` to an earlier row that was kept.

    A row that a client repeats, exactly or nearly, is then a single negative. Rows have
    the length 1, so a limit of lengths would change nothing.
    """
    kept: list[int] = []
    for k, row in enumerate(rows):
        if not kept or (rows[kept] @ row).max() <= most:
            kept.append(k)
    return rows[kept]


def repeat_warnings(uploads: Sequence[Any]) -> tuple[str, ...]:
    """Texts about clients with many rows of one direction."""
    counts = [(upload, repeated(upload.rows)) for upload in uploads]
    return tuple(
        f"{upload.path}: {count:,} of the {len(upload.rows):,} rows of client "
        f"{upload.facts.client} repeat other rows; the client is hostile or the model has "
        "collapsed"
        for upload, count in counts
        if count > REPEATED * len(upload.rows)
    )


def oddities(uploads: Sequence[Any]) -> Iterator[str]:
    """Texts about clients with rows near one direction, or with another client's rows.

    Rows of random or reversed directions look like rows of another model: no text. If the
    rows of most clients are near one direction, the common model is young or has
    collapsed, and no client stands out.
    """
    owners: dict[bytes, Any] = {}
    lengths = {upload.path: _mean_length(upload.rows) for upload in uploads}
    usual = np.median([*lengths.values()]) if lengths else 0
    for upload in uploads:
        rows, client = upload.rows, upload.facts.client
        many = repeated(rows) > REPEATED * len(rows)  # See `repeat_warnings`.
        length = lengths[upload.path]
        if len(rows) > 1 and not many and length > ONE_WAY >= usual:
            yield (
                f"{upload.path}: the {len(rows):,} rows of client {client} have nearly one "
                f"direction (their mean has length {length:.3f}); the client is hostile "
                "or the model has collapsed"
            )
        digests = _some_digests(rows)
        others = Counter(owners[each].path for each in digests if each in owners)
        for path, count in others.items():
            if count > COPIED * len(digests):
                yield (
                    f"{upload.path}: most rows of client {client} are rows of another "
                    f"client too ({path})"
                )
        owners |= {each: upload for each in digests if each not in owners}


def _some_digests(rows: np.ndarray) -> list[bytes]:
    """Least hashes of directions: clients with equal rows have equal ones."""
    return sorted(sha256(row).digest() for row in _rounded(rows))[:SAMPLE]


def _mean_length(rows: np.ndarray) -> float:
    return float(np.linalg.norm(unit_rows(rows).mean(axis=0, dtype=np.float64)))


def repeated(rows: np.ndarray) -> int:
    """Number of rows equal to an earlier row, to DIGITS digits of the direction."""
    return len(rows) - len(_rounded(rows))


def _rounded(rows: np.ndarray) -> set[bytes]:
    """Directions of the rows, to DIGITS digits."""
    # Adding 0 turns -0 into 0, with other bytes.
    return {row.tobytes() for row in np.round(unit_rows(rows), DIGITS) + 0}
