"""Clusters of images, matched with classes."""

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.clusters import (
    Assignment,
    arranged,
    kmeans,
    most_probable,
    nearest,
    nmi_and_ari,
    table_of,
)
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.models import chosen_head
from furlkit.models.architecture import Net
from furlkit.models.embedding import cluster_probabilities, embed
from furlkit.models.loading import load_net, view_of
from furlkit.models.untrained import warn_if_untrained
from furlkit.randomness import derive
from furlkit.stages.evaluate.cluster import ClusterOptions
from furlkit.training.run import COLLAPSED_SHARE


def open_net(options: ClusterOptions, model: Checkpoint) -> Net:
    """Load the net; warn if the cluster head is used and was never trained."""
    if options.kmeans is None:
        warn_if_untrained(model, "clusters")
    return load_net(model, runtime.start(options.runtime))


def score(
    options: ClusterOptions,
    net: Net,
    model: Checkpoint,
    train: ImageSet | None,
    test: ImageSet,
) -> dict[str, Any]:
    """Scores of the clusters; warn about a collapse."""
    found = _scores(options, *_assignments(options, net, model, train, test), test)
    if model.facts.round and options.kmeans is None:
        _warn_of_collapse(options.model, found)
    return found


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
