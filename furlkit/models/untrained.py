"""Weights as init draws them, for comparison with trained weights."""

import numpy as np

from furlkit import console
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.models.architecture import build
from furlkit.models.description import Architecture
from furlkit.models.loading import tensors_of
from furlkit.randomness import torch_generator
from furlkit.weights import Tensors, part_of


def drawn_tensors(facts: CheckpointFacts, seed: int) -> Tensors:
    """Return the tensors that init would write with this seed."""
    architecture = Architecture.from_dict(facts.architecture)
    return tensors_of(build(architecture, torch_generator(seed, "init")))


def warn_if_untrained(model: Checkpoint, head: str) -> None:
    """Warn if init drew a head and no training changed it.

    Older files do not record init's seed; the file's seed, or 0, is tried.
    """
    known = (model.facts.init_seed, model.header.seed, 0)
    seed = next(each for each in known if each is not None)
    drawn = drawn_tensors(model.facts, seed)
    own = {k: v for k, v in model.tensors.items() if part_of(k) == head}
    if own and all(np.allclose(v, drawn[k], 1e-6, 0) for k, v in own.items()):
        console.warn(
            f"{model.path}: the {head} is init's and was never trained; the score is "
            "at chance level"
        )
