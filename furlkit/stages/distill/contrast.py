"""--teacher contrast: the model learns public images by contrast, without a teacher's file.

LW-FedSSL's server-side calibration: the server trains all layers of the global model
together, after the clients have trained some layers.
"""

from functools import partial
from typing import Any

from furlkit.data.batches import Images
from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.models.architecture import Net
from furlkit.models.description import z_width
from furlkit.objectives.learner import Stateless
from furlkit.stages.distill.lesson import (
    Begin,
    DistillOptions,
    Lesson,
    kept_facts,
    method_of,
    public_images,
)
from furlkit.training.loop import Purpose


def lesson(options: DistillOptions) -> Lesson:
    """Open the model and the public images."""
    settings, model = dict(options.settings), read_checkpoint(options.model)
    z_width(model)
    images = open_images(options.data, model)
    index, contents = public_images(images, settings)

    def learner(net: Net, _: Images, __: Purpose) -> tuple[Any, Begin | None]:
        step = partial(method_of(options), form="full", **settings)
        return Stateless(net, step), None

    return Lesson(
        model=model,
        images=images,
        index=index,
        facts=kept_facts(model, model.facts.round, len(index)),
        words=f"calibrated on {len(index):,} public images",
        learner=learner,
        contents=contents,
        pairs=True,
    )
