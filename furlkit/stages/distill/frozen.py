"""Checks of models as teachers, and of students with a predictor."""

from pathlib import Path

from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.images import check_reading
from furlkit.models.description import architecture_of, z_width


def open_student(path: Path, teacher: str) -> Checkpoint:
    """Read START; the model must have a projector and a predictor."""
    model = read_checkpoint(path)
    heads = architecture_of(model.path, model.facts).heads
    for head in ("projector", "predictor"):
        if head not in heads:
            raise InputError(
                f"{path}: has no {head}, which --teacher {teacher} trains; add it with "
                f"init --objective byol --from {path}"
            )
    return model


def check_teacher(teacher: Checkpoint, student: Checkpoint, images: ImageSet) -> None:
    """Refuse a teacher with another z or another input than the student."""
    check_reading(images, teacher)
    pairs = {"z of": (z_width(teacher), z_width(student))}
    for name in ("image_size", "channels"):
        ours = architecture_of(student.path, student.facts)
        theirs = architecture_of(teacher.path, teacher.facts)
        pairs[name.replace("_", " ")] = getattr(theirs, name), getattr(ours, name)
    for name in ("mean", "std"):
        both = getattr(teacher.facts, name), getattr(student.facts, name)
        pairs[name] = both  # type: ignore[assignment]
    for what, (found, expected) in pairs.items():
        if found != expected:
            raise InputError(
                f"{teacher.path}: has {what} {found}, {student.path} has {expected}; "
                "teachers and student see equal images and have z of one length: "
                "create both with equal options of init"
            )
