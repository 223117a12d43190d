"""evaluate personal: what each client's own model is worth to that client."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from furlkit import console, runtime
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.evaluation.personal import by_domain, summary
from furlkit.evaluation.scores import accuracy
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import Private, read_private
from furlkit.inputs.existing import ALREADY
from furlkit.inputs.labelled import check_labelled, train_and_test
from furlkit.inputs.matching import check_dataset
from furlkit.inputs.own import own_model
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import fitting_net, load_net, view_of
from furlkit.reports import document as scoring
from furlkit.reports.metrics import domains_text
from furlkit.stages.evaluate import Result, found_before, write_document
from furlkit.stages.evaluate.probe import Probe
from furlkit.weights import Tensors, divide


@dataclass(frozen=True, kw_only=True)
class Options(Computing):
    """`private` are files of clients, `clients` those that are scored, if not all.

    With `by_domain` a client is tested on the images of its own domain.
    """

    partition: Path
    model: Path
    private: tuple[Path, ...]
    clients: tuple[int, ...] | None
    train: Source
    test: Source
    by_domain: bool
    output: Path
    seed: int
    probe: Probe


class Inputs(NamedTuple):
    """What was given, opened and checked; private files are read again in their turn."""

    options: Options
    partition: Partition
    model: Checkpoint
    train: ImageSet
    test: ImageSet
    private: dict[int, Private]

    @property
    def clients(self) -> list[int]:
        """Those that were named; else those with a private file; else all."""
        every = range(self.partition.facts.clients)
        return list(self.options.clients or sorted(self.private) or every)


def run(values: dict[str, Any]) -> Result:
    """Train a classifier for each client on its own images, and score it."""
    known: dict[str, Any] = {"recorded": recorded("evaluate personal", values)}
    inputs = _open(fill(Options, {**train_and_test(values), **known}))
    options, clients = inputs.options, inputs.clients
    origins = _origins(inputs)
    if options.dry_run:
        line = f"would score the models of {len(clients)} clients by personal"
        return line, {"protocol": "personal", "clients": clients}
    if document := found_before(options, origins):
        line = f"{_line(options.output, document)} ({ALREADY})"
        return line, {**document, "unchanged": True}
    scores = []
    for client, features in _features(inputs):
        scores.append(_score(inputs, client, features))
        shown = f"{100 * scores[-1]['accuracy']:.2f}%"
        console.info(
            f"client {client}: accuracy {shown} ({len(scores)}/{len(clients)})"
        )
    tested = np.concatenate([tested_on(inputs, client) for client in clients])
    found = {
        **origins,
        **summary(scores),
        "clients": scores,
        "test_examples": len(np.unique(tested)),
    }
    if domains := by_domain(scores):
        found["domains"] = domains
    document = write_document(options, found)
    return _line(options.output, document), document


def _open(options: Options) -> Inputs:
    given: list[Path | str] = [options.partition, options.model, *options.private]
    check_output(options.output, [*given, options.train.name, options.test.name])
    runtime.start(options.runtime)
    partition, model = read_partition(options.partition), read_checkpoint(options.model)
    train, test = (
        check_labelled(source.images(), model)
        for source in (options.train, options.test)
    )
    check_dataset(partition, train)
    private = _private(options.private, model)
    inputs = Inputs(options, partition, model, train, test, private)
    for client in inputs.clients:
        if not len(partition.of(client)):
            raise InputError(
                f"{partition.path}: client {client} has no images to learn from; leave "
                "it out with --client"
            )
        if client not in private:
            fitting_net(model)
        tested_on(inputs, client)
    return inputs


def _private(paths: tuple[Path, ...], model: Checkpoint) -> dict[int, Private]:
    """Private files by client, checked, without what they hold."""
    found: dict[int, Private] = {}
    for path in paths:
        private = read_private(path)
        fitting_net(own_model(model, private))
        first = found.setdefault(private.facts.client, private)
        if first is not private:
            raise UsageError(
                f"{first.path} and {path}: are both of client {private.facts.client}; "
                "give one of them"
            )
        found[private.facts.client] = replace(private, tensors={}, memory={})
    return found


def _origins(inputs: Inputs) -> dict[str, Any]:
    """What is known before scoring; a client without a private file has None."""
    origins = scoring.origins(inputs.model, inputs.train, inputs.test)
    data = {**origins["data"], "partition": inputs.partition.content}
    private = {
        str(client): inputs.private[client].content
        if client in inputs.private
        else None
        for client in inputs.clients
    }
    found = {**origins, "protocol": "personal", "data": data, "private": private}
    names = [inputs.partition.domain_of(client) for client in inputs.clients]
    if known := [name for name in dict.fromkeys(names) if name is not None]:
        found["domain_names"] = known
    return found


class Features(NamedTuple):
    """h of a client's images and of its test images, by the client's own model."""

    learned: Tensor
    test: Tensor


def _features(inputs: Inputs) -> Iterator[tuple[int, Features]]:
    """The features of one client after the other.

    Clients that share the encoder (FedAvg, FedPer) share the features of test images,
    with --by-domain those of one domain.
    """
    device = runtime.device_of(inputs.options.runtime)
    encoder: Tensors = {}
    tested = np.empty(0, np.int64)
    for client in inputs.clients:
        own, rows = _model_of(inputs, client), tested_on(inputs, client)
        mine = divide(own.tensors, ["encoder"])[0]
        known = _same(mine, encoder)
        if not known:
            encoder, net = mine, load_net(own, device)
        if not known or not np.array_equal(rows, tested):
            tested, test = rows, _embed(inputs, net, inputs.test, rows)
        index = inputs.partition.of(client)
        yield client, Features(_embed(inputs, net, inputs.train, index), test)


def _model_of(inputs: Inputs, client: int) -> Checkpoint:
    """A client's own model; one that has kept nothing has the global model."""
    if client not in inputs.private:
        return inputs.model
    private = read_private(inputs.private[client].path, client)
    return own_model(inputs.model, private)


def _same(one: Tensors, other: Tensors) -> bool:
    equal = (np.array_equal(one[name], other[name]) for name in one if name in other)
    return one.keys() == other.keys() and all(equal)


def _embed(inputs: Inputs, net: Net, data: ImageSet, index: np.ndarray) -> Tensor:
    view = view_of(inputs.model, Augmentation())
    return embed(net, data.images, index, view, "h")


def _score(inputs: Inputs, client: int, features: Features) -> dict[str, Any]:
    """The accuracies of a client's classifiers on its test images."""
    train, test, options = inputs.train, inputs.test, inputs.options
    index = inputs.partition.of(client)
    labels, truth = (
        torch.from_numpy(np.asarray(data.labels)) for data in (train, test)
    )
    rows = torch.from_numpy(tested_on(inputs, client))
    classes = max(train.classes, test.classes)
    learned = features.learned, labels[torch.from_numpy(index)]
    try:
        predictions, _ = options.probe.predict(
            *learned, features.test, classes, options.seed
        )
    except FurlkitError as error:
        raise type(error)(f"client {client}: {error}") from error
    probes = [accuracy(each, truth[rows]) for each in predictions]
    found = {
        "client": client,
        "accuracy": sum(probes) / len(probes),
        "probes": probes,
        "train_examples": len(index),
        "test_examples": len(rows),
    }
    domain = inputs.partition.domain_of(client)
    return found if domain is None else {**found, "domain": domain}


def tested_on(inputs: Inputs, client: int) -> np.ndarray:
    """The test images, by index, that a client's model is scored on: all or its domain's."""
    if not inputs.options.by_domain:
        return np.arange(len(inputs.test.images))
    path, domain = inputs.partition.path, inputs.partition.domain_of(client)
    if domain is None:
        raise InputError(
            f"{path}: does not say which domain client {client} is of; create it with "
            "partition --scheme domains, or leave out --by-domain"
        )
    own = inputs.test.by_domain().get(domain)
    if own is None:
        raise InputError(
            f"{inputs.test.name}: has no images of the domain {domain}, of which client "
            f"{client} of {path} is; pack both with the same domains and --domain-names"
        )
    return own


def _line(output: Path, document: dict[str, Any]) -> str:
    """The result for people."""
    mean, worst = document["accuracy"], document["worst_tenth_accuracy"]
    each = domains_text(document)
    return (
        f"{output}: personal accuracy {100 * mean:.2f}% of {len(document['clients'])} "
        f"clients (std {100 * document['clients_std']:.2f}, worst tenth "
        f"{100 * worst:.2f}%), round {document['checkpoint']['facts']['round']}"
        f"{each and f'; {each}'}"
    )
