"""Train a student on a lesson, and write the model."""

from dataclasses import replace
from typing import Any

from furlkit import console, runtime
from furlkit.data.batches import Images
from furlkit.files.checkpoint import write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.progress import ProgressFile
from furlkit.models.architecture import Net
from furlkit.models.loading import load_net, tensors_of, view_of
from furlkit.stages.distill.lesson import DistillOptions, Lesson
from furlkit.training import run as training
from furlkit.training.loop import Epoch


def teach(
    options: DistillOptions, lesson: Lesson, provenance: Provenance
) -> tuple[str, dict[str, Any]]:
    """Train and write the model, unless in a dry run; return the result."""
    net, facts = load_net(lesson.model, runtime.start(options.runtime)), lesson.facts
    line = f"{options.output}: round {facts.round}, {lesson.words}"
    if options.dry_run:
        return line, lesson.data
    with console.noted() as warnings:
        last = _train(options, lesson, net, provenance)
        _warn_of_idleness(options, last)
    facts = replace(facts, loss=sum(last.losses.values()))
    tensors = lesson.finish(tensors_of(net))
    content = write_checkpoint(options.output, tensors, facts, provenance)
    ProgressFile(options.output, provenance).discard()
    data = {**lesson.data, "content": content, **last.facts()}
    Journal(options.output).note_result(data, warnings)
    return f"{line}{_measured(last)}", data


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
