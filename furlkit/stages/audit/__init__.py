"""audit: one module for each attack, and the common end of the audits."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.audits.success import Success, measure, roc
from furlkit.data.augment import Augmentation
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.settings import Computing
from furlkit.randomness import numpy_generator
from furlkit.reports.audits import audit_line, describe_amounts

TIMED = 64  # Images for an estimate of the cost.


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Computing):
    """Options of every audit; `images`: largest number of images to draw."""

    output: Path
    images: int
    seed: int


@dataclass(frozen=True)
class Attack:
    """An audit before the computation.

    `origins`: entries of the document known in advance, with the attacker's knowledge in
    words. `run` computes the remaining entries, `estimate` the CPU seconds of `run`.
    """

    origins: dict[str, Any]
    run: Callable[[], dict[str, Any]]
    estimate: Callable[[], float]


def conclude(options: AuditOptions, attack: Attack) -> Result:
    """Run an attack and write the document, unless an equal document exists."""
    if options.dry_run:
        seconds = attack.estimate()
        origins = attack.origins
        line = (
            f"would attack in about {seconds:.0f} CPU seconds: "
            f"{describe_amounts(origins['n'])}; {origins['attacker']}"
        )
        return line, {**origins, "estimated_cpu_seconds": round(seconds, 1)}
    if before := existing_scores(options, attack.origins):
        return already(audit_line(options.output, before), before)
    began = time.process_time()
    found = {**attack.origins, **attack.run()}
    found["cpu_seconds"] = round(time.process_time() - began, 2)
    document = write_document(options, found)
    return audit_line(options.output, document), document


def success_of(
    members: np.ndarray, others: np.ndarray, seed: int, name: str
) -> dict[str, Any]:
    """Entries of a document about scores: AUC, TPR, intervals and the curve."""
    rng = numpy_generator(seed, "audit", name, "bootstrap")
    return {**numbers_of(measure(members, others, rng)), "roc": roc(members, others)}


def numbers_of(success: Success) -> dict[str, Any]:
    """AUC and TPR at 1 % FPR, with intervals."""
    return {
        "auc": success.auc,
        "auc_interval": list(success.auc_interval),
        "tpr_at_1_fpr": success.tpr,
        "tpr_interval": list(success.tpr_interval),
    }


def draw(index: np.ndarray, most: int, seed: int, *purpose: str) -> np.ndarray:
    """At most `most` elements of the index, in order."""
    if len(index) <= most:
        return index
    rng = numpy_generator(seed, "audit", *purpose)
    return np.sort(rng.choice(index, most, replace=False))


def seconds_per(count: int, work: Callable[[int], Any]) -> float:
    """CPU seconds of the work per image, measured on few images."""
    few = min(count, TIMED)
    work(few)  # The first call also loads libraries.
    began = time.process_time()
    work(few)
    return (time.process_time() - began) / few


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
