"""Scores of members and other images by a model, and by the model before."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from furlkit import runtime
from furlkit.audits.membership import scores
from furlkit.catalogue import AUDITS, load
from furlkit.data.batches import Images
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.candidates import Candidates
from furlkit.models.embedding import embed_views
from furlkit.models.loading import check_fit, load_net, view_of
from furlkit.stages.audit import Attack, augmentation_of
from furlkit.stages.audit.membership import MembershipOptions, temperature_of
from furlkit.stages.audit.work import seconds_per, success_of


def attack(
    options: MembershipOptions,
    models: Sequence[Checkpoint],
    sides: dict[str, Candidates],
) -> Attack:
    """Attack by the models, the attacked model first."""
    check_fit(models)
    device = runtime.start(options.runtime)
    return Attack(
        lambda: _attacked(options, models, sides, device),
        lambda: _estimate(options, models, sides, device),
    )


def _attacked(
    options: MembershipOptions,
    models: Sequence[Checkpoint],
    sides: dict[str, Candidates],
    device: torch.device,
) -> dict[str, Any]:
    z = [_features(options, each, sides, device, models[0]) for each in models]
    tau = temperature_of(options, models[0])
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
    models: Sequence[Checkpoint],
    sides: dict[str, Candidates],
    device: torch.device,
) -> float:
    count = sum(map(len, sides.values()))

    def work(few: int) -> None:
        some = {"members": sides["members"].first(few)}
        _features(options, models[0], some, device, models[0])

    return seconds_per(len(sides["members"]), work) * count * len(models)
