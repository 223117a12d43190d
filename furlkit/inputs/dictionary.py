"""FedCA's dictionary as a client is given it, and the averaged features it kept."""

from pathlib import Path

import numpy as np

from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId, is_client
from furlkit.files.features import Features, read_features
from furlkit.files.private import Private
from furlkit.inputs.kept import kept_rows

# Where a private file keeps Z, and of which images its rows are.
ROWS, INDEX = "averaged_features.rows", "averaged_features.index"


def open_dictionary(path: Path, width: int, model: Checkpoint) -> Features:
    """Read a dictionary for a global model whose z has `width` numbers."""
    found, round_ = read_features(path), model.facts.round
    if found.facts.layer != "z":
        raise InputError(
            f"{path}: holds {found.facts.layer}, expected a dictionary of z; create it "
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
    owners = found.facts.owners
    if owners is not None:
        pairs = all(len(pair) == 2 and is_client(pair[0]) for pair in owners)
        pairs = pairs and all(type(rows) is int for _, rows in owners)
        if not pairs or sum(_counts(owners)) != len(found.rows):
            raise InputError(
                f"{path}: has {len(found.rows)} rows, its owners do not add up to "
                "them; re-create it with aggregate --rule dictionary"
            )
    return found


def check_made_for(dictionary: Features, client: ClientId) -> None:
    """Refuse a dictionary that the server made for another client."""
    made_for = dictionary.facts.made_for
    if made_for not in (None, client):
        raise InputError(
            f"{dictionary.path}: was made for client {made_for}, and lacks the rows "
            f"of that client alone; client {client} needs the dictionary of "
            f"aggregate --rule dictionary --for {client}"
        )


def rows_of_others(dictionary: Features, client: ClientId) -> np.ndarray:
    """The dictionary without the client's own rows."""
    owners = dictionary.facts.owners
    if owners is None:
        raise UsageError(
            f"--leave-own-out: {dictionary.path} does not say whose rows it has; create "
            "it with aggregate --rule dictionary"
        )
    others = np.array([owner != client for owner, _ in owners], bool)
    return dictionary.rows[np.repeat(others, _counts(owners))]


def _counts(owners: list[list[ClientId]]) -> list[int]:
    return [int(rows) for _, rows in owners]


def averaged_features(
    private: Private | None, index: np.ndarray, width: int
) -> np.ndarray:
    """Z of the images at `index` as the client kept it: 0 for images it never met."""
    return kept_rows(private, "averaged_features", index, width)
