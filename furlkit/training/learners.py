"""Build learner and terms from the entries of the catalogue."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import nn

from furlkit import catalogue
from furlkit.models.loading import tensors_of
from furlkit.objectives.learner import Stateless
from furlkit.training.loop import Term
from furlkit.weights import Tensors


def learner_of(
    objective: catalogue.Objective, net: nn.Module, settings: dict[str, Any]
) -> Any:
    """The learner of an objective with these settings."""
    function = catalogue.load(objective.function)
    if objective.has_state:
        return function(net, **settings)
    return Stateless(net, partial(function, **settings))


def terms_of(
    net: nn.Module, inputs: Mapping[str, Any], settings: dict[str, dict[str, Any]]
) -> dict[str, Term]:
    """Active terms by name; `settings` has the options of each term.

    The catalogue names the `inputs` of a term.
    """
    terms = {}
    for name, options in settings.items():
        entry = catalogue.terms()[name]
        given = {key: inputs[key] for key in entry.inputs if key in inputs}
        if term := catalogue.load(entry.function)(net, given, **options):
            terms[name] = term
    return terms


def parts_by_name(learner: nn.Module) -> Tensors:
    """Tensors of a learner by name, without the prefix `net.`."""
    return {k.removeprefix("net."): v for k, v in tensors_of(learner).items()}
