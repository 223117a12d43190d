"""furlkit: federated unsupervised representation learning as programs over files."""

__version__ = "0.1.0"
