"""Evidence of shared rows for candidate images."""

from typing import Any

import numpy as np
import torch

from furlkit import runtime
from furlkit.audits.rows import identification, nearness
from furlkit.audits.success import mean_interval
from furlkit.catalogue import AUDITS, load
from furlkit.data.augmentation import Augmentation
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.features import Features
from furlkit.inputs.candidates import Candidates
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.randomness import numpy_generator
from furlkit.stages.audit import Attack
from furlkit.stages.audit.rows import RowsOptions
from furlkit.stages.audit.work import seconds_per, success_of


def attack(
    options: RowsOptions,
    model: Checkpoint,
    rows: Features,
    members: Candidates,
    others: Candidates,
    noise: float,
) -> Attack:
    """Attack by z of the candidates; `noise`: sigma of the rows, from the header."""
    device = runtime.start(options.runtime)

    both = [members, others]

    def compare(few: int | None = None) -> list[np.ndarray]:
        z = [features_of(model, side.first(few), device) for side in both]
        found = load(AUDITS["rows"].function)(np.concatenate(z), rows.rows, noise)
        near = nearness(np.concatenate(z), rows.rows)
        return [part for s in (found, near) for part in np.split(s, [len(z[0])])]

    count = len(members) + len(others)
    return Attack(
        lambda: _success(options, *compare()),
        lambda: count / 2 * seconds_per(len(members), compare),
    )


def _success(
    options: RowsOptions,
    members: np.ndarray,
    others: np.ndarray,
    near_members: np.ndarray,
    near_others: np.ndarray,
) -> dict[str, Any]:
    """Success of the evidence; the success of the distance alone for comparison."""
    chances, chance = identification(members, others, options.k)
    rng = numpy_generator(options.seed, "audit", "rows", "identified")
    distance = success_of(near_members, near_others, options.seed, "distance")
    return {
        **success_of(members, others, options.seed, "rows"),
        "identified": float(chances.mean()),
        "identified_interval": list(mean_interval(chances, rng)),
        "identified_by_chance": chance,
        "scores": {"distance": {k: v for k, v in distance.items() if k != "roc"}},
    }


def features_of(
    model: Checkpoint, side: Candidates, device: torch.device
) -> np.ndarray:
    """z (n, d) of candidate images by the attacker's model."""
    net, view = load_net(model, device), view_of(model, Augmentation())
    return embed(net, side.images.images, side.index, view, "z").numpy()
