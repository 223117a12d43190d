"""Options of distill, and the result of a teacher."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import TEACHERS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.files.container.header import Header
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.settings import Computing
from furlkit.models.description import architecture_of
from furlkit.training.plan import Execution, Plan
from furlkit.weights import Tensors

Begin = Callable[[], None]
# From net, images and purpose to the learner; untyped, because their modules have torch.
Make = Callable[[Any, Any, Any], tuple[Any, Begin | None]]


@dataclass(frozen=True, kw_only=True)
class DistillOptions(Computing):
    """`sources`: the teacher's files, if any; `settings`: options of the teacher.

    `anonymous`: publish without names of teaching sites, with a `record`; None depends on
    the teachers.
    """

    sources: tuple[Path, ...]
    model: Path
    data: Source
    output: Path
    teacher: str
    settings: dict[str, Any]
    augmentation: Augmentation
    plan: Plan
    execution: Execution
    seed: int
    anonymous: bool | None
    record: Path | None


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Checked inputs of a teacher, ready for training.

    `index`: images to learn from. `words`: description for people. `resolved`: options
    decided by the inputs. `contents`: content hashes of the inputs besides START, by
    role. `learner`: returns an object that trains a net on images, and a function to
    call before the first step. `teachers`: headers of the clients' models that teach.
    `labels`: the learner sees labels. `pairs`: the learner's z has two views of every
    image. `finish`: converts the tensors of the net to the tensors of the file.
    """

    model: Checkpoint
    images: ImageSet
    index: np.ndarray
    facts: CheckpointFacts
    words: str
    learner: Make
    contents: dict[str, str] = field(default_factory=dict)
    resolved: dict[str, Any] = field(default_factory=dict)
    teachers: tuple[Header, ...] = ()
    labels: bool = False
    pairs: bool = False
    finish: Callable[[Tensors], Tensors] = dict

    @property
    def data(self) -> dict[str, Any]:
        """Entries of the result that are known before training."""
        return {"round": self.facts.round, "images": len(self.index)}


def method_of(options: DistillOptions) -> Callable[..., Any]:
    """The function of the teacher's catalogue entry."""
    return load(TEACHERS[options.teacher].function)


def later(function: str, options: DistillOptions, **settings: Any) -> Make:
    """Function of learners.py with settings; torch is imported by the first call."""
    place = f"furlkit.stages.distill.learners:{function}"
    return lambda *given: load(place)(method_of(options), *given, **settings)


def public_images(
    images: ImageSet, settings: dict[str, Any]
) -> tuple[np.ndarray, dict[str, str]]:
    """Take --partition and --part out of the settings; return indices and contents."""
    part, partition = settings.pop("part"), settings.pop("partition")
    index, contents = chosen_images(images, partition, part)
    if len(index) < 2:
        raise InputError(f"{images.name}: part {part} has 1 image; expected more")
    return index, contents


def warn_of_age(teacher: Path, round_: int | None, model: Checkpoint) -> None:
    """Warn about a teacher of an earlier round than the student."""
    if round_ is not None and round_ < model.facts.round:
        console.warn(
            f"{teacher}: is of round {round_}, and {model.path} is a model of round "
            f"{model.facts.round}; the result is of round {round_}; distil onto the model "
            "from which the teachers started"
        )


def kept_facts(model: Checkpoint, round_: int, examples: int) -> CheckpointFacts:
    """Facts of a model after learning; a client's model stays the client's.

    `examples`: images of a global model; a client's model keeps its number of examples.
    """
    start, own = model.facts, model.facts.role == "client"
    net = ("encoder", *architecture_of(model.path, start).heads)
    return replace(
        start,
        role="client" if own else "global",
        round=round_,
        examples=start.examples if own else examples,
        parent=model.content,
        loss=None,
        privacy=None,  # A teacher may know clients; epsilon is of aggregate's model.
        next_clip=None,
        parts=start.parts and [part for part in start.parts if part in net],
    )


def global_facts(model: Checkpoint, round_: int, examples: int) -> CheckpointFacts:
    """Facts of a global model that starts from another model."""
    start = model.facts
    return CheckpointFacts(
        "global", round_, start.architecture, start.mean, start.std,
        examples=examples, parent=model.content, cluster_head=start.cluster_head,
        init_seed=start.init_seed, reading=start.reading, state=start.state,
        run=start.run,
    )  # fmt: skip
