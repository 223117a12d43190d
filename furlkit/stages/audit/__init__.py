"""audit: one module for each attack, and the common end of the audits."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import console
from furlkit.catalogue import load
from furlkit.data.augmentation import Augmentation
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.settings import Computing
from furlkit.randomness import numpy_generator
from furlkit.reports.audits import audit_line, describe_amounts


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Computing):
    """Options of every audit; `images`: largest number of images to draw."""

    output: Path
    images: int
    seed: int


class Attack(NamedTuple):
    """An attack on open files: `run` gives entries of the document.

    `estimate` gives the CPU seconds of `run`.
    """

    run: Callable[[], dict[str, Any]]
    estimate: Callable[[], float]


def work_of(audit: str) -> Any:
    """Import the module that computes an attack, and torch."""
    return load(f"furlkit.stages.audit.work.{audit}")


def conclude(
    options: AuditOptions, origins: dict[str, Any], prepare: Callable[[], Attack]
) -> Result:
    """Run an attack and write the document, unless an equal document exists.

    `origins`: entries of the document known in advance, with the attacker's knowledge in
    words. `prepare` imports torch and makes the attack.
    """
    if options.dry_run:
        seconds = prepare().estimate()
        line = (
            f"would attack in about {seconds:.0f} CPU seconds: "
            f"{describe_amounts(origins['n'])}; {origins['attacker']}"
        )
        return line, {**origins, "estimated_cpu_seconds": round(seconds, 1)}
    if before := existing_scores(options, origins):
        return already(audit_line(options.output, before), before)
    with console.noted() as warnings:
        attack, began = prepare(), time.process_time()
        found = {**origins, **attack.run()}
    found["cpu_seconds"] = round(time.process_time() - began, 2)
    document = write_document(options, found, warnings=warnings)
    return audit_line(options.output, document), document


def draw(index: np.ndarray, most: int, seed: int, *purpose: str) -> np.ndarray:
    """At most `most` elements of the index, in order."""
    if len(index) <= most:
        return index
    rng = numpy_generator(seed, "audit", *purpose)
    return np.sort(rng.choice(index, most, replace=False))


def augmentation_of(model: Checkpoint) -> Augmentation:
    """The augmentation of the model's training; the default if the header has none."""
    known = model.header.options
    names = {each.name: each.name.replace("_", "-") for each in fields(Augmentation)}
    values = {key: known[name] for key, name in names.items() if name in known}
    lists: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
    }
    try:
        return Augmentation(**lists)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{model.path}: the header has no valid augmentation: {error}; re-create it"
        ) from error
