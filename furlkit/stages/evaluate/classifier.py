"""evaluate classifier: score the model's classifier without training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit import runtime
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.labels import LabelSet, number_names
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.documents import Result, found_before
from furlkit.inputs.labelled import open_one, train_and_test
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.inputs.untrained import warn_if_untrained
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import architecture_of, load_net, view_of
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import scores_before, write_scores


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(Computing):
    """`train`: only the names of the classes are used, no images."""

    model: Path
    test: Source
    output: Path
    train: Source | None


def run(values: dict[str, Any]) -> Result:
    """Score the model's classifier on every test image."""
    options = _options(values)
    read = [source.name for source in (options.test, options.train) if source]
    check_output(options.output, [options.model, *read])
    model = read_checkpoint(options.model)
    classes = _classes_of(model)
    warn_if_untrained(model, "classifier")
    test = open_one(options.test, model)
    names = _checked_names(options, model, classes, test)
    net = load_net(model, runtime.start(options.runtime))
    if options.dry_run:
        images = len(test.images)
        line = f"would score {options.model} by classifier on {images:,} images"
        return line, {"protocol": "classifier", "images": images}
    known = {
        "protocol": "classifier",
        "class_names": list(names),
        "data": {"test": test.fingerprint},
        "checkpoint": scoring.describe_checkpoint(model),
        "inputs": scoring.contents(model=model),
    }
    scored = scoring.model_name(model)
    if before := found_before(options, known):
        return scores_before(options, before, scored)
    labels = torch.from_numpy(np.asarray(test.labels))
    predictions = _predictions(net, model, test)
    found = {**known, **scoring.scores([predictions], labels, classes)}
    return write_scores(options, found, scored)


def _options(values: dict[str, Any]) -> ClassifierOptions:
    if values["data"] is None and values["test_data"] is None:
        raise UsageError("evaluate classifier: give --data or --test-data")
    given = train_and_test(values)
    train = None
    if values["test_data"] is not None and given["train"] is not None:
        # Both splits of a named set have equal classes, and test splits are small.
        train = replace(given["train"], split="test")
    known = recorded("evaluate classifier", values)
    return fill(ClassifierOptions, {**given, "train": train, "recorded": known})


def _predictions(net: Net, model: Checkpoint, test: ImageSet) -> Tensor:
    head, index = net.head("classifier"), np.arange(len(test.images))
    if not isinstance(head, nn.Linear):
        raise ValueError("the net has no classifier")
    h = embed(net, test.images, index, view_of(model, Augmentation()), "h")  # (n, d)
    weight, bias = head.weight.detach(), head.bias.detach()
    try:
        predict = load(PROTOCOLS["classifier"].function)
        return predict(h.to(weight.device), weight, bias).cpu()
    except InputError as error:
        raise InputError(f"{model.path}: {error}") from error


def _classes_of(model: Checkpoint) -> int:
    heads = architecture_of(model.path, model.facts).heads
    if "classifier" not in heads:
        raise InputError(
            f"{model.path}: has no classifier, which init and local-train add with "
            "--objective supervised; score this model with evaluate linear"
        )
    return heads["classifier"][0]


def _checked_names(
    options: ClassifierOptions, model: Checkpoint, classes: int, test: ImageSet
) -> Sequence[str]:
    """Check that the classifier knows the test classes; return the class names."""
    known: list[LabelSet] = [test]
    if options.train:
        known.append(options.train.labels())
    most = max(known, key=lambda data: data.classes)
    if most.classes != classes:
        lacks = f"; if {test.name} lacks some, give the complete --data"
        raise InputError(
            f"{model.path}: the classifier has {classes:,} classes, {most.name} has "
            f"{most.classes:,}; give images of the classes of its training"
            + (lacks if len(known) == 1 and most.classes < classes else "")
        )
    # Numbers instead of class names carry no information.
    named = [d for d in known if d.class_names != number_names(len(d.class_names))]
    for data in named[1:]:
        _check_same_names(test, data)
    return (named or [most])[0].class_names


def _check_same_names(test: ImageSet, data: LabelSet) -> None:
    pairs = zip_longest(test.class_names, data.class_names, fillvalue="missing")
    for place, (found, expected) in enumerate(pairs):
        if found != expected:
            raise InputError(
                f"{test.name}: class {place} is {found!r}, but {expected!r} in "
                f"{data.name}; give test images with classes in the same order"
            )
