"""evaluate classifier: score the model's classifier without training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.labels import LabelSet, number_names
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores
from furlkit.inputs.existing import already
from furlkit.inputs.labelled import open_one, train_and_test
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.description import architecture_of
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import work_of, write_scores


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
    test = open_one(options.test, model)
    names = _checked_names(options, model, classes, test)
    known = {
        "protocol": "classifier",
        "class_names": list(names),
        "data": {"test": test.fingerprint},
        "checkpoint": scoring.describe_checkpoint(model),
        "inputs": by_role("evaluate classifier", model=model),
    }
    scored = scoring.model_name(model)
    if document := existing_scores(options, known):
        return already(scoring.result_line(options.output, document, scored), document)
    work = work_of("classifier")
    with console.noted() as warnings:
        net = work.open_net(options, model)
    if options.dry_run:
        images = len(test.images)
        line = f"would score {options.model} by classifier on {images:,} images"
        return line, {"protocol": "classifier", "images": images}
    found = work.score(net, model, test, classes)
    return write_scores(options, {**known, **found}, scored, warnings=warnings)


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
