"""FedCA's dictionary and FCL's remote features: shared rows as negatives.

A client receives the other clients' rows, and shares rows of the client's images.

FCL mixes images again in every epoch (InstaHide) and shares the last rows. Rows of
earlier epochs are lost, so a pass over fresh mixtures after the last epoch computes the
shared rows; (secret, round, client, run, received model) determine the draws. The secret
stays at the site. Without a secret, in a simulation, (seed, round, client) determine the
draws.

During training MoCo's slow network normalises by batches (--rows-statistics batch), so
keys and FCL's rows belong to one population. With running statistics, the statistics of
clean images, a row depends only on the row's mixture and is far from every key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from furlkit import catalogue, console
from furlkit.aggregators.dictionary import (
    average_features,
    drawn_places,
    noisy_rows,
    shared_rows,
)
from furlkit.data.augment.instahide import K as MIXED
from furlkit.errors import InputError, UsageError
from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Kept,
    Setup,
    Trained,
    protected_purpose,
    shared_rows_facts,
)
from furlkit.exchanges.sharing import sharing_of
from furlkit.exchanges.usage import Values, secret_pattern
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId, is_client
from furlkit.files.container.read import Readable
from furlkit.files.features import Features, read_features, write_features
from furlkit.inputs.kept import kept_rows
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.description import z_width
from furlkit.models.embedding import BATCH, batch_statistics, embed, embed_mixed
from furlkit.models.loading import load_tensors, tensors_of
from furlkit.randomness import array_digest, numpy_generator, torch_generator
from furlkit.training.learners import parts_by_name
from furlkit.training.loop import Purpose
from furlkit.weights import Tensors, below, divide

# Names in a private file for Z and for the images of the rows.
ROWS, INDEX = "averaged_features.rows", "averaged_features.index"
# The rows that a site shared last; a dictionary without owners contains the rows.
SHARED = "shared_rows.rows"


class Rows(NamedTuple):
    """Projections of a client's images by a model; unused fields are empty.

    `z`: every image, for Z and for positives. `fresh`: the rows to share if not Z.
    """

    z: np.ndarray = np.empty((0, 0))
    fresh: np.ndarray = np.empty((0, 0))


class Dictionary(Exchange):
    """Rows received and rows shared; Z, averaged over rounds, stays in the private file."""

    memory = ("averaged_features", "shared_rows")

    def __init__(self, values: Values) -> None:
        self._sharing = sharing_of(values)
        self.active = bool(self._sharing.dictionary or self._sharing.features_out)
        self._objective = catalogue.objectives()[values["objective"]]
        self._secret = None
        if self._sharing.features_out:
            self._secret = secret_pattern(values, "--features-out")

    def open(self, setup: Setup) -> None:
        """Read the dictionaries of the clients; read a common file once."""
        self._setup, pattern = setup, self._sharing.dictionary
        self._dictionaries: dict[ClientId, Features] = {}
        clients = setup.partition.facts.clients if setup.partition else 1
        self._shared = self._sharing.rows(clients)  # Number of rows per client.
        if pattern:
            paths = {client: fill(pattern, client) for client in setup.clients}
            about = z_width(setup.model), setup.model
            read = {
                path: open_dictionary(setup.readable(path), *about)
                for path in {*paths.values()}
            }
            for dictionary in read.values():
                warn_of_age(dictionary, setup)
            for client, path in paths.items():
                check_made_for(read[path], client)
                self._dictionaries[client] = read[path]
        self._check_statistics()

    def _check_statistics(self) -> None:
        sharing = self._sharing
        alone = bool(sharing.features_out) and self._shared < 2
        if alone and sharing.rows_statistics == "batch":
            raise UsageError(
                f"--rows-statistics batch: a client shares {self._shared} row, and a single "
                "row has no statistics; raise --dictionary-size"
            )

    def start(self, client: Client) -> None:
        sharing = self._sharing
        self._early: Rows | None = None
        self._dictionary = self._dictionaries.get(client.number)
        self._negatives = self._rows_received(client)
        if sharing.features_out or sharing.own_rows:
            self._kept_rows(client, z_width(self._setup.model))

    def check(self, client: Client) -> None:
        sharing, images = self._sharing, len(client.index)
        if sharing.mixes and images < MIXED:
            raise InputError(
                f"client {client.number} has {images} images; --share-rows "
                f"{sharing.share_rows} mixes {MIXED}; use --share-rows plain"
            )
        shared = {ROWS, SHARED} & client.memory.keys()
        if client.private and shared and not sharing.dictionary:
            console.warn(
                f"{client.private.path}: client {client.number} has shared rows in round "
                f"{client.private.facts.round}, and this round receives none; give "
                "--dictionary, the rows of all clients"
            )
        hidden = sharing.features_out and "examples" not in self._setup.tell
        if hidden and images <= self._shared:
            console.warn(
                f"--features-out {sharing.features_out}: has a row for each of the "
                f"{images:,} images of client {client.number} and reveals the number of "
                "images, which --tell leaves out; share fewer rows with a smaller "
                "--dictionary-size"
            )

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        """Return received rows and the client's rows; compute rows by the global model."""
        sharing, device = self._sharing, self._setup.device
        inputs: dict[str, Any] = {}
        if sharing.dictionary_from == "global":
            self._early = self._rows_by_global(client, net)
        if self._negatives is not None and len(self._negatives):
            rows = torch.from_numpy(self._negatives).float().to(device)
            inputs = {"rows": F.normalize(rows, dim=1)}
            if "z_dict" in self._objective.inputs:
                remote_only = sharing.negatives == "remote"
                inputs = {"z_dict": rows, "remote_only": remote_only}
        if sharing.own_rows:
            own = self._early.z if self._early else self._own_rows(client)
            inputs["z_own"] = torch.from_numpy(own).to(device)
        return inputs

    def _rows_received(self, client: Client) -> np.ndarray | None:
        """Rows of the dictionary to use as negatives for the client's images."""
        dictionary = self._dictionary
        if dictionary is None or self._sharing.negatives == "local":
            return None
        if not self._sharing.leave_own_out:
            return dictionary.rows
        if dictionary.facts.owners is not None or not self._setup.is_site(
            client.number
        ):
            return rows_of_others(dictionary, client.number)
        return rows_without(dictionary, client)

    def _kept_rows(self, client: Client, width: int) -> np.ndarray:
        """Z of the client's images from the private file; 0 for new images."""
        return kept_rows(client.private, "averaged_features", client.index, width)

    def _own_rows(self, client: Client) -> np.ndarray:
        """The client's Z of the last round; 0 for new images."""
        Z = self._kept_rows(client, z_width(self._setup.model))
        if not Z.any():
            console.warn(
                f"client {client.number}: --dictionary-positive own: there are no rows of "
                "the client's images in a --private file yet; using the other view"
            )
        return Z

    def finish(self, client: Client, trained: Trained) -> Kept:
        """Write the shared rows; keep Z."""
        kept = {k: v for k, v in client.memory.items() if k in (ROWS, INDEX, SHARED)}
        if self._sharing.features_out:
            rows, learner = self._early, trained.learner
            if rows is None:  # By the client's model: MoCo's slow network, or the net.
                with _weights(learner.net, below("target.", parts_by_name(learner))):
                    rows = self._rows(client, learner.net)
            kept = self._share(client, rows, self._sharing.features_out, trained)
        return Kept({}, kept)

    def _share(
        self, client: Client, rows: Rows, pattern: str, trained: Trained
    ) -> Tensors:
        sharing, setup, Z = self._sharing, self._setup, rows.fresh
        if sharing.averaged:
            before = self._kept_rows(client, rows.z.shape[1])
            Z = average_features(before, rows.z, sharing.alpha)
        rng = numpy_generator(*self._purpose(client))
        shared = self._with_noise(shared_rows(Z, self._shared, rng), client)
        facts = shared_rows_facts(setup, client, len(shared))
        if not sharing.averaged:
            facts = replace(facts, share_rows=sharing.share_rows)
        path, places = fill(pattern, client.number), np.arange(len(shared))
        content = write_features(path, shared, places, facts, client.provenance)
        trained.results["features"] = content
        kept = {SHARED: shared} if setup.is_site(client.number) else {}
        return kept | ({ROWS: Z, INDEX: client.index} if sharing.keeps_rows else {})

    def _with_noise(self, rows: np.ndarray, client: Client) -> np.ndarray:
        """Add --row-noise; Z in the private file stays exact."""
        sigma = self._sharing.row_noise
        if not sigma:
            return rows
        # Other rows or another sigma draw other noise: two files of one round, or of
        # two runs, must not give the rows away.
        purpose = (*self._purpose(client), "noise", repr(sigma), array_digest(rows))
        return noisy_rows(rows, sigma, numpy_generator(*purpose))

    def _rows_by_global(self, client: Client, net: Net) -> Rows:
        """Compute rows by the global model, then restore the weights of the net.

        A resumed training repeats the computation from the same model.
        """
        parts = ("encoder", *self._setup.architecture.heads)
        slow = below("target.", client.received)
        with _weights(net, slow or divide(client.received, parts)[0]):
            return self._rows(client, net)

    def _rows(self, client: Client, net: Net) -> Rows:
        sharing, setup, rows = self._sharing, self._setup, Rows()
        if sharing.own_rows or (sharing.features_out and sharing.averaged):
            images, view = setup.images.images, setup.plain_view()
            rows = Rows(z=embed(net, images, client.index, view, "z").numpy())
        if sharing.features_out and not sharing.averaged:
            rows = rows._replace(fresh=self._fresh(client, net))
        return rows

    def _purpose(self, client: Client) -> Purpose:
        return protected_purpose(self._setup, client, self._secret, "share")

    def _fresh(self, client: Client, net: Net) -> np.ndarray:
        """z of images of the client, or of mixtures of images, drawn for this round."""
        sharing, setup, index = self._sharing, self._setup, client.index
        view, images = setup.plain_view(), setup.images.images
        purpose = self._purpose(client)
        places = drawn_places(len(index), self._shared, numpy_generator(*purpose))
        rng, masks = torch_generator(*purpose, "mix"), sharing.share_rows == "instahide"

        def rows_at(places: np.ndarray) -> np.ndarray:
            if not sharing.mixes:
                return embed(net, images, index[places], view, "z").numpy()
            return embed_mixed(net, images, index, places, view, rng, masks).numpy()

        if sharing.rows_statistics == "running":
            return rows_at(places)
        # Batches of equal length, at most the training's.
        size = min(setup.plan.batch_size, BATCH)
        with batch_statistics(net):
            batches = np.array_split(places, -(-len(places) // size))
            return np.concatenate([rows_at(batch) for batch in batches])


@contextmanager
def _weights(net: Net, tensors: Tensors) -> Iterator[None]:
    """Replace the weights of a net temporarily."""
    own = {k: v.copy() for k, v in tensors_of(net).items() if k in tensors}
    load_tensors(net, tensors)
    yield
    load_tensors(net, own)


def open_dictionary(file: Readable, width: int, model: Checkpoint) -> Features:
    """Read a dictionary for a global model with z of `width` numbers."""
    found, round_ = read_features(file), model.facts.round
    path = found.path
    if found.facts.layer != "z":
        raise InputError(
            f"{path}: holds {found.facts.layer}, expected a dictionary of z; use aggregate "
            "--rule dictionary, or embed --layer z"
        )
    if found.rows.shape[1] != width:
        raise InputError(
            f"{path}: rows have {found.rows.shape[1]} numbers, the model's z has "
            f"{width}; use the dictionary of this model"
        )
    if found.facts.round is not None and found.facts.round > round_:
        raise InputError(
            f"{path}: is of round {found.facts.round}, the model of round {round_}; "
            "use the dictionary of the model's round"
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
                f"{path}: has {len(found.rows)} rows, the owners do not add up to this "
                "number; re-create the file with aggregate --rule dictionary"
            )
    return found


def warn_of_age(dictionary: Features, setup: Setup) -> None:
    """Warn about rows of earlier models than the received model."""
    made, now = dictionary.facts.round, setup.round - 1
    if made is not None and made < now:
        console.warn(
            f"{dictionary.path}: is of round {made}, and clients start from the model of "
            f"round {now}, {setup.model.path}; use the dictionary of round {now}"
        )


def check_made_for(dictionary: Features, client: ClientId) -> None:
    """Raise if the server made the dictionary for another client."""
    made_for = dictionary.facts.made_for
    if made_for not in (None, client):
        raise InputError(
            f"{dictionary.path}: was made for client {made_for}, and lacks only the rows "
            f"of client {made_for}; client {client} needs the dictionary of "
            f"aggregate --rule dictionary --for {client}"
        )


def rows_of_others(dictionary: Features, client: ClientId) -> np.ndarray:
    """The dictionary without the client's rows."""
    owners = dictionary.facts.owners
    if owners is None:
        raise UsageError(
            f"--leave-own-out: {dictionary.path} does not record the owners of the rows; "
            "create the file with aggregate --rule dictionary --named"
        )
    others = np.array([owner != client for owner, _ in owners], bool)
    return dictionary.rows[np.repeat(others, _counts(owners))]


def rows_without(dictionary: Features, client: Client) -> np.ndarray:
    """The dictionary without the rows that the client shared, found by content."""
    own = client.memory.get(SHARED)
    if own is None:
        console.warn(
            f"--leave-own-out: {dictionary.path} names no owners, and no --private file "
            f"of client {client.number} has shared rows; using all rows, perhaps also "
            "rows of the client; give the private file of the last round"
        )
        return dictionary.rows
    theirs = {row.tobytes() for row in own.astype(np.float32)}
    kept = [row.tobytes() not in theirs for row in dictionary.rows]
    return dictionary.rows[kept]


def _counts(owners: list[list[ClientId]]) -> list[int]:
    return [int(rows) for _, rows in owners]
