"""Computations of the attacks, with torch; imported if an attack must run."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from furlkit.audits.success import Success, measure, roc
from furlkit.randomness import numpy_generator

TIMED = 64  # Images for an estimate of the cost.


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


def seconds_per(count: int, work: Callable[[int], Any]) -> float:
    """CPU seconds of the work per image, measured on few images."""
    few = min(count, TIMED)
    work(few)  # The first call also loads libraries.
    began = time.process_time()
    work(few)
    return (time.process_time() - began) / few
