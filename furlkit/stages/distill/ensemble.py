"""--teacher ensemble: a student learns the clients' similarities of public images."""

from collections.abc import Iterator
from typing import Any

import torch

from furlkit.aggregators.similarity_rows import Similarities
from furlkit.data.batches import Batch, Images
from furlkit.errors import UsageError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.ensemble import Ensemble, read_ensemble
from furlkit.inputs.images import open_images
from furlkit.inputs.matching import check_images
from furlkit.inputs.models import width_of
from furlkit.models.architecture import Net
from furlkit.randomness import torch_generator
from furlkit.stages.distill.lesson import (
    Begin,
    DistillOptions,
    Lesson,
    global_facts,
    method_of,
)
from furlkit.training.loop import Purpose, positions


def lesson(options: DistillOptions) -> Lesson:
    """Open the ensemble and the student.

    Without options, tau_S and the student's layer come from the ensemble.
    """
    (path,), settings = options.sources, options.settings
    ensemble, model = read_ensemble(path), read_checkpoint(options.model)
    images, facts = open_images(options.data, model), ensemble.facts
    check_images(ensemble, images, "give the --data of embed")
    _check_anchors(options, len(ensemble.index))
    layer = settings["layer"] or facts.layer
    tau_S = settings["temperature"] or facts.temperature
    width = width_of(model, layer)

    def learner(net: Net, images: Images, purpose: Purpose) -> tuple[Any, Begin | None]:
        device = next(net.parameters()).device
        known = _similarities(ensemble, device)
        how = {"temperature": tau_S, "ema": settings["ema"]}
        m = settings["anchors"]
        distiller = method_of(options)
        made = distiller(net, known, layer=layer, width=width, anchors=m, **how)
        return made, lambda: made.fill(_first_keys(options, images, purpose))

    clients = f"{len(facts.clients)} client{'s' * (len(facts.clients) > 1)}"
    return Lesson(
        model=model,
        images=images,
        index=ensemble.index,
        facts=global_facts(model, facts.round, facts.examples),
        words=f"distilled from {clients} on {facts.examples:,} public images",
        learner=learner,
        contents={"ensemble": ensemble.content},
        resolved={"layer": layer, "temperature": tau_S},
    )


def _check_anchors(options: DistillOptions, images: int) -> None:
    m = options.settings["anchors"]
    if m < min(options.plan.batch_size, images):
        cure = "an image must be among the anchors; lower --batch-size"
        raise UsageError(f"--anchors {m}: fewer than a batch, but {cure}")


def _similarities(ensemble: Ensemble, device: torch.device) -> Similarities:
    """Move the ensemble to the training device; a matrix stays on disk."""
    parts = [torch.from_numpy(part).to(device) for part in ensemble.parts.values()]
    columns = [
        torch.from_numpy(places).long().to(device)
        for places in ensemble.columns.values()
    ]
    facts = ensemble.facts
    return Similarities(
        parts,
        columns,
        ensemble.matrix,
        tau_T=facts.temperature,
        trim=facts.trim,
        name=str(ensemble.path),
    )


def _first_keys(
    options: DistillOptions, images: Images, purpose: Purpose
) -> Iterator[Batch]:
    """Yield random batches to fill the queue; their steps count up to -1."""
    size = options.plan.batch_size
    steps = -(-options.settings["anchors"] // min(size, len(images)))
    for step in range(steps):
        index = positions(images, size, (*purpose, "fill"), step)
        generator = torch_generator(*purpose, "fill", step)
        yield images.batch(index, generator, step - steps)
