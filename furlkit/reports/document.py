"""The metrics document and the result line of protocols that score with labels."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.scores import accuracy, confusion_matrix, per_class_accuracy
from furlkit.files.checkpoint import Checkpoint
from furlkit.reports.metrics import domains_text, spread_of


def scores(
    trained: Sequence[Tensor], labels: Tensor, classes: int, name: str = ""
) -> dict[str, Any]:
    """Accuracy over all images and by class, and the confusion matrix.

    With the predictions of several classifiers, which are called `name` (probes), both
    accuracies are means over them and the matrix is their sum. Then there are also the
    accuracy of each and, as accuracy_std, their standard deviation.
    """
    together = torch.cat([*trained]), labels.repeat(len(trained))
    found = {
        "accuracy": accuracy(*together),
        "per_class": per_class_accuracy(*together, classes),
        "confusion": confusion_matrix(*together, classes),
        "test_examples": len(labels),
    }
    if len(trained) > 1:
        each = [accuracy(predictions, labels) for predictions in trained]
        found |= {name: each, "accuracy_std": stdev(each)}
    return found


def mean_of_domains(domains: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The scores of each domain, and the mean of their accuracies.

    Where every domain has several probes, the mean of each probe, and their deviation.
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


def origins(model: Checkpoint, train: ImageSet, test: ImageSet) -> dict[str, Any]:
    """Which model was scored, and on which images."""
    return {
        "class_names": list(test.class_names),
        "data": {"train": train.fingerprint, "test": test.fingerprint},
        "checkpoint": describe_checkpoint(model),
        "inputs": contents(model=model),
    }


def contents(**files: Any) -> dict[str, str]:
    """Content hashes by role, of the files that there are; see `Header.inputs`."""
    return {role: file.content for role, file in files.items() if file and file.content}


def describe_checkpoint(model: Checkpoint) -> dict[str, Any]:
    """A model's content hash, stage, seed and facts."""
    return {
        "content": model.content or None,  # A network in no file has none.
        "stage": model.header.stage,
        "seed": model.header.seed,
        "facts": model.header.facts,
    }


def result_line(output: Path, document: dict[str, Any], scored: str) -> str:
    """The result for people; `scored` says which model was scored."""
    spread, each = spread_of(document), domains_text(document)
    return (
        f"{output}: {document['protocol']} accuracy "
        f"{100 * document['accuracy']:.2f}%{spread and f' ({spread})'} on "
        f"{document['test_examples']:,} images, {scored}{each and f'; {each}'}"
    )


def model_name(model: Checkpoint) -> str:
    """A model by its role and round."""
    return f"{model.facts.role} model of round {model.facts.round}"
