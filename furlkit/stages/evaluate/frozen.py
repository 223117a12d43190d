"""evaluate linear, knn: score a frozen representation."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from furlkit import console
from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores
from furlkit.inputs.existing import already
from furlkit.inputs.labelled import domain_pairs, train_and_test
from furlkit.inputs.settings import fill
from furlkit.inputs.untrained import ScoredOptions, open_labelled
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import work_of, write_scores
from furlkit.stages.evaluate.probe import Probe


@dataclass(frozen=True, kw_only=True)
class Frozen(ScoredOptions):
    """With `by_domain`, every domain is learned and scored separately."""

    by_domain: bool


@dataclass(frozen=True, kw_only=True)
class Linear(Frozen):
    """Options of linear classifiers."""

    probe: Probe


@dataclass(frozen=True, kw_only=True)
class Knn(Frozen):
    """Neighbours and temperature of the vote."""

    k: int
    temperature: float

    def check_size(self, train: ImageSet, images: int) -> None:
        """Warn if there are fewer than k training images."""
        if self.k > images:
            domain = " of a domain" if self.by_domain else ""
            console.warn(
                f"--k {self.k}: is more than the {images:,} images{domain} in "
                f"{train.name}; every training image votes on every test image"
            )


OPTIONS: dict[str, type[Linear] | type[Knn]] = {"linear": Linear, "knn": Knn}


def run(protocol: str, values: dict[str, Any]) -> Result:
    """Score the frozen encoder of a model on every test image."""
    known: dict[str, Any] = {"recorded": recorded(f"evaluate {protocol}", values)}
    options = fill(OPTIONS[protocol], {**train_and_test(values), **known})
    model, train, test = open_labelled(options)
    scored = scoring.model_name(model)
    contents = by_role(f"evaluate {protocol}", model=model)
    origins = {"protocol": protocol, **scoring.origins(model, train, test, contents)}
    pairs = domain_pairs(train, test) if options.by_domain else {}
    if isinstance(options, Knn):
        least = min(
            (len(ours) for ours, _ in pairs.values()), default=len(train.images)
        )
        options.check_size(train, least)
    if pairs:
        origins["domain_names"] = list(pairs)
    if options.untrained:
        scored = f"untrained {model.facts.architecture['encoder']}"
        origins["untrained"] = True
    if document := existing_scores(options, origins):
        return already(scoring.result_line(options.output, document, scored), document)
    work = work_of("frozen")
    net = work.open_net(options, model)
    if options.dry_run:
        images, of = len(test.images), scored if options.untrained else options.model
        line = f"would score {of} by {protocol} on {images:,} images"
        return line, {"protocol": protocol, "images": images}
    found = work.score(options, net, model, train, test, pairs)
    return write_scores(options, {**origins, **found}, scored)


# The stages of furlkit/cli/evaluate.py.
linear = partial(run, "linear")
knn = partial(run, "knn")
