"""export: the bare encoder with config.json, the graphs, and the model card."""

from furlkit.stages.export.encoder import run

__all__ = ["run"]
