"""--teacher labels: the server learns from labels, like FedMatch's server."""

from dataclasses import replace

from furlkit.errors import InputError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.inputs.matching import check_labels
from furlkit.models.description import architecture_of
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    kept_facts,
    later,
    public_images,
)
from furlkit.weights import Tensors, below, moved

SIGMA = "sigma."


def lesson(options: DistillOptions) -> Lesson:
    """Open the model and labelled images.

    A sigma in the model changes by the change of the weights: psi, the difference,
    belongs to the clients and stays unchanged.
    """
    settings, model = dict(options.settings), read_checkpoint(options.model)
    heads = architecture_of(model.path, model.facts).heads
    if "classifier" not in heads:
        raise InputError(
            f"{model.path}: has no classifier, which --teacher labels needs; create "
            "the model with init --objective supervised, or fedmatch"
        )
    images = open_images(options.data, model)
    check_labels(images, heads["classifier"][0], model)
    part = settings["part"]
    index, contents = public_images(images, settings)

    def finish(tensors: Tensors) -> Tensors:
        sigma = moved(below(SIGMA, model.tensors), model.tensors, tensors)
        return {**tensors, **{SIGMA + name: array for name, array in sigma.items()}}

    facts = kept_facts(model, model.facts.round, len(index))
    if below(SIGMA, model.tensors):
        facts = replace(facts, parts=model.facts.parts)
    return Lesson(
        model=model,
        images=images,
        index=index,
        facts=facts,
        words=f"taught by the labels of {len(index):,} {'public ' * (part == 'public')}images",
        learner=later("stateless", options, **settings),
        contents=contents,
        labels=True,
        finish=finish,
    )
