"""--teacher ensemble: a student learns the clients' similarities of public images."""

from furlkit.errors import UsageError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.ensemble import read_ensemble
from furlkit.inputs.declared import by_role
from furlkit.inputs.images import open_images
from furlkit.inputs.matching import check_images
from furlkit.inputs.models import width_of
from furlkit.stages.distill.lesson import (
    DistillOptions,
    Lesson,
    global_facts,
    later,
    warn_of_age,
)


def lesson(options: DistillOptions) -> Lesson:
    """Open the ensemble and the student.

    Without options, tau_S and the student's layer come from the ensemble.
    """
    (path,), settings = options.sources, options.settings
    ensemble, model = read_ensemble(path), read_checkpoint(options.model)
    images, facts = open_images(options.data, model), ensemble.facts
    check_images(ensemble, images, "give the --data of embed")
    warn_of_age(path, facts.round, model)
    _check_anchors(options, len(ensemble.index))
    layer = settings["layer"] or facts.layer
    tau_S = settings["temperature"] or facts.temperature
    width = width_of(model, layer)
    clients = f"{len(facts.clients)} client{'s' * (len(facts.clients) > 1)}"
    return Lesson(
        model=model,
        images=images,
        index=ensemble.index,
        facts=global_facts(model, facts.round, facts.examples),
        words=f"distilled from {clients} on {facts.examples:,} public images",
        learner=later(
            "ensemble",
            options,
            ensemble=ensemble,
            layer=layer,
            width=width,
            temperature=tau_S,
            anchors=settings["anchors"],
            ema=settings["ema"],
            batch_size=options.plan.batch_size,
        ),
        contents=by_role("distill", ensemble=ensemble),
        resolved={"layer": layer, "temperature": tau_S},
    )


def _check_anchors(options: DistillOptions, images: int) -> None:
    m = options.settings["anchors"]
    if m < min(options.plan.batch_size, images):
        cure = "an image must be among the anchors; lower --batch-size"
        raise UsageError(f"--anchors {m}: fewer than a batch, but {cure}")
