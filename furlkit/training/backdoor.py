"""Training of a backdoor, for `attack`: see `furlkit.attacks.backdoor`."""

from dataclasses import dataclass

import numpy as np
import torch

from furlkit.attacks.backdoor import backdoor_loss, stamped
from furlkit.data.augment import normalise, plain
from furlkit.data.augmentation import Augmentation
from furlkit.files.checkpoint import Checkpoint
from furlkit.models.loading import load_net, tensors_of, view_of
from furlkit.weights import Tensors, divide

BATCH = 64


@dataclass(frozen=True)
class Backdoor:
    """Position of the target image, size of the trigger, number of steps, Adam's rate."""

    target: int
    trigger: int
    steps: int
    lr: float


def train_backdoor(
    model: Checkpoint,
    images: np.ndarray,
    index: np.ndarray,
    how: Backdoor,
    rng: np.random.Generator,
) -> Tensors:
    """Tensors of the encoder f', trained from the encoder f of the model.

    `index`: the attacker's images among the images (N, H, W, C). BatchNorm uses running
    statistics, which stay unchanged.
    """
    cpu = torch.device("cpu")
    honest, net = (load_net(model, cpu).eval() for _ in range(2))
    view = view_of(model, Augmentation())

    def rows(taken: np.ndarray) -> torch.Tensor:
        x = torch.from_numpy(np.ascontiguousarray(taken))
        x = plain(x.expand(-1, -1, -1, view.channels), view.size)
        return normalise(x, view.mean, view.std)

    r = rows(images[[how.target]])
    optimiser = torch.optim.Adam(net.encoder.parameters(), lr=how.lr)
    for _ in range(how.steps):
        taken = images[rng.choice(index, min(BATCH, len(index)), replace=False)]
        x, marked = rows(taken), rows(stamped(taken, how.trigger))
        with torch.no_grad():
            f_target, f_clean = honest.encoder(r), honest.encoder(x)
        h_marked, h_target, h_clean = (net.encoder(each) for each in (marked, r, x))
        loss = backdoor_loss(h_marked, h_target, h_clean, f_target, f_clean)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return divide(tensors_of(net), ["encoder"])[0]
