"""Compute the outputs of a model for images, and write rows or cosines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from furlkit import runtime
from furlkit.aggregators.dictionary import noisy_rows
from furlkit.data.augmentation import Augmentation
from furlkit.errors import InputError
from furlkit.exchanges.style import generator, style_encoder
from furlkit.files.checkpoint import Checkpoint, check_finite
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.files.private import Private
from furlkit.files.secret import site_secret
from furlkit.files.similarity import SHORTEST, kept_of, write_similarity
from furlkit.models.architecture import Net
from furlkit.models.description import ClassHead
from furlkit.models.embedding import embed, embed_probabilities
from furlkit.models.loading import load_net, view_of
from furlkit.models.style import personalise, style_net
from furlkit.randomness import array_digest, numpy_generator
from furlkit.stages.embed import EmbedOptions

BLOCK = 1024


def open_net(options: EmbedOptions, model: Checkpoint, private: Private | None) -> Net:
    """Load the net of the model, or of the client's personal model."""
    net = load_net(model, runtime.start(options.runtime))
    return _personal(options, private, model, net) if private else net


def rows_of(
    net: Net,
    model: Checkpoint,
    images: np.ndarray,
    index: np.ndarray,
    layer: ClassHead | str,
) -> torch.Tensor:
    """Return h or z of the images, or the probabilities of a head."""
    seen = (net, images, index, view_of(model, Augmentation()))
    if isinstance(layer, ClassHead):
        return embed_probabilities(*seen, layer)
    return embed(*seen, layer)


def with_noise(
    options: EmbedOptions,
    rows: torch.Tensor,
    model: Checkpoint,
    origin: dict[str, Any],
) -> torch.Tensor:
    """Unit rows with --noise; `origin`: content of the inputs and of the dataset.

    Equal rows get equal noise, also in files of other encodings and in similarities:
    two files average nothing out. Other rows or another sigma draw other noise, so that
    two files do not give the rows away.
    """
    _check_directions(options.model, rows)
    first = site_secret(options.secret) if options.secret else model.header.seed or 0
    known = json.dumps(origin, sort_keys=True)
    unit = F.normalize(rows, dim=1).cpu().numpy()
    purpose = (known, options.part, options.layer, options.style, repr(options.noise))
    rng = numpy_generator(first, "embed", "noise", *purpose, array_digest(unit))
    return torch.from_numpy(noisy_rows(unit, options.noise, rng))


def _personal(
    options: EmbedOptions, private: Private, model: Checkpoint, net: Net
) -> Net:
    """Return the net with the encoder of FedStyle Eq. 4, or the style model."""
    device = next(net.parameters()).device
    style = style_net(model, style_encoder(private, model), device)
    if options.style:
        return style
    personalise(net, style, generator(private, model))
    return net


def write(
    options: EmbedOptions,
    rows: torch.Tensor,
    index: np.ndarray,
    facts: FeatureFacts,
    provenance: Provenance,
) -> str:
    more = (index, facts, provenance, options.encoding)
    if not options.similarity:
        check_finite(options.model, f"{options.layer} of the images", rows.numpy())
        return write_features(options.output, rows.numpy(), *more)
    _check_directions(options.model, rows)
    unit = F.normalize(rows.to(runtime.device_of(options.runtime)), dim=1)

    def blocks() -> Iterator[torch.Tensor]:
        for start in range(0, len(unit), BLOCK):
            yield unit[start : start + BLOCK] @ unit.T

    if options.top is None:
        arrays = (block.cpu().numpy() for block in blocks())
        return write_similarity(options.output, arrays, *more)
    kept = []
    for start, block in zip(range(0, len(unit), BLOCK), blocks(), strict=True):
        block.diagonal(start).fill_(2)  # After rounding, a twin may be nearer.
        kept.append(block.topk(kept_of(options.top, len(unit)), dim=1))
    values = torch.cat([block.values for block in kept]).clamp(max=1).cpu().numpy()
    columns = torch.cat([block.indices for block in kept]).cpu().numpy()
    return write_similarity(options.output, [values], *more, columns)


def _check_directions(model: Path, rows: torch.Tensor) -> None:
    """Check that rows are finite and have a direction: cosines need directions."""
    length, n = torch.linalg.vector_norm(rows, dim=1), len(rows)
    if broken := int((~torch.isfinite(length)).sum()):
        raise InputError(
            f"{model}: gives NaN or infinity for {broken:,} of {n:,} images; the model "
            "has diverged, train again with a lower --lr"
        )
    if zeros := int((length < SHORTEST).sum()):
        raise InputError(
            f"{model}: gives zeros for {zeros:,} of {n:,} images, which have no cosine; "
            "the model is dead or has collapsed, train again with a lower --lr"
        )
