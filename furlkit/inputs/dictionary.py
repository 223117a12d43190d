"""What a client shares with the others, and the ensemble Z it takes it from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from furlkit.aggregators.averaged import accumulate, rows_to_share, unit_rows
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.features import FeatureFacts, Features, read_features
from furlkit.files.private import ENSEMBLE, Private

ROWS, INDEX = f"{ENSEMBLE}rows", f"{ENSEMBLE}index"


@dataclass(frozen=True)
class Sharing:
    """FedCA's dictionary: the one that was made, and the client's part of the next.

    `dictionary_size` is K and `participants` m, the clients that share rows; None stands
    for all of the partition. `features_out` may hold `{client}`.
    """

    dictionary: Path | None
    leave_own_out: bool
    features_out: str | None
    alpha: float
    dictionary_size: int
    participants: int | None

    def rows(self, clients: int) -> int:
        """How many rows a client shares, ceil(K / m), where there are so many clients."""
        return rows_to_share(self.dictionary_size, self.participants or clients)


def open_dictionary(path: Path, width: int, model: Checkpoint) -> Features:
    """Read a dictionary for a global model whose z has `width` numbers."""
    found, round_ = read_features(path), model.facts.round
    if found.facts.layer != "z":
        raise InputError(
            f"{path}: holds {found.facts.layer}, a dictionary of z was wanted; make it "
            "with aggregate --rule dictionary, or embed --layer z"
        )
    if found.rows.shape[1] != width:
        raise InputError(
            f"{path}: its rows have {found.rows.shape[1]} numbers, the model's z has "
            f"{width}; use the dictionary that was made with this model"
        )
    if found.facts.round is not None and found.facts.round > round_:
        raise InputError(
            f"{path}: is of round {found.facts.round}, the model of round {round_}; "
            "use the dictionary of the model's own round"
        )
    parents = {found.facts.parent, model.facts.parent} - {None}
    if found.facts.round == round_ and len(parents) > 1:
        raise InputError(
            f"{path}: was made by clients of another run than {model.path}; use the "
            "dictionary and the model of one run"
        )
    check_owners(found)
    return found


def check_owners(dictionary: Features) -> None:
    """What a dictionary says of its owners must fit its rows."""
    owners = dictionary.facts.owners
    if owners is None:
        return
    if not all(len(pair) == 2 and min(pair) >= 0 for pair in owners):
        raise InputError(
            f"{dictionary.path}: its owners are no list of [client, rows]; make it anew "
            "with aggregate --rule dictionary"
        )
    if sum(rows for _, rows in owners) != len(dictionary.rows):
        raise InputError(
            f"{dictionary.path}: has {len(dictionary.rows)} rows, its owners have "
            f"{sum(rows for _, rows in owners)}"
        )


def rows_of_others(dictionary: Features, client: int) -> np.ndarray:
    """The dictionary without the client's own rows."""
    owners = dictionary.facts.owners
    if owners is None:
        raise UsageError(
            f"--leave-own-out: {dictionary.path} does not say whose rows it has; make "
            "it with aggregate --rule dictionary"
        )
    clients = np.repeat([c for c, _ in owners], [rows for _, rows in owners])
    return dictionary.rows[clients != client]


def last_ensemble(private: Private | None, index: np.ndarray, width: int) -> np.ndarray:
    """Z of the images at `index` as the client kept it: 0 for those it never met."""
    Z = np.zeros((len(index), width), np.float32)
    if private is None or ROWS not in private.tensors:
        return Z
    rows, kept = private.tensors[ROWS], private.tensors.get(INDEX)
    fits = kept is not None and kept.dtype == np.int64 and kept.ndim == 1
    if kept is None or not fits or rows.shape != (len(kept), width):
        raise InputError(
            f"{private.path}: its ensemble is {rows.shape}, rows of {width} numbers, "
            "one an image, were wanted; was it kept for another model?"
        )
    place = {image: row for row, image in enumerate(kept.tolist())}
    known = np.array([place.get(image, -1) for image in index.tolist()], np.int64)
    Z[known >= 0] = rows[known[known >= 0]]
    return Z


def ensemble_of(
    private: Private | None, z: np.ndarray, index: np.ndarray, alpha: float
) -> np.ndarray:
    """FedCA Eq. 9 on what the client kept."""
    return accumulate(last_ensemble(private, index, z.shape[1]), z, alpha)


def shared_rows(Z: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """FedCA Eq. 10 for `count` rows of the ensemble, drawn at random (all, if fewer).

    Rows of zeros, which a collapsed model makes, have no direction and are not shared.
    """
    chosen = Z[rng.choice(len(Z), min(count, len(Z)), replace=False)]
    return unit_rows(chosen[np.abs(chosen).max(axis=1) > 0])


def sharing_facts(client: int, round_: int, rows: int, parent: str) -> FeatureFacts:
    """The header of the rows a client shares; of its images it says nothing."""
    return FeatureFacts(
        "z", {}, str(client), client, round_, rows, parent=parent
    )  # fmt: skip
