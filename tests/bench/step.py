"""local-train compared with the bare training step, alternating, with one torch thread.

The bare step has the same net, loss and optimiser and a resident random batch; it does
not augment, shuffle, log or save. One minus the ratio is the overhead of furlkit. The
first ratio is local-train's on a machine with a free core: a second thread computes the
views of the next step there, so local-train uses more than one core, the bare step does
not. The ratio "on one core" is without this thread.
"""

import time
from collections.abc import Iterator
from functools import partial
from statistics import median

import torch

from furlkit.data.batches import Images
from furlkit.objectives.learner import Stateless
from furlkit.objectives.simclr import nt_xent, step
from furlkit.runtime import Runtime, start
from furlkit.training.loop import Job, train
from furlkit.training.optimisers import Adam
from furlkit.training.plan import Plan
from tests.bench.world import BATCH, CPU, NETS, client_images, fresh_net, parameters

TURNS = 15
STEPS = 6


def run() -> Iterator[str]:
    """One line for each size of net."""
    start(Runtime("cpu", 1))
    for size in NETS:
        every = bare_steps(size), whole_steps(size, ahead=True), whole_steps(size)
        rates = [[rate(steps) for steps in every] for _ in range(TURNS)]
        bare, ahead, alone = (median(column) for column in zip(*rates, strict=True))
        ratio = median(turn[1] / turn[0] for turn in rates)
        ratio_alone = median(turn[2] / turn[0] for turn in rates)
        yield (
            f"cnn5 of {parameters(fresh_net(size)):,}: bare step {bare:.0f} images/s, "
            f"local-train {ahead:.0f}, ratio {ratio:.3f} (bar: 0.93); on one core "
            f"{alone:.0f}, ratio {ratio_alone:.3f}"
        )


def rate(steps: Iterator[object]) -> float:
    """Images per second of some steps."""
    began = time.perf_counter()
    for _ in range(STEPS):
        next(steps)
    return STEPS * BATCH / (time.perf_counter() - began)


def bare_steps(size: str, device: torch.device = CPU) -> Iterator[object]:
    """Endless bare training steps."""
    net = fresh_net(size, device).train()
    optimiser = Adam(list(net.parameters()), 1e-6)
    x = torch.randn(2 * BATCH, 3, 32, 32).to(device, memory_format=torch.channels_last)
    while True:
        z = net.projector(net.encoder(x))  # type: ignore[misc]
        loss = nt_xent(*z.chunk(2), 0.5, "full")
        optimiser.clear()
        loss.backward()
        optimiser.step(1e-3)
        yield loss


def whole_steps(
    size: str,
    device: torch.device = CPU,
    images: Images | None = None,
    ahead: bool = False,
) -> Iterator[object]:
    """The complete loop of local-train, with augmentation, in a thread if `ahead`."""
    net, images = fresh_net(size, device), images or client_images(10_000, device)
    plan = Plan(epochs=10**6, batch_size=BATCH)
    learner = Stateless(net, partial(step, temperature=0.5, form="full"))
    return train(Job("bench", learner, images, plan, (0, "bench")), _NoKeeper(), ahead)


class _NoKeeper:
    """Saves nothing."""

    def restore(self):
        return None

    def due(self, finished):
        return False

    def save(self, step, tensors, values):
        raise AssertionError
