"""audit membership: guess from a model if images were used for training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from furlkit.catalogue import recorded
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.audited import check_members, check_started_from
from furlkit.inputs.candidates import Candidates, others_source, without_copies
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.models import width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.reports.document import describe_checkpoint
from furlkit.stages.audit import (
    AuditOptions,
    augmentation_of,
    conclude,
    draw,
    work_of,
)

TAU = 0.5  # Of the contrastive loss, if the header of the model has no temperature.


@dataclass(frozen=True, kw_only=True)
class MembershipOptions(AuditOptions):
    """`part` of `members` trained the model; `others` did not."""

    model: Path
    parent: Path | None
    members: Source
    others: Source
    partition: Path | None
    part: str
    views: int
    layer: str
    temperature: float | None


def run(values: dict[str, Any]) -> Result:
    """Score members and other images by the views' similarity, loss and length."""
    options = _options(values)
    sources = [source.name for source in (options.members, options.others)]
    inputs = [options.model, options.parent, options.partition, *sources]
    check_output(options.output, inputs)
    model = read_checkpoint(options.model)
    parent = read_checkpoint(options.parent) if options.parent else None
    if parent:
        check_started_from(model, parent)
    for each in filter(None, (model, parent)):
        width_of(each, options.layer)
    images, others = (open_images(s, model) for s in (options.members, options.others))
    index, known = chosen_images(images, options.partition, options.part)
    check_members(model, known.get("partition"), options.part, len(index), images)
    members = Candidates(images, draw(index, options.images, options.seed, "members"))
    kept = without_copies(Candidates(images, index), others)
    kept = replace(kept, index=draw(kept.index, options.images, options.seed, "others"))
    origins = {
        "protocol": "membership",
        "attacker": _knowledge(parent),
        "n": {"members": len(members), "others": len(kept)},
        "augmentation": _plain_values(augmentation_of(model)),
        "temperature": temperature_of(options, model),
        "layer": options.layer,
        "checkpoint": describe_checkpoint(model),
        "data": {"members": images.fingerprint, "others": others.fingerprint},
        "inputs": {**by_role("audit membership", model=model, parent=parent), **known},
    }
    sides = {"members": members, "others": kept}
    models = [each for each in (model, parent) if each]
    return conclude(
        options, origins, lambda: work_of("membership").attack(options, models, sides)
    )


def _options(values: dict[str, Any]) -> MembershipOptions:
    known = recorded("audit membership", values)
    place = {key: values.pop(key) for key in ("data_root", "download", "cache")}
    values["others"] = others_source(values["members"], values["others"], place)
    values["members"] = Source(values["members"], **place)
    return fill(MembershipOptions, {**values, "recorded": known})


def _knowledge(parent: Checkpoint | None) -> str:
    text = (
        "the attacker has the model, candidate images and the training's augmentation"
    )
    if parent:
        text += ", and the model before training (the server or another client)"
    return f"{text}; the attacker knows no member"


def _plain_values(how: Augmentation) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(how).items()}


def temperature_of(options: MembershipOptions, model: Checkpoint) -> float:
    """tau of the contrastive loss: the option, or the training's."""
    if options.temperature:
        return options.temperature
    known = model.header.options.get("temperature")
    return float(known) if isinstance(known, int | float) and known > 0 else TAU
