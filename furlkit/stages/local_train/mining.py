"""The neighbours that a client's images are clustered with."""

from dataclasses import replace

from furlkit import console
from furlkit.data.augment import Augmentation
from furlkit.evaluation.knn import nearest_others
from furlkit.inputs.neighbours import NEAREST, remembered_neighbours
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import view_of
from furlkit.stages.local_train.client import Client
from furlkit.stages.local_train.inputs import Inputs
from furlkit.stages.local_train.options import Mining


def with_neighbours(inputs: Inputs, client: Client, net: Net, mining: Mining) -> Client:
    """The client with neighbours of its images in its memory, mined if it has none.

    `net` is the model that it starts the round from, so that a training that is resumed
    mines the same again.
    """
    if NEAREST in client.memory:
        return client
    view, index = view_of(inputs.model, Augmentation()), client.index
    rows = embed(net, inputs.images.images, index, view, mining.mine_layer)
    rows = rows.to(next(net.parameters()).device)
    nearest = index[nearest_others(rows, mining.nearest).cpu().numpy()]
    console.info(
        f"client {client.number}: mined the {nearest.shape[1]} nearest of each of its "
        f"{len(index):,} images by {mining.mine_layer}"
    )
    mined = remembered_neighbours(nearest, index, inputs.round)
    return replace(client, memory={**client.memory, **mined})
