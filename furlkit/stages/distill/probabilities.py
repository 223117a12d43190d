"""--teacher probabilities: a model learns the clients' average class probabilities."""

from furlkit.errors import InputError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.features import PROBABILITIES, check_probabilities, read_features
from furlkit.inputs.declared import by_role
from furlkit.inputs.images import open_images
from furlkit.inputs.matching import check_images
from furlkit.inputs.models import class_head
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    kept_facts,
    later,
    warn_of_age,
)


def lesson(options: DistillOptions) -> Lesson:
    """Open the probabilities and the student, the server's or a client's model."""
    (path,) = options.sources
    given, model = read_features(path), read_checkpoint(options.model)
    check_probabilities(given)
    if not given.facts.dataset:
        raise InputError(f"{path}: does not record the images; re-create it")
    head = class_head(model, f"--teacher {PROBABILITIES}")
    images = open_images(options.data, model)
    check_images(given, images, "give the --data of embed")
    if given.rows.shape[1] != head.classes:
        raise InputError(
            f"{path}: is of {given.rows.shape[1]} classes, the {head.name} of {model.path} "
            f"has {head.classes}; use the probabilities of similar models"
        )

    warn_of_age(path, given.facts.round, model)
    round_ = model.facts.round if given.facts.round is None else given.facts.round
    return Lesson(
        model=model,
        images=images,
        index=given.index,
        facts=kept_facts(model, round_, len(given.index)),
        words=f"distilled from probabilities of {len(given.index):,} public images",
        learner=later("probabilities", options, head=head, rows=given.rows),
        contents=by_role("distill", probabilities=given),
        resolved={"head": head.name},
    )
