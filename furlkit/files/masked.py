"""Masked uploads: the numbers of a site's model, hidden by masks that cancel in a sum."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.clients import ClientId, is_client
from furlkit.files.container.header import short
from furlkit.files.container.layout import DTYPES, Entry
from furlkit.files.container.read import Container, Tensors
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, open_facts

# Masked words besides the model: the site's weight, and zeros. The sum of the zeros
# shows if the masks cancel.
WEIGHT, ZEROS = "masked.weight", "masked.zeros"
ZERO_WORDS = 4
SITE = "site"  # Fact of a site's upload; see `inputs.publishing`.
_TYPES = {dtype.name for dtype in DTYPES.values()}


@dataclass(frozen=True)
class MaskedFacts:
    """Facts about a masked upload; no number of the site besides the masked words.

    `clients`: sites of the sum; `roster`: hash of the sites' public keys. `weights`:
    uniform or examples. `bits`: binary digits behind the point. `types`: type of each
    tensor of the model. `parts` and `statistics`: see CheckpointFacts. `site`: true for a
    site's upload, which names no partition; recorded only if true.
    """

    client: ClientId
    round: int
    run: str
    parent: str
    clients: list[ClientId]
    roster: str
    weights: str
    bits: int
    types: dict[str, Any]
    parts: list[str] | None = None
    statistics: bool = True
    site: bool | None = None


def write_masked(
    path: Path, tensors: Tensors, facts: MaskedFacts, provenance: Provenance
) -> str:
    """Write words of 64 bits; return the content hash."""
    return write(path, tensors, provenance.header("masked", facts))


def open_masked(path: Path) -> tuple[Container, MaskedFacts]:
    """Open a masked upload and check the header, without reading tensors."""
    opened, facts = open_facts(path, "masked", MaskedFacts)
    opened.expect(WEIGHT, "uint64", 1)
    opened.expect(ZEROS, "uint64", ZERO_WORDS)
    for entry in opened.entries:
        opened.expect(entry.name, "uint64", *entry.shape)
    names = {entry.name for entry in opened.entries} - {WEIGHT, ZEROS}
    if names != facts.types.keys() or not _TYPES.issuperset(
        map(str, facts.types.values())
    ):
        raise InputError(f"{path}: types do not fit the tensors; mask the upload again")
    if not all(map(is_client, facts.clients)) or facts.client not in facts.clients:
        raise InputError(
            f"{path}: client {facts.client} is not among the sites of the sum, "
            f"{short(facts.clients)}; mask the upload again"
        )
    return opened, facts


def model_entries(opened: Container, facts: MaskedFacts) -> list[Entry]:
    """Tensors of the model, with the types of the model."""
    return [
        Entry(entry.name, np.dtype(facts.types[entry.name]), entry.shape)
        for entry in opened.entries
        if entry.name in facts.types
    ]
