"""Options of linear classifiers on frozen features, for `evaluate linear` and `personal`."""

from dataclasses import dataclass

from furlkit.evaluation.settings import LinearSettings


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Options of linear classifiers; --solver lbfgs has no settings."""

    solver: str
    settings: LinearSettings | None
    probes: int | None = None
