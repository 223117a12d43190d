"""The rows that a client shares, and those it keeps for its next round.

FCL encrypts images again in every epoch and shares the last rows. Rows of earlier epochs
are lost, so one pass over fresh mixtures after the last epoch computes the shared rows;
its draws are derived from (seed, round, client).

During training MoCo's slow network normalises by batches (--rows-statistics batch): so
its keys, and FCL's rows, are of one population. With running statistics, which are those
of clean images, a row depends on its own mixture alone, and lies far from every key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from furlkit import console
from furlkit.aggregators.dictionary import average_features, shared_rows
from furlkit.data.augment import Augmentation
from furlkit.files.features import FeatureFacts, write_features
from furlkit.inputs.dictionary import INDEX, ROWS, averaged_features
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import BATCH, batch_statistics, embed, embed_mixed
from furlkit.models.loading import load_tensors, tensors_of, view_of, z_width
from furlkit.randomness import numpy_generator, torch_generator
from furlkit.stages.local_train.client import Client
from furlkit.stages.local_train.inputs import Inputs
from furlkit.training.learners import parts_by_name
from furlkit.weights import Tensors, below, divide


class Rows(NamedTuple):
    """What one model makes of a client's images.

    `z` is of all of them, for Z and for own positives; `fresh` of what is shared where
    that is not Z. What nothing needs is empty.
    """

    z: np.ndarray = np.empty((0, 0))
    fresh: np.ndarray = np.empty((0, 0))


def rows_before_training(inputs: Inputs, client: Client, net: Net) -> Rows | None:
    """Rows by the global model, if it is to compute them; the net is as it was.

    A training that is resumed computes them again, from the same model.
    """
    if inputs.options.sharing.dictionary_from != "global":
        return None
    parts = ("encoder", *inputs.architecture.heads)
    slow = below("target.", client.received)
    with _weights(net, slow or divide(client.received, parts)[0]):
        return _rows(inputs, client, net)


def rows_after_training(inputs: Inputs, client: Client, learner: Any) -> Rows:
    """Rows by the client's model: MoCo's slow network, as its keys are, or the net."""
    with _weights(learner.net, below("target.", parts_by_name(learner))):
        return _rows(inputs, client, learner.net)


@contextmanager
def _weights(net: Net, tensors: Tensors) -> Iterator[None]:
    """Give a net other weights for a while."""
    own = {k: v.copy() for k, v in tensors_of(net).items() if k in tensors}
    load_tensors(net, tensors)
    yield
    load_tensors(net, own)


def _rows(inputs: Inputs, client: Client, net: Net) -> Rows:
    sharing, view = inputs.options.sharing, view_of(inputs.model, Augmentation())
    found, shares = Rows(), bool(sharing.features_out)
    if sharing.own_rows or (shares and sharing.averaged):
        z = embed(net, inputs.images.images, client.index, view, "z").numpy()
        found = found._replace(z=z)
    if shares and not sharing.averaged:
        found = found._replace(fresh=_fresh(inputs, client, net))
    return found


def _fresh(inputs: Inputs, client: Client, net: Net) -> np.ndarray:
    """z of some images of the client, or of mixtures of them, drawn for this round."""
    sharing, view = inputs.options.sharing, view_of(inputs.model, Augmentation())
    images, index = inputs.images.images, client.index
    purpose = (inputs.options.seed, "share", inputs.round, client.number)
    count = min(inputs.rows_shared, len(index))
    places = numpy_generator(*purpose).choice(len(index), count, replace=False)
    rng, masks = torch_generator(*purpose, "mix"), sharing.share_rows == "instahide"

    def rows_at(places: np.ndarray) -> np.ndarray:
        if not sharing.mixes:
            return embed(net, images, index[places], view, "z").numpy()
        return embed_mixed(net, images, index, places, view, rng, masks).numpy()

    if sharing.rows_statistics == "running":
        return rows_at(places)
    with batch_statistics(net):
        batches = _even_batches(places, inputs.options.plan.batch_size)
        return np.concatenate([rows_at(batch) for batch in batches])


def _even_batches(places: np.ndarray, size: int) -> list[np.ndarray]:
    """Divide places into batches of equal length, at most the training's."""
    return np.array_split(places, -(-len(places) // min(size, BATCH)))


def own_rows(inputs: Inputs, client: Client) -> np.ndarray:
    """The client's Z of the last round it took part in: 0 for images it never met."""
    Z = averaged_features(client.private, client.index, z_width(inputs.model))
    if not Z.any():
        console.warn(
            f"client {client.number}: --dictionary-positive own: there are no rows of its "
            "images in a --private file yet, so the other view takes their place"
        )
    return Z


def share(
    inputs: Inputs, client: Client, rows: Rows, data: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Write the rows that the client shares; gives the averaged features it keeps."""
    sharing, index = inputs.options.sharing, client.index
    Z = rows.fresh
    if sharing.averaged:
        before = averaged_features(client.private, index, rows.z.shape[1])
        Z = average_features(before, rows.z, sharing.alpha)
    rng = numpy_generator(inputs.options.seed, "share", inputs.round, client.number)
    shared = shared_rows(Z, inputs.rows_shared, rng)
    # Of the images that the rows belong to the header says nothing.
    facts = FeatureFacts(
        layer="z",
        dataset={},
        part=str(client.number),
        client=client.number,
        round=inputs.round,
        examples=len(shared),
        parent=inputs.parent,
        share_rows=None if sharing.averaged else sharing.share_rows,
    )
    path = fill(sharing.features_out or "", client.number)
    more = (np.arange(len(shared)), facts, client.provenance)
    data["features"] = write_features(path, shared, *more)
    return {ROWS: Z, INDEX: index} if sharing.keeps_rows else {}
