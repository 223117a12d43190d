"""evaluate cluster: agreement of clusters with classes unknown to training."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.evaluation.clusters import (
    Assignment,
    arranged,
    kmeans,
    most_probable,
    nearest,
    nmi_and_ari,
    table_of,
)
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.documents import Result, found_before, write_document
from furlkit.inputs.images import open_images
from furlkit.inputs.labelled import open_one, train_and_test
from furlkit.inputs.models import chosen_head
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.inputs.untrained import warn_if_untrained
from furlkit.models.architecture import Net
from furlkit.models.embedding import cluster_probabilities, embed
from furlkit.models.loading import architecture_of, load_net, view_of
from furlkit.randomness import derive
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import scores_before
from furlkit.training.run import COLLAPSED_SHARE


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
        warn_if_untrained(model, "clusters")
    test = open_one(options.test, model)
    train = _clustered(options, model)
    net = load_net(model, runtime.start(options.runtime))
    data = {"test": test.fingerprint}
    known: dict[str, Any] = {
        "protocol": "cluster",
        "class_names": list(test.class_names),
        "data": {**data, "train": train.fingerprint} if train else data,
        "checkpoint": scoring.describe_checkpoint(model),
        "inputs": scoring.contents(model=model),
    }
    scored = scoring.model_name(model)
    if options.dry_run:
        images, how = len(test.images), f"k-means, {options.kmeans} clusters"
        how = how if options.kmeans else "its own clusters"
        line = f"would score {options.model} by {how} on {images:,} images"
        return line, {"protocol": "cluster", "images": images}
    if before := found_before(options, known):
        line, document = scores_before(options, before, scored)
        return f"{line}{_more(document)}", document
    found = _scores(options, *_assignments(options, net, model, train, test), test)
    if model.facts.round and options.kmeans is None:
        _warn_of_collapse(options.model, found)
    document = write_document(options, {**known, **found})
    line = scoring.result_line(options.output, document, scored)
    return f"{line}{_more(document)}", document


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


def _assignments(
    options: ClusterOptions,
    net: Net,
    model: Checkpoint,
    train: ImageSet | None,
    test: ImageSet,
) -> tuple[list[Assignment], int]:
    """Clusters of the test images, for each repeat, and the number of clusters."""
    device = next(net.parameters()).device

    def features_of(data: ImageSet) -> Tensor:
        index, view = np.arange(len(data.images)), view_of(model, Augmentation())
        return embed(net, data.images, index, view, "h").to(device)  # (n, d)

    h = features_of(test)
    if train is None or options.kmeans is None:
        q = cluster_probabilities(net, h, chosen_head(model))
        return [most_probable(q).cpu()], q.shape[1]
    learned, found = features_of(train), []
    for repeat in range(options.repeats):
        state = derive(options.seed or 0, "evaluate", "cluster", repeat) % 2**32
        found.append(nearest(h, kmeans(learned, options.kmeans, state)).cpu())
    return found, options.kmeans


def _scores(
    options: ClusterOptions, assigned: list[Assignment], count: int, test: ImageSet
) -> dict[str, Any]:
    """Average over repeats; the confusion matrix is the sum over repeats.

    Entries about single clusters describe the first repeat: numbers of clusters differ.
    """
    labels = torch.from_numpy(np.asarray(test.labels))
    tables = [table_of(labels, a.clusters, test.classes, count) for a in assigned]
    matching = load(PROTOCOLS["cluster"].function)
    matched = [matching(table) for table in tables]
    both = [arranged(*pair) for pair in zip(tables, matched, strict=True)]
    accuracies = [float(np.trace(each)) / len(labels) for each in both]
    indices = [nmi_and_ari(labels, a.clusters) for a in assigned]
    confusion, first = np.sum(both, axis=0), assigned[0]
    found: dict[str, Any] = {
        "accuracy": fmean(accuracies),
        "nmi": fmean(nmi for nmi, _ in indices),
        "ari": fmean(ari for _, ari in indices),
        "per_class": [
            int(row[c]) / int(row.sum()) if row.sum() else None
            for c, row in enumerate(confusion)
        ],
        "confusion": confusion.tolist(),
        "matching": matched[0],
        "clusters": count,
        "classes": test.classes,
        "occupancy": tables[0].sum(axis=0).tolist(),
        "surest": [first.surest(k, options.surest) for k in range(count)],
        "test_examples": len(labels),
    }
    if options.kmeans is None:
        found["confident"] = _share(first.sureness >= options.threshold)
    if len(assigned) > 1:
        found |= {"repeats": accuracies, "accuracy_std": stdev(accuracies)}
    return found


def _warn_of_collapse(path: Path, found: dict[str, Any]) -> None:
    """Warn if nearly all images are in a single cluster of a trained model."""
    share = max(found["occupancy"]) / found["test_examples"]
    if share > COLLAPSED_SHARE:
        console.warn(
            f"{path}: the clustering has collapsed: {share:.0%} of the images "
            "are in one cluster; train longer, or with a higher --entropy-weight or "
            "--batch-size, or from a better pretext model"
        )


def _share(true: Tensor) -> float:
    return int(true.sum()) / len(true)


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
