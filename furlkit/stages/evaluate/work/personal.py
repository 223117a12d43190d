"""Features of each client's model, and classifiers of the client's images."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import FurlkitError
from furlkit.evaluation.personal import by_domain
from furlkit.evaluation.scores import accuracy
from furlkit.evaluation.stylised import Pair, stylised
from furlkit.exchanges.style import generator, style_encoder
from furlkit.files.clients import ClientId
from furlkit.inputs.clients import ClientFiles
from furlkit.inputs.own import client_model
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import fitting_net, load_net, view_of
from furlkit.models.style import filled_generator, style_net
from furlkit.stages.evaluate.personal import Inputs, tested_on
from furlkit.stages.evaluate.work import probe
from furlkit.weights import Tensors, divide


def check_models(inputs: Inputs) -> None:
    """Check that each client has a complete model, by the outlines of tensors."""
    for client in inputs.clients:
        files = inputs.files_of(client)
        fitting_net(client_model(files, inputs.model))
        if inputs.options.generator != "none" and files.private:
            style_encoder(files.private, inputs.model)
            generator(files.private, inputs.model)


def score(inputs: Inputs) -> dict[str, Any]:
    """Train and score a classifier for each client."""
    scores: list[dict[str, Any]] = []
    for client, features, style in _features(inputs):
        scores.append(_score(inputs, client, features, style))
        shown = f"{100 * scores[-1]['accuracy']:.2f}%"
        console.info(
            f"client {client}: accuracy {shown} ({len(scores)}/{len(inputs.clients)})"
        )
    tested = np.concatenate([tested_on(inputs, client) for client in inputs.clients])
    found = {
        **load(PROTOCOLS["personal"].function)(scores),
        "clients": scores,
        "test_examples": len(np.unique(tested)),
    }
    if domains := by_domain(scores):
        found["domains"] = domains
    return found


class Features(NamedTuple):
    """h of a client's training and test images, by the client's model, on --device."""

    learned: Tensor
    test: Tensor


class Style(NamedTuple):
    """A client's generator, and h_s of these images by the client's style model."""

    G: nn.Module
    h: Features


def _features(inputs: Inputs) -> Iterator[tuple[ClientId, Features, Style | None]]:
    """Yield the features of each client.

    Clients with equal encoders (FedAvg, FedPer) share the features of test images; with
    --by-domain, clients of a domain.
    """
    device = runtime.start(inputs.options.runtime)
    encoder: Tensors = {}
    tested = np.empty(0, np.int64)
    for client in inputs.clients:
        files, rows = inputs.files_of(client).read_again(), tested_on(inputs, client)
        own = client_model(files, inputs.model)
        mine = divide(own.tensors, ["encoder"])[0]
        known = _same(mine, encoder)
        if not known:
            encoder, net = mine, load_net(own, device)
        if not known or not np.array_equal(rows, tested):
            tested, test = rows, _embed(inputs, net, inputs.test, rows)
        learned = _embed(inputs, net, inputs.train, inputs.index_of(client))
        yield client, Features(learned, test), _style(inputs, client, files)


def _same(one: Tensors, other: Tensors) -> bool:
    equal = (np.array_equal(one[name], other[name]) for name in one if name in other)
    return one.keys() == other.keys() and all(equal)


def _style(inputs: Inputs, client: ClientId, files: ClientFiles) -> Style | None:
    """Style model and style features of a client, if --generator needs them."""
    private, model = files.private, inputs.model
    if inputs.options.generator == "none" or private is None:
        return None
    device = runtime.device_of(inputs.options.runtime)
    net = style_net(model, style_encoder(private, model), device)
    index, rows = inputs.index_of(client), tested_on(inputs, client)
    h = Features(
        _embed(inputs, net, inputs.train, index), _embed(inputs, net, inputs.test, rows)
    )
    return Style(filled_generator(generator(private, model), device), h)


def _embed(inputs: Inputs, net: Net, data: ImageSet, index: np.ndarray) -> Tensor:
    view = view_of(inputs.model, Augmentation())
    h = embed(net, data.images, index, view, "h")
    return h.to(runtime.device_of(inputs.options.runtime))


def _score(
    inputs: Inputs, client: ClientId, features: Features, style: Style | None
) -> dict[str, Any]:
    """Accuracies of a client's classifiers on the client's test images."""
    index, rows = inputs.index_of(client), tested_on(inputs, client)
    truth = torch.from_numpy(np.asarray(inputs.test.labels)[rows])
    try:
        predictions, _ = _predict(inputs, client, features, style)
    except FurlkitError as error:
        raise type(error)(f"client {client}: {error}") from error
    probes = [accuracy(each.cpu(), truth) for each in predictions]
    found = {
        "client": client,
        "accuracy": sum(probes) / len(probes),
        "probes": probes,
        "train_examples": len(index),
        "test_examples": len(rows),
    }
    domain = inputs.domain_of(client)
    return found if domain is None else {**found, "domain": domain}


def _predict(
    inputs: Inputs, client: ClientId, features: Features, style: Style | None
) -> probe.Predictions:
    """Classify a client's test images, after learning from the client's images."""
    options, index = inputs.options, inputs.index_of(client)
    labels = torch.from_numpy(np.asarray(inputs.train.labels)[index])
    labels = labels.to(features.learned.device)
    classes = max(inputs.train.classes, inputs.test.classes)
    more = classes, options.seed
    if style is None:
        return probe.predict(
            options.probe, features.learned, labels, features.test, *more
        )
    learned, test = map(Pair, features, style.h)
    if options.generator == "trained":
        G = style.G.requires_grad_()
        return probe.predict_with(options.probe, G, learned, labels, test, *more)
    h, h_test = (stylised(style.G, pair) for pair in (learned, test))
    return probe.predict(options.probe, h, labels, h_test, *more)
