"""furlkit: federated unsupervised representation learning by programs over files."""

__version__ = "0.2.0"
