"""--teacher anchor: a client's model learns to predict z of the global model."""

from functools import partial
from typing import Any

from furlkit.data.batches import Images
from furlkit.errors import InputError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.models.architecture import Net
from furlkit.objectives.learner import Stateless
from furlkit.stages.distill.frozen import check_teacher, open_student, projections
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
    """Open the global model and the student, usually a client's model."""
    (path,), settings = options.sources, dict(options.settings)
    anchor, student = read_checkpoint(path), open_student(options.model, "anchor")
    if anchor.facts.role != "global":
        raise InputError(
            f"{path}: is a {anchor.facts.role} model; --teacher anchor takes the global "
            "model"
        )
    images = open_images(options.data, student)
    check_teacher(anchor, student, images)
    index, contents = public_images(images, settings)

    def learner(net: Net, _: Images, __: Purpose) -> tuple[Any, Begin | None]:
        (project,) = projections([anchor], net, options.execution.channels_last)
        return Stateless(net, partial(method_of(options), anchor=project)), None

    return Lesson(
        model=student,
        images=images,
        index=index,
        facts=kept_facts(student, student.facts.round, len(index)),
        words=f"aligned with {path} on {len(index):,} public images",
        learner=learner,
        contents={**contents, "global": anchor.content},
        pairs=True,
    )
