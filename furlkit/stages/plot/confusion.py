"""plot confusion: predicted classes by true class, in a heat map."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.container.header import short
from furlkit.reports.explain import describe_metrics
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import facts_of, is_number, read_one
from furlkit.reports.text import plain, word
from furlkit.stages.plot.picture import Picture, figure, picture


@picture
def run(file: Path, frame: Frame) -> Picture:
    """Draw the confusion matrix of a metrics file; clusters by matched class."""
    metrics = read_one(file)
    matrix = _matrix(file, metrics)
    names = class_names(metrics, len(matrix))
    columns, label = names, "predicted class"
    if isinstance(metrics.get("matching"), list):
        # The matching is of the first repeat; other repeats may match other classes.
        matched = [0] * len(names) if metrics.get("repeats") else metrics["matching"]
        columns, label = _clusters(names, matched, matrix.shape[1])
    text = describe_metrics(metrics)
    titled = frame._replace(title=_title(metrics)) if frame.title is None else frame
    return (
        lambda: figure("confusion:draw_confusion")(
            matrix, names, columns, label, titled
        ),
        text,
        {"confusion": matrix.tolist(), "rows": names, "columns": columns},
    )


def _clusters(
    names: list[str], matched: list[int | None], columns: int
) -> tuple[list[str], str]:
    """Names of the columns, by the class of the cluster, and the axis label."""
    pairs = zip(names, matched, strict=True)
    found = ["none" if cluster is None else name for name, cluster in pairs]
    label = "cluster, by the class that it matches"
    label += "; none: no cluster" if None in matched else ""
    left = columns - len(names)
    label += "; +: no class" if left else ""
    return [*found, *(f"+{number}" for number in range(1, left + 1))], label


def _title(metrics: dict[str, Any]) -> str:
    """Protocol, accuracy, role and round, if the file has them."""
    accuracy, facts = metrics.get("accuracy"), facts_of(metrics)
    shown = f" {100 * accuracy:.2f} %" if is_number(accuracy, 1) else ""
    model = f"{word(facts.get('role'))} model, round {word(facts.get('round'))}"
    return f"{word(metrics.get('protocol'))} accuracy{shown}, {model}"


def _matrix(path: Path, metrics: dict[str, Any]) -> np.ndarray:
    found, matched = metrics.get("confusion"), metrics.get("matching")
    matrix: Any = np.empty(0)
    with suppress(ValueError, TypeError, OverflowError):
        matrix = np.array(found, np.int64)
    rows, columns = matrix.shape if matrix.ndim == 2 else (0, 0)
    fit = columns == rows
    if matched is not None:
        fit = isinstance(matched, list) and columns >= rows == len(matched)
    if not rows or not fit or matrix.min() < 0:
        raise InputError(
            f"{path}: the confusion matrix is {short(found)}, expected image counts "
            "by class; give a file of evaluate linear, knn, classifier or cluster"
        )
    return matrix


def class_names(metrics: dict[str, Any], classes: int) -> list[str]:
    """Names of the classes, or their numbers."""
    names: Any = metrics.get("class_names")
    fit = isinstance(names, list) and len(names) == classes
    return [plain(str(name)) for name in (names if fit else range(classes))]
