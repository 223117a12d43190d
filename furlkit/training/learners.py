"""From an entry of the catalogue to a learner and the terms that are added to it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from furlkit import catalogue
from furlkit.data.batches import Batch
from furlkit.models.loading import tensors_of
from furlkit.objectives.learner import Stateless
from furlkit.training.loop import Term
from furlkit.weights import Tensors


class Given(NamedTuple):
    """What a stage opened for terms.

    `public(step, size)` gives the public images of a step; their `index` are rows of
    `h_align` and `z_align`. `received` is the model that the client was given, completed
    by what it keeps. `styles` are h_s of the client's images, and of their Sobel images,
    by its style model; `learner` is what is trained, which has the generator. `rows` are
    unit rows of other clients, for an objective that does not take them itself.
    """

    public: Callable[[int, int], Batch] | None = None
    h_align: Tensor | None = None
    z_align: Tensor | None = None
    received: Tensors | None = None
    styles: tuple[Tensor, Tensor] | None = None
    learner: Any = None
    rows: Tensor | None = None


def learner_of(
    objective: catalogue.Objective, net: nn.Module, settings: dict[str, Any]
) -> Any:
    """The learner of an objective with its settings."""
    function = catalogue.load(objective.function)
    if objective.has_state:
        return function(net, **settings)
    return Stateless(net, partial(function, **settings))


def add_generator(learner: Any, generator: nn.Module) -> None:
    """Let a learner train a generator with its net, and carry along what that takes."""
    learner.generator = generator
    if hasattr(learner, "keep_infused"):
        learner.keep_infused()


def terms_of(
    net: nn.Module, given: Given, settings: dict[str, dict[str, Any]]
) -> dict[str, Term]:
    """The terms that are switched on, by name; `settings` are those of each."""
    makers = {
        name: catalogue.load(catalogue.terms()[name].function) for name in settings
    }
    terms = {name: makers[name](net, given, **settings[name]) for name in settings}
    return {name: term for name, term in terms.items() if term is not None}


def parts_by_name(learner: nn.Module) -> Tensors:
    """A learner's tensors: the net's under their own names, then all that it carries."""
    return {k.removeprefix("net."): v for k, v in tensors_of(learner).items()}
