"""Cost of each term in a training step of the 1M net, relative to the step without it.

Every term of the catalogue has a line; a term without a case fails. Both steps have equal
images, views and optimiser, and take turns. The time is the CPU time of this process: other
programs on the machine then disturb less.
"""

import time
from collections.abc import Callable, Iterator
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor

from furlkit import catalogue
from furlkit.models.loading import tensors_of
from furlkit.objectives.learner import Forward, Stateless
from furlkit.objectives.simclr import step
from furlkit.runtime import Runtime, start
from furlkit.training.learners import terms_of
from furlkit.training.loop import Job, train
from furlkit.training.plan import Plan
from tests.bench.step import _NoKeeper
from tests.bench.world import BATCH, client_images, fresh_net

SIZE, TURNS = "1M", 11
ROWS, PUBLIC = 4096, 512
BARS = {"fedx": 0.40}  # A second forward pass of both views, without gradients.
NEW = ("decorrelation", "fedx", "uniformity", "moon", "cka")  # Terms with a bar.
BAR = 0.05


def run() -> Iterator[str]:
    """One line for each term: the median over turns of the ratio to the plain step."""
    start(Runtime("cpu", 1))
    plain = steps_of(None)
    every = {name: steps_of(name) for name in catalogue.TERMS}
    for steps in (plain, *every.values()):
        seconds(steps)  # The first step allocates memory.
    costs: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(TURNS):
        for name, steps in every.items():
            costs[name].append(seconds(steps) / seconds(plain) - 1)
    for name, found in costs.items():
        low, cost, high = quantiles(found, n=4)
        bar = f" (bar: {BARS.get(name, BAR):.0%})" if name in NEW else ""
        yield f"{name:14} {cost:+.1%} of a step, quartiles {low:+.1%} {high:+.1%}{bar}"


def seconds(steps: Iterator[object]) -> float:
    """CPU time of a step."""
    began = time.process_time()
    next(steps)
    return time.process_time() - began


def steps_of(name: str | None) -> Iterator[object]:
    """Endless steps of SimCLR, with a term."""
    net, images = fresh_net(SIZE), client_images(10_000)
    plan = Plan(epochs=10**6, batch_size=BATCH)
    learner = Stateless(net, _step)
    terms = {}
    if name is not None:
        options = {o.key: o.default for o in catalogue.TERMS[name].options}
        options = {k: v for k, v in options.items() if k not in OF_EXCHANGES}
        options |= OPTIONS.get(
            name, {catalogue.key_of(catalogue.TERMS[name].switch): 0.1}
        )
        terms = terms_of(net, inputs_of(name, net, learner), {name: options})
        if not terms:
            raise ValueError(f"{name}: the options do not turn the term on")
    job = Job("bench", learner, images, plan, (0, "bench"), terms=terms)
    return train(job, _NoKeeper())


def _step(net: Any, batch: Any) -> Forward:
    """SimCLR without negatives of the objective: the neighbours term reads `rows`."""
    return step(net, batch, temperature=0.5, form="full")._replace(rows=None)


# Functions of terms do not get the options of exchanges.
OF_EXCHANGES = {
    option.key for entry in catalogue.EXCHANGES.values() for option in entry.options
}
OPTIONS: dict[str, dict[str, Any]] = {
    "alignment": {"beta": 0.01},
    "neighbours": {"neighbours": 20},
    "scaffold": {"scaffold": True},
}


def inputs_of(name: str, net: Any, learner: Any) -> dict[str, Any]:
    """Data for the inputs that the catalogue names."""
    rng = torch.Generator().manual_seed(0)
    made: dict[str, Callable[[], Any]] = {
        "received": lambda: tensors_of(net),
        "last": lambda: tensors_of(net),
        "correction": lambda: tensors_of(net),
        "learner": lambda: _styled(learner, rng),
        "styles": lambda: [torch.randn(10_000, 614, generator=rng) for _ in range(2)],
        "rows": lambda: _unit(ROWS, rng),
        "centroids": lambda: _unit(128, rng),
        "h_align": lambda: torch.randn(PUBLIC, 614, generator=rng),
        "z_align": lambda: torch.randn(PUBLIC, 64, generator=rng),
        "public": _public,
        "kernel": lambda: torch.rand(PUBLIC, PUBLIC, generator=rng),
        "kernel_layer": lambda: "h",
        "kernel_images": _public,
    }
    return {key: made[key]() for key in catalogue.TERMS[name].inputs}


def _unit(count: int, rng: torch.Generator) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, 64, generator=rng), dim=1)


def _styled(learner: Any, rng: torch.Generator) -> Any:
    learner.generator = torch.nn.Linear(2 * 614, 614)
    return learner


def _public() -> Callable:
    images = client_images(PUBLIC)

    def batch(number: int, size: int) -> Any:
        return images.batch(torch.arange(size), torch.Generator(), number)

    return batch
