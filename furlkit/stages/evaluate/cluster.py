"""evaluate cluster: agreement of clusters with classes unknown to training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.images import open_images
from furlkit.inputs.labelled import open_one, train_and_test
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.description import architecture_of
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import work_of


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Computing):
    """Without `kmeans` the model's cluster head is used, and `train` is not read."""

    model: Path
    train: Source | None
    test: Source
    output: Path
    kmeans: int | None
    repeats: int
    threshold: float
    surest: int
    seed: int | None


def run(values: dict[str, Any]) -> Result:
    """Cluster the test images, match clusters with classes, and score."""
    options = _options(values)
    sources = [source.name for source in (options.train, options.test) if source]
    check_output(options.output, [options.model, *sources])
    model = read_checkpoint(options.model)
    if options.kmeans is None:
        _check_clusters(model)
    test = open_one(options.test, model)
    train = _clustered(options, model)
    data = {"test": test.fingerprint}
    known: dict[str, Any] = {
        "protocol": "cluster",
        "class_names": list(test.class_names),
        "data": {**data, "train": train.fingerprint} if train else data,
        "checkpoint": scoring.describe_checkpoint(model),
        "inputs": by_role("evaluate cluster", model=model),
    }
    scored = scoring.model_name(model)
    if document := existing_scores(options, known):
        return already(_line(options, document, scored), document)
    work = work_of("cluster")
    with console.noted() as warnings:
        net = work.open_net(options, model)
        if options.dry_run:
            images, how = len(test.images), f"k-means, {options.kmeans} clusters"
            how = how if options.kmeans else "its own clusters"
            line = f"would score {options.model} by {how} on {images:,} images"
            return line, {"protocol": "cluster", "images": images}
        found = work.score(options, net, model, train, test)
    document = write_document(options, {**known, **found}, warnings=warnings)
    return _line(options, document, scored), document


def _line(options: ClusterOptions, document: dict[str, Any], scored: str) -> str:
    line = scoring.result_line(options.output, document, scored)
    return f"{line}{_more(document)}"


def _options(values: dict[str, Any]) -> ClusterOptions:
    known = recorded("evaluate cluster", values)
    if values["data"] is None and (values["test_data"] is None or values["kmeans"]):
        lacking = "--data" if values["kmeans"] else "--data or --test-data"
        raise UsageError(f"evaluate cluster: give {lacking}")
    given = train_and_test(values)
    if not values["kmeans"]:
        given["train"] = None
    else:
        del known["threshold"]  # Distances are not probabilities.
    return fill(ClusterOptions, {**given, "recorded": known})


def _check_clusters(model: Checkpoint) -> None:
    if "clusters" not in architecture_of(model.path, model.facts).heads:
        raise InputError(
            f"{model.path}: has no clusters; give --kmeans N to cluster h, or a model "
            "of local-train --objective cluster (with --update astw, of a round with "
            "all parts)"
        )


def _clustered(options: ClusterOptions, model: Checkpoint) -> ImageSet | None:
    """Open the images for fitting k-means; labels are not used."""
    if options.train is None:
        return None
    return open_images(options.train, model)


def _more(document: dict[str, Any]) -> str:
    """Additional scores and cluster sizes for the result line."""
    clusters, classes = document["clusters"], document["classes"]
    filled = sum(count > 0 for count in document["occupancy"])
    text = f"; NMI {document['nmi']:.3f}, ARI {document['ari']:.3f}"
    text += f", {filled} of {clusters} clusters filled"
    if clusters != classes:
        few, many = sorted([(clusters, "clusters"), (classes, "classes")])
        text += (
            f" for {classes} classes, so that {many[0] - few[0]} {many[1]} match no "
        )
        text += {"clusters": "cluster", "classes": "class"}[few[1]]
    if "confident" in document:
        sure = document["options"].get("threshold")
        text += f", {document['confident']:.1%} of the images sure ({sure:g} or more)"
    return text
