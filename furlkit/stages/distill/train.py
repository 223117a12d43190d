"""distill: a model learns public images from a teacher."""

from dataclasses import replace
from typing import Any

from furlkit import catalogue, console, runtime
from furlkit.catalogue import TEACHERS, divided, recorded
from furlkit.data.batches import Images
from furlkit.files.checkpoint import write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile
from furlkit.inputs.existing import already, made_before
from furlkit.inputs.matching import check_augmentation, check_batch
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.architecture import Net
from furlkit.models.loading import load_net, tensors_of, view_of
from furlkit.stages.distill.lesson import DistillOptions, Lesson
from furlkit.training import run as training
from furlkit.training.loop import Epoch


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Train the model on the public images and write the model."""
    options = _options(values)
    _check_output(options)
    device = runtime.start(options.runtime)
    lesson: Lesson = catalogue.load(TEACHERS[options.teacher].lesson)(options)
    check_augmentation(options.augmentation, lesson.model)
    check_batch(lesson.images.name, len(lesson.index), options.plan.batch_size)
    net, facts = load_net(lesson.model, device), lesson.facts
    line = f"{options.output}: round {facts.round}, {lesson.words}"
    data: dict[str, Any] = {"round": facts.round, "images": len(lesson.index)}
    if options.dry_run:
        return line, data
    provenance = _provenance(options, lesson)
    content = made_before(options, "checkpoint", provenance, facts)
    if content:
        ProgressFile(options.output, provenance).discard()
        return already(options.output, content)
    last = _train(options, lesson, net, provenance)
    facts = replace(facts, loss=sum(last.losses.values()))
    tensors = lesson.finish(tensors_of(net))
    _warn_of_idleness(options, last)
    content = write_checkpoint(options.output, tensors, facts, provenance)
    ProgressFile(options.output, provenance).discard()
    measured = _measured(last)
    return f"{line}{measured}", {**data, "content": content, **last.facts()}


def _options(values: dict[str, Any]) -> DistillOptions:
    words = recorded("distill", values)
    if values["steps"]:
        del words["epochs"]
    settings, rest = divided(values, TEACHERS[values["teacher"]].options)
    return fill(DistillOptions, {**rest, "settings": settings, "recorded": words})


def _check_output(options: DistillOptions) -> None:
    known = (options.model, options.data.name, options.settings.get("partition"))
    check_output(options.output, (*options.sources, *known))


def _measured(last: Epoch) -> str:
    """Describe the share of confident images, if the teacher measures it."""
    if "skipped" not in last.measures:
        return ""
    share, skipped = last.measures["confident"], last.measures["skipped"]
    steps = f"{skipped:,} of {last.step:,} steps skipped"
    return f", {share:.1%} confident in the last epoch, {steps}"


def _warn_of_idleness(options: DistillOptions, last: Epoch) -> None:
    if last.measures.get("skipped") == last.step:
        console.warn(
            f"{options.output}: no image reached --confidence "
            f"{options.settings['confidence']:g} in any step; the model is unchanged; "
            "lower --confidence, or train the model longer first"
        )


def _provenance(options: DistillOptions, lesson: Lesson) -> Provenance:
    plugin = encoder_plugin(lesson.model)
    resolved = {**options.resolved, **plugin, **lesson.resolved}
    contents = {**lesson.contents, "start": lesson.model.content}
    return Provenance("distill", resolved, options.seed, contents)


def _train(
    options: DistillOptions, lesson: Lesson, net: Net, provenance: Provenance
) -> Epoch:
    training.prepare(net, options.execution)
    layout, index = options.execution.channels_last, lesson.index
    view = view_of(lesson.model, options.augmentation, layout)
    device = runtime.device_of(options.runtime)
    labels = lesson.images.labels if lesson.labels else None
    images = Images(lesson.images.images, labels, index, view, device)
    purpose = (options.seed, "distill", lesson.facts.round)
    learner, begin = lesson.learner(net, images, purpose)
    job = training.Job(
        title="student",
        learner=learner,
        images=images,
        plan=options.plan,
        purpose=purpose,
        begin=begin,
        pairs=lesson.pairs,
    )
    every = options.execution.save_every
    return training.run_jobs(job, options.output, provenance, every)
