"""Metrics files that all plots read."""

import pytest

from furlkit.files.metrics import write_metrics
from furlkit.reports.figures import style


@pytest.fixture(scope="session")
def metrics():
    """Write a metrics file: metrics(folder, "a", round_=2, accuracy=0.5)."""

    def write(folder, name, accuracy=0.5, round_=1, seed=None, role="global", **more):
        path = folder / f"{name}.json"
        checkpoint = {"seed": seed, "facts": {"round": round_, "role": role}}
        values = {"protocol": "linear", "accuracy": accuracy, "checkpoint": checkpoint}
        write_metrics(path, {**values, **more})
        return path

    return write


@pytest.fixture
def drawn(monkeypatch):
    """The figures that a plot would save."""
    figures = []
    monkeypatch.setattr(style, "save", lambda figure, *_, **__: figures.append(figure))
    return figures
