"""A client's style as its private file has it: the style model, the generator G."""

from pathlib import Path

import torch

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.private import Private
from furlkit.models.architecture import build
from furlkit.models.loading import check_tensors, full_architecture
from furlkit.models.style import PREFIX, empty_generator, style_architecture
from furlkit.weights import Tensors, below


def style_encoder(private: Private, model: Checkpoint) -> Tensors:
    """f_s, the encoder of the style model, which must be built as the model's is."""
    expected = build(style_architecture(model), None).state_dict()
    cure = "create one with pretrain-style, and train with the private file it writes"
    return _part(
        private, PREFIX, "encoder.", expected, ("style model", cure), model.path
    )


def generator(private: Private, model: Checkpoint) -> Tensors:
    """G, which must fit the model's h."""
    h_dim = full_architecture(model.path, model.facts).feature_dim
    expected = empty_generator(h_dim).state_dict()
    cure = "give a private file that local-train --infusion wrote"
    return _part(private, "generator.", "", expected, ("generator", cure), model.path)


def _part(
    private: Private,
    prefix: str,
    part: str,
    expected: dict[str, torch.Tensor],
    missing: tuple[str, str],
    model: Path,
) -> Tensors:
    """Tensors of a private file below a prefix, whole and of the expected shapes."""
    what, cure = missing
    wanted = {prefix + name: tensor for name, tensor in expected.items()}
    found = {k: v for k, v in private.tensors.items() if k.startswith(prefix + part)}
    if not found:
        raise InputError(f"{private.path}: has no {what}; {cure}")
    check_tensors(private.path, wanted, found, f"what fits {model}")
    if lacking := sorted(wanted.keys() - found.keys()):
        raise InputError(f"{private.path}: lacks {lacking[0]} of its {what}")
    return below(prefix, found)
