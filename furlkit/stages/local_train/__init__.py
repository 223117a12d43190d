"""local-train: what a client does in a round."""

from furlkit.stages.local_train.train import run

__all__ = ["run"]
