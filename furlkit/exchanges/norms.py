"""FedBN: a client keeps its BatchNorm layers, and all other layers are averaged.

Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
ICLR 2021. Weights, biases and running statistics of these layers are in the private file,
not in the upload, so the server's model lacks them from round 1 on. A client without a
private file starts from the layers that it received, or from new ones.
"""

from furlkit.errors import InputError
from furlkit.exchanges.exchange import Exchange, Setup
from furlkit.exchanges.usage import Values
from furlkit.models.architecture import build
from furlkit.models.loading import batchnorm_names
from furlkit.weights import NESTED


class Norms(Exchange):
    """The names of the tensors of BatchNorm layers, of all nets that a learner has."""

    def __init__(self, values: Values) -> None:
        self.active = values["keep_norms"]

    def kept_tensors(self, setup: Setup) -> set[str]:
        names = batchnorm_names(build(setup.architecture, None))
        if not names:
            raise InputError(
                f"{setup.model.path}: has no BatchNorm layer that --keep-norms could keep"
            )
        nested = {f"{net}.{name}" for net in NESTED for name in names}
        return (names | nested) & setup.learner.keys()
