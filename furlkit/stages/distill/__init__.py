"""distill: one module for each teacher, and the common training."""

from furlkit.stages.distill.lesson import DistillOptions
from furlkit.stages.distill.train import run

__all__ = ["DistillOptions", "run"]
