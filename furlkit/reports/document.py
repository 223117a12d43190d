"""Metrics document and result line of protocols that score with labels."""

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from furlkit.data.sets.datasets import ImageSet
from furlkit.files.checkpoint import Checkpoint
from furlkit.reports.metrics import domains_text, spread_of


def mean_of_domains(domains: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Scores of each domain, and the mean of the accuracies.

    If every domain has several probes, also the mean of each probe, and the deviation.
    """
    every = list(domains.values())
    found: dict[str, Any] = {
        "accuracy": fmean(scores["accuracy"] for scores in every),
        "domains": domains,
    }
    for name in ("test_examples", "train_examples"):
        found[name] = sum(scores[name] for scores in every)
    if all("probes" in scores for scores in every):
        probes = zip(*(scores["probes"] for scores in every), strict=True)
        found["probes"] = [fmean(each) for each in probes]
        found["accuracy_std"] = stdev(found["probes"])
    return found


def origins(
    model: Checkpoint, train: ImageSet, test: ImageSet, contents: dict[str, str]
) -> dict[str, Any]:
    """Scored model and image sets; `contents`: content hashes of the inputs by role."""
    return {
        "class_names": list(test.class_names),
        "data": {"train": train.fingerprint, "test": test.fingerprint},
        "checkpoint": describe_checkpoint(model),
        "inputs": contents,
    }


def describe_checkpoint(model: Checkpoint) -> dict[str, Any]:
    """A model's content hash, stage, seed and facts."""
    return {
        "content": model.content or None,  # A network without a file has no content.
        "stage": model.header.stage,
        "seed": model.header.seed,
        "facts": model.header.facts,
    }


def result_line(output: Path, document: dict[str, Any], scored: str) -> str:
    """Result for people; `scored` names the scored model."""
    spread, each = spread_of(document), domains_text(document)
    return (
        f"{output}: {document['protocol']} accuracy "
        f"{100 * document['accuracy']:.2f}%{spread and f' ({spread})'} on "
        f"{document['test_examples']:,} images, {scored}{each and f'; {each}'}"
    )


def model_name(model: Checkpoint) -> str:
    """A model by its role and round."""
    return f"{model.facts.role} model of round {model.facts.round}"
