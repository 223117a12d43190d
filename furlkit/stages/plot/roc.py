"""plot roc: share of members found over the share of false alarms, by audits."""

from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.container.header import short
from furlkit.reports.audits import describe_audit
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import is_number, read_one
from furlkit.reports.summary import Curve
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture


@picture
def run(series: Series, frame: Frame) -> Picture:
    """Draw a curve for each file."""
    curves = [_curve(plain(label), path) for label, paths in series for path in paths]
    text = "; ".join(f"{curve.label} AUC {curve.auc:.3f}" for curve in curves)
    data = [
        {"label": c.label, "auc": c.auc, "points": c.points.tolist()} for c in curves
    ]
    return lambda: figure("roc:draw_roc")(curves, frame), text, {"curves": data}


def _curve(label: str, path: Path) -> Curve:
    metrics = read_one(path)
    points, auc = metrics.get("roc"), metrics.get("auc")
    if not is_number(auc, 1) or not _is_curve(points):
        raise InputError(
            f"{path}: expected a curve from [0, 0] to [1, 1], found {short(points)}; give "
            f"a file of furlkit audit ({describe_audit(metrics)})"
        )
    return Curve(label or plain(path.stem), np.array(points, float), auc)


def _is_curve(points: Any) -> bool:
    """Return whether points rise from 0 to 1 in both coordinates."""
    if not isinstance(points, list) or len(points) < 2:
        return False
    fit = all(
        isinstance(p, list) and len(p) == 2 and all(is_number(v, 1) for v in p)
        for p in points
    )
    if not fit:
        return False
    array = np.array(points, float)
    ends = array[0].tolist() == [0, 0] and array[-1].tolist() == [1, 1]
    return ends and bool((np.diff(array, axis=0) >= 0).all())
