"""audit membership: guess from a model if images were used for training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from furlkit import runtime
from furlkit.audits.membership import scores
from furlkit.catalogue import AUDITS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.candidates import Candidates, others_source, without_copies
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.models import width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.embedding import embed_views
from furlkit.models.loading import fitting_net, load_net, view_of
from furlkit.reports.document import describe_checkpoint
from furlkit.stages.audit import (
    Attack,
    AuditOptions,
    augmentation_of,
    conclude,
    draw,
    seconds_per,
    success_of,
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
    for each in filter(None, (model, parent)):
        fitting_net(each)
        width_of(each, options.layer)
    images, others = (open_images(s, model) for s in (options.members, options.others))
    index, known = chosen_images(images, options.partition, options.part)
    members = Candidates(images, draw(index, options.images, options.seed, "members"))
    kept = without_copies(Candidates(images, index), others)
    kept = replace(kept, index=draw(kept.index, options.images, options.seed, "others"))
    device = runtime.start(options.runtime)
    origins = {
        "protocol": "membership",
        "attacker": _knowledge(parent),
        "n": {"members": len(members), "others": len(kept)},
        "augmentation": _plain_values(augmentation_of(model)),
        "temperature": _temperature(options, model),
        "layer": options.layer,
        "checkpoint": describe_checkpoint(model),
        "data": {"members": images.fingerprint, "others": others.fingerprint},
        "inputs": {**by_role("audit membership", model=model, parent=parent), **known},
    }
    sides = {"members": members, "others": kept}
    models = [each for each in (model, parent) if each]
    attack = Attack(
        origins,
        lambda: _attacked(options, models, sides, device),
        lambda: _estimate(options, models, sides, device),
    )
    return conclude(options, attack)


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


def _temperature(options: MembershipOptions, model: Checkpoint) -> float:
    if options.temperature:
        return options.temperature
    known = model.header.options.get("temperature")
    return float(known) if isinstance(known, int | float) and known > 0 else TAU


def _attacked(
    options: MembershipOptions,
    models: list[Checkpoint],
    sides: dict[str, Candidates],
    device: torch.device,
) -> dict[str, Any]:
    z = [_features(options, each, sides, device, models[0]) for each in models]
    tau = _temperature(options, models[0])
    found = scores(z[0], tau, z[1] if len(z) > 1 else None)
    combined = load(AUDITS["membership"].function)(found)
    n, seed = len(sides["members"]), options.seed
    each = {
        name: {k: v for k, v in success_of(s[:n], s[n:], seed, name).items()
               if k != "roc"}
        for name, s in found.items()
    }  # fmt: skip
    return {**success_of(combined[:n], combined[n:], seed, "combined"), "scores": each}


def _features(
    options: MembershipOptions,
    model: Checkpoint,
    sides: dict[str, Candidates],
    device: torch.device,
    trained: Checkpoint,
) -> np.ndarray:
    """Features (V, n, d) of members, then of others; both models see equal views."""
    net, view = load_net(model, device), view_of(model, augmentation_of(trained))
    found = [
        embed_views(
            net,
            Images(side.images.images, None, side.index, view, device),
            options.layer,
            options.views,
            options.seed,
            f"audit {name}",
        )
        for name, side in sides.items()
    ]
    return np.concatenate(found, axis=1)


def _estimate(
    options: MembershipOptions,
    models: list[Checkpoint],
    sides: dict[str, Candidates],
    device: torch.device,
) -> float:
    count = sum(map(len, sides.values()))

    def work(few: int) -> None:
        some = {"members": sides["members"].first(few)}
        _features(options, models[0], some, device, models[0])

    return seconds_per(len(sides["members"]), work) * count * len(models)
