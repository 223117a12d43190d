"""evaluate classifier: what a model's own classifier is worth; nothing is trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit import runtime
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.labels import LabelSet, number_names
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.evaluation.linear import predict_linear
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.metrics import write_metrics
from furlkit.inputs.labelled import train_and_test
from furlkit.inputs.matching import check_channels
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import architecture_of, load_net, view_of
from furlkit.reports import document as scoring
from furlkit.runtime import Runtime


@dataclass(frozen=True)
class Options:
    """`train`, if given, only tells which classes there are: no image of it is used."""

    model: Path
    test: Source
    output: Path
    train: Source | None
    runtime: Runtime
    dry_run: bool
    recorded: dict[str, Any]

    @property
    def inputs(self) -> list[Path]:
        """What is read, and so may not be written."""
        sources = [self.test, *([self.train] if self.train else [])]
        return [self.model, *(Path(source.name) for source in sources)]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Score the classes that a model gives the test images; every image counts."""
    options = _options(values)
    check_output(options.output, options.inputs)
    model = read_checkpoint(options.model)
    classes = _classes_of(model)
    test = options.test.images()
    names = _checked_names(options, model, classes, test)
    net = load_net(model, runtime.start(options.runtime))
    if options.dry_run:
        images = len(test.images)
        line = f"would score {options.model} by classifier on {images:,} images"
        return line, {"protocol": "classifier", "images": images}
    labels = torch.from_numpy(np.asarray(test.labels))
    document = {
        "protocol": "classifier",
        **scoring.scores(_predictions(net, model, test), labels, classes),
        "class_names": list(names),
        "data": {"test": test.fingerprint},
        "checkpoint": scoring.describe_checkpoint(model),
        "options": {**options.recorded, **options.runtime.resolved_options()},
        "seed": None,
    }
    write_metrics(options.output, document)
    return scoring.result_line(
        options.output, document, scoring.model_name(model)
    ), document


def _options(values: dict[str, Any]) -> Options:
    if values["data"] is None and values["test_data"] is None:
        raise UsageError("evaluate classifier: give --data or --test-data")
    given = train_and_test(values)
    train = None
    if values["test_data"] is not None and given["train"] is not None:
        # A named set has the same classes in both its splits, and test splits are small.
        train = replace(given["train"], split="test")
    known = recorded("evaluate classifier", values)
    return fill(Options, {**given, "train": train, "recorded": known})


def _predictions(net: Net, model: Checkpoint, test: ImageSet) -> Tensor:
    head, index = net.head("classifier"), np.arange(len(test.images))
    if not isinstance(head, nn.Linear):
        raise ValueError("the net has no classifier")
    h = embed(net, test.images, index, view_of(model, Augmentation()), "h")  # (n, d)
    weight, bias = (tensor.detach().cpu() for tensor in (head.weight, head.bias))
    try:
        return predict_linear(h, weight, bias)
    except InputError as error:
        raise InputError(f"{model.path}: {error}") from error


def _classes_of(model: Checkpoint) -> int:
    heads = architecture_of(model.path, model.facts).heads
    if "classifier" not in heads:
        raise InputError(
            f"{model.path}: has no classifier, which init and local-train give a model "
            "with --objective supervised; score this one with evaluate linear"
        )
    return heads["classifier"][0]


def _checked_names(
    options: Options, model: Checkpoint, classes: int, test: ImageSet
) -> Sequence[str]:
    """The test images must be ones the classifier can sort; gives the classes' names."""
    check_channels(test, architecture_of(model.path, model.facts), model.path)
    if test.labels is None:
        raise InputError(f"{test.name}: has no labels to evaluate with")
    known: list[ImageSet | LabelSet] = [test]
    if options.train:
        known.append(options.train.labels())
    most = max(known, key=lambda data: data.classes)
    if most.classes != classes:
        lacks = f"; if {test.name} lacks some, give the --data that has them all"
        raise InputError(
            f"{model.path}: its classifier has {classes:,} classes, {most.name} has "
            f"{most.classes:,}; give images of the classes that it was trained on"
            + (lacks if len(known) == 1 and most.classes < classes else "")
        )
    named = [data for data in known if _is_named(data)]
    for data in named[1:]:
        _check_same_names(test, data)
    return (named or [most])[0].class_names


def _is_named(data: ImageSet | LabelSet) -> bool:
    """Whether the classes have names, and not just numbers in place of them."""
    return data.class_names != number_names(len(data.class_names))


def _check_same_names(test: ImageSet, data: ImageSet | LabelSet) -> None:
    theirs, ours = test.class_names, data.class_names
    pairs = enumerate(zip(theirs, ours, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(theirs), len(ours)))
    if theirs != ours:
        found, wanted = (
            repr(names[place]) if place < len(names) else "missing"
            for names in (theirs, ours)
        )
        raise InputError(
            f"{test.name}: its class {place} is {found}, that of {data.name} is "
            f"{wanted}; give test images of the same classes, in the same order"
        )
