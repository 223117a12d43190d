"""evaluate neighbours: share of neighbours with the image's class."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import InputError
from furlkit.files.neighbours import Neighbours, read_neighbours
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.reports.text import counted


@dataclass(frozen=True, kw_only=True)
class NeighbourScoreOptions:
    """Files of the command neighbours, and the labels of the images."""

    files: tuple[Path, ...]
    data: Source
    output: Path
    dry_run: bool
    force: bool
    resolved: dict[str, Any]


def run(values: dict[str, Any]) -> Result:
    """Compare labels of images and neighbours; opens no image."""
    known = recorded("evaluate neighbours", values)
    options = fill(NeighbourScoreOptions, {**values, "resolved": known})
    check_output(options.output, [*options.files, options.data.name])
    found = [read_neighbours(path) for path in options.files]
    labels = _labels(options.data, found)
    images = sum(len(each.index) for each in found)
    seen = f"the neighbours of {images:,} images in {counted(found, 'file')}"
    origins = {
        "protocol": "neighbours",
        "images": images,
        "data": {"images": found[0].facts.dataset},
        "neighbours": [each.content for each in found],
        "inputs": by_role("evaluate neighbours", files=dict(enumerate(found))),
    }
    if options.dry_run:
        return f"would score {seen}", origins
    if document := existing_scores(options, origins):
        return already(_line(options, document, seen), document)
    document = write_document(options, {**origins, **_scores(found, labels)})
    return _line(options, document, seen), document


def _line(options: NeighbourScoreOptions, document: dict[str, Any], seen: str) -> str:
    share = document["own_class"]
    return f"{options.output}: {share:.1%} of {seen} are of the same class"


def _scores(found: Sequence[Neighbours], labels: np.ndarray) -> dict[str, Any]:
    """Share over the images of all files, and in each file."""
    parts = []
    for each in found:
        own_class = load(PROTOCOLS["neighbours"].function)
        ranks = own_class(labels, each.index, each.nearest)
        about = {"part": each.facts.part, "images": len(each.index)}
        parts.append(
            {**about, "own_class": float(ranks.mean()), "ranks": ranks.tolist()}
        )
    total = sum(part["images"] for part in parts)
    shares = (part["own_class"] * part["images"] / total for part in parts)
    return {"own_class": sum(shares), "parts": parts}


def _labels(data: Source, found: Sequence[Neighbours]) -> np.ndarray:
    known = data.labels()
    if known.labels is None:
        raise InputError(f"{known.without_labels}, which evaluate neighbours compares")
    for each in found:
        if difference := same_dataset(each.facts.dataset, known.fingerprint):
            raise InputError(
                f"{each.path}: is not of {data.name}: {difference}; give the --data of "
                "the command neighbours"
            )
    return known.labels
