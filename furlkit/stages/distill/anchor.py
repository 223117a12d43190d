"""--teacher anchor: a client's model learns to predict z of the global model."""

from furlkit.errors import InputError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.declared import by_role
from furlkit.inputs.images import open_images
from furlkit.stages.distill.frozen import check_teacher, open_student
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    kept_facts,
    later,
    public_images,
)


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
    layout = options.execution.channels_last
    return Lesson(
        model=student,
        images=images,
        index=index,
        facts=kept_facts(student, student.facts.round, len(index)),
        words=f"aligned with {path} on {len(index):,} public images",
        learner=later("anchored", options, anchor=anchor, channels_last=layout),
        contents={**contents, **by_role("distill", **{"global": anchor})},
        pairs=True,
    )
