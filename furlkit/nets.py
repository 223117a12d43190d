"""The name under which exported encoders of furlkit 0.1 import Cnn5."""

from furlkit.models.encoders import Cnn5

__all__ = ["Cnn5"]
