"""--teacher self: the model labels confident images and learns from these labels."""

from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.inputs.models import class_head
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    kept_facts,
    later,
    public_images,
)


def lesson(options: DistillOptions) -> Lesson:
    """Open the model and the images, without labels."""
    settings, model = dict(options.settings), read_checkpoint(options.model)
    head = class_head(model, "--teacher self")
    images = open_images(options.data, model)
    part = settings["part"]
    index, contents = public_images(images, settings)
    weak = options.augmentation.weak if settings.pop("form") == "weak-strong" else None

    public = "public " * (part == "public")
    return Lesson(
        model=model,
        images=images,
        index=index,
        facts=kept_facts(model, model.facts.round, len(index)),
        words=f"labelled itself by its {head.name} on {len(index):,} {public}images",
        learner=later("by_method", options, head=head, weak=weak, **settings),
        contents=contents,
        resolved={"head": head.name},
    )
