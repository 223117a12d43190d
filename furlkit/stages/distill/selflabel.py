"""--teacher self: the model labels confident images and learns from these labels."""

from typing import Any

from furlkit.data.batches import Images
from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.inputs.models import class_head
from furlkit.models.architecture import Net
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
    """Open the model and the images, without labels."""
    settings, model = dict(options.settings), read_checkpoint(options.model)
    head = class_head(model, "--teacher self")
    images = open_images(options.data, model)
    part = settings["part"]
    index, contents = public_images(images, settings)
    weak = options.augmentation.weak if settings.pop("form") == "weak-strong" else None

    def learner(net: Net, _: Images, __: Purpose) -> tuple[Any, Begin | None]:
        method = method_of(options)
        return method(net, head=head, weak=weak, **settings), None

    public = "public " * (part == "public")
    return Lesson(
        model=model,
        images=images,
        index=index,
        facts=kept_facts(model, model.facts.round, len(index)),
        words=f"labelled itself by its {head.name} on {len(index):,} {public}images",
        learner=learner,
        contents=contents,
        resolved={"head": head.name},
    )
