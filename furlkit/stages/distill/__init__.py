"""distill: one module for each teacher, and the common training."""

from typing import Any

from furlkit import catalogue
from furlkit.catalogue import TEACHERS, divided, recorded
from furlkit.errors import UsageError
from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile
from furlkit.files.published import Withheld
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import existing_result
from furlkit.inputs.matching import check_augmentation, check_batch
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.paths import check_output
from furlkit.inputs.publishing import (
    ANONYMOUS,
    is_anonymous,
    is_site,
    withheld_by_server,
    withheld_by_site,
)
from furlkit.inputs.records import check_place
from furlkit.inputs.settings import fill
from furlkit.stages.distill.lesson import DistillOptions, Lesson

__all__ = ["DistillOptions", "run"]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Train the model on the public images and write the model."""
    options = _options(values)
    _check_output(options)
    lesson: Lesson = catalogue.load(TEACHERS[options.teacher].lesson)(options)
    check_augmentation(options.augmentation, lesson.model)
    check_batch(lesson.images.name, len(lesson.index), options.plan.batch_size)
    provenance = _provenance(options, lesson)
    facts, data = lesson.facts, lesson.data
    if made := existing_result(options, "checkpoint", provenance, facts, data):
        ProgressFile(options.output, provenance).discard()
        return made
    from furlkit.stages.distill.train import teach  # Imports torch.

    return teach(options, lesson, provenance)


def _options(values: dict[str, Any]) -> DistillOptions:
    words = recorded("distill", values)
    words.pop(ANONYMOUS, None)  # Depends on the clients; see `_withheld`.
    if values["steps"]:
        del words["epochs"]
    settings, rest = divided(values, TEACHERS[values["teacher"]].options)
    return fill(DistillOptions, {**rest, "settings": settings, "recorded": words})


def _check_output(options: DistillOptions) -> None:
    known = (options.model, options.data.name, options.settings.get("partition"))
    check_output(options.output, (*options.sources, *known))
    if options.record:
        files = (*options.sources, *known, options.output)
        check_output(options.record, files, "--record")
        check_place(options.record)


def _provenance(options: DistillOptions, lesson: Lesson) -> Provenance:
    plugin = encoder_plugin(lesson.model)
    resolved = {**options.resolved, **plugin, **lesson.resolved}
    contents = {**lesson.contents, **by_role("distill", model=lesson.model)}
    withheld = _withheld(options, lesson)
    if withheld and not withheld.seed:
        resolved[ANONYMOUS] = True
    return Provenance("distill", resolved, options.seed, contents, withheld)


def _withheld(options: DistillOptions, lesson: Lesson) -> Withheld | None:
    """Entries that the header leaves out, of a site's model or of the server's model."""
    anonymous = is_anonymous(options.anonymous, options.record, lesson.teachers)
    if is_site(lesson.facts.client, lesson.facts.partition):
        _check_unused(options, lesson)
        return withheld_by_site("distill")
    return withheld_by_server("distill", options.record, {}) if anonymous else None


def _check_unused(options: DistillOptions, lesson: Lesson) -> None:
    """Refuse the server's options for headers if the result is a site's model."""
    chosen = {None: "", True: "--anonymous", False: "--named"}[options.anonymous]
    given = f"--record {options.record}" if options.record else chosen
    if given:
        raise UsageError(
            f"{given} does not apply: {options.model} is the model of site "
            f"{lesson.facts.client}, and the whole header of a site's model always goes to "
            "OUTPUT.record"
        )
