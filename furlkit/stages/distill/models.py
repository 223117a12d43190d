"""--teacher models: the clients' models teach together, weighted for every image."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from furlkit.data.batches import Images
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import client_order
from furlkit.inputs.images import open_images
from furlkit.models.architecture import Net, drawn
from furlkit.models.description import z_width
from furlkit.models.heads import mlp
from furlkit.objectives.mkd import Attention
from furlkit.randomness import torch_generator
from furlkit.stages.distill.frozen import check_teacher, open_student, projections
from furlkit.stages.distill.lesson import (
    Begin,
    DistillOptions,
    Lesson,
    global_facts,
    method_of,
    public_images,
)
from furlkit.training.loop import Purpose


def lesson(options: DistillOptions) -> Lesson:
    """Open the clients' models and the student; architectures may differ."""
    settings = dict(options.settings)
    student = open_student(options.model, options.teacher)
    images = open_images(options.data, student)
    teachers = _open_teachers(options)
    for teacher in teachers:
        check_teacher(teacher, student, images)
    index, contents = public_images(images, settings)
    adaptive, k = settings.pop("integration") == "adaptive", settings.pop("adapter")

    def learner(net: Net, _: Images, purpose: Purpose) -> tuple[Any, Begin | None]:
        width = z_width(student)
        device = next(net.parameters()).device
        attention = _attention(width, k, purpose).to(device) if adaptive else None
        layout = options.execution.channels_last
        nets = projections(teachers, net, layout)
        return method_of(options)(net, nets, attention, width=width, **settings), None

    rounds = teachers[0].facts.round
    roles = {f"client {t.facts.client}": t.content for t in teachers}
    return Lesson(
        model=student,
        images=images,
        index=index,
        facts=global_facts(student, rounds, len(index)),
        words=f"taught by {len(teachers)} client{'s' * (len(teachers) > 1)} on "
        f"{len(index):,} public images",
        learner=learner,
        contents={**contents, **roles},
        pairs=True,
    )


def _open_teachers(options: DistillOptions) -> list[Checkpoint]:
    """Models sorted by client; the order on the command line does not matter.

    The tensors of each model are read again for the training.
    """
    found: dict[Any, Checkpoint] = {}
    for path in options.sources:
        model = _client_model(path)
        client = model.facts.client
        if client in found:
            raise InputError(
                f"{path}: is a model of client {client}, like {found[client].path}; "
                "give every client once"
            )
        found[client] = replace(model, tensors={})
    teachers = [found[client] for client in sorted(found, key=client_order)]
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


def _attention(width: int, k: int, purpose: Purpose) -> Attention:
    """The adapter has a hidden layer as wide as z."""
    with torch.device("meta"):
        attention: nn.Module = Attention(mlp(width, (width, k)), k)
    return drawn(attention, torch_generator(*purpose, "attention"))  # type: ignore
