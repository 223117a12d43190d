"""--teacher models: the clients' models teach together, weighted for every image."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import client_order
from furlkit.inputs.declared import by_role
from furlkit.inputs.images import open_images
from furlkit.models.description import z_width
from furlkit.stages.distill.frozen import check_teacher, open_student
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    global_facts,
    later,
    public_images,
)


def lesson(options: DistillOptions) -> Lesson:
    """Open the clients' models and the student; architectures may differ."""
    settings = dict(options.settings)
    student = open_student(options.model, options.teacher)
    images = open_images(options.data, student)
    teachers = _open_teachers(options)
    for teacher in teachers:
        check_teacher(teacher, student, images)
    index, contents = public_images(images, settings)
    settings["width"] = z_width(student)
    settings["channels_last"] = options.execution.channels_last
    rounds = teachers[0].facts.round
    roles = by_role("distill", client={t.facts.client: t for t in teachers})
    return Lesson(
        model=student,
        images=images,
        index=index,
        facts=global_facts(student, rounds, len(index)),
        words=f"taught by {len(teachers)} client{'s' * (len(teachers) > 1)} on "
        f"{len(index):,} public images",
        learner=later("taught", options, teachers=teachers, **settings),
        contents={**contents, **roles},
        teachers=tuple(teacher.header for teacher in teachers),
        pairs=True,
    )


def _open_teachers(options: DistillOptions) -> list[Checkpoint]:
    """Models sorted by client; the order on the command line does not matter.

    The tensors of each model are read again for the training.
    """
    by_client: dict[Any, Checkpoint] = {}
    for path in options.sources:
        model = _client_model(path)
        client = model.facts.client
        if client in by_client:
            raise InputError(
                f"{path}: is a model of client {client}, like {by_client[client].path}; "
                "give every client once"
            )
        by_client[client] = replace(model, tensors={})
    teachers = [by_client[client] for client in sorted(by_client, key=client_order)]
    for teacher in teachers:
        if teacher.facts.round != teachers[0].facts.round:
            raise InputError(
                f"{teacher.path}: is of round {teacher.facts.round}, "
                f"{teachers[0].path} of round {teachers[0].facts.round}; give models of "
                "one round"
            )
    return teachers


def _client_model(path: Path) -> Checkpoint:
    model = read_checkpoint(path)
    if model.facts.role != "client":
        raise InputError(
            f"{path}: is a {model.facts.role} model; --teacher models takes models of "
            "clients, which local-train writes"
        )
    return model
