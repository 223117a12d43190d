"""--teacher contrast: the model learns public images by contrast, without a teacher's file.

LW-FedSSL's server-side calibration: the server trains all layers of the global model
together, after the clients have trained some layers.
"""

from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.models.description import z_width
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    kept_facts,
    later,
    public_images,
)


def lesson(options: DistillOptions) -> Lesson:
    """Open the model and the public images."""
    settings, model = dict(options.settings), read_checkpoint(options.model)
    z_width(model)
    images = open_images(options.data, model)
    index, contents = public_images(images, settings)
    return Lesson(
        model=model,
        images=images,
        index=index,
        facts=kept_facts(model, model.facts.round, len(index)),
        words=f"calibrated on {len(index):,} public images",
        learner=later("stateless", options, form="full", **settings),
        contents=contents,
        pairs=True,
    )
