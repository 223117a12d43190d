"""evaluate personal: score each client's model on the client's data."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.evaluation.personal import by_domain
from furlkit.evaluation.scores import accuracy
from furlkit.evaluation.stylised import Pair, stylised
from furlkit.exchanges.style import generator, style_encoder
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.read import Container
from furlkit.files.partition import Partition, read_partition
from furlkit.inputs.clients import ClientFiles, read_clients
from furlkit.inputs.documents import Result, found_before, write_document
from furlkit.inputs.existing import ALREADY
from furlkit.inputs.labelled import open_pair, train_and_test
from furlkit.inputs.matching import check_dataset
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.inputs.sites import check_one_site, images_of, unless_all
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import fitting_net, load_net, view_of
from furlkit.models.style import filled_generator, style_net
from furlkit.reports import document as scoring
from furlkit.reports.metrics import domains_text
from furlkit.reports.text import counted
from furlkit.stages.evaluate.probe import Predictions, Probe
from furlkit.weights import Tensors, divide


@dataclass(frozen=True, kw_only=True)
class PersonalOptions(Computing):
    """`files`: files of clients. `clients`: clients to score; None for all clients.

    With `by_domain` a client is tested on images of the client's domain. `generator`:
    none for features of the model alone, otherwise how FedStyle's G is used.
    """

    partition: Path | None
    model: Path
    files: tuple[Path, ...]
    clients: tuple[ClientId, ...] | None
    train: Source
    test: Source
    by_domain: bool
    generator: str
    output: Path
    seed: int
    probe: Probe


class Inputs(NamedTuple):
    """Opened and checked inputs; the files of each client are read again later."""

    options: PersonalOptions
    partition: Partition | None
    model: Checkpoint
    train: ImageSet
    test: ImageSet
    files: dict[ClientId, ClientFiles]

    @property
    def clients(self) -> list[ClientId]:
        """Named clients; otherwise clients with a file; otherwise every client."""
        every = range(self.partition.facts.clients if self.partition else 1)
        known = sorted(self.files, key=client_order)
        return list(unless_all(self.options.clients) or known or every)

    @property
    def source(self) -> str:
        """File that assigns images to clients, for messages."""
        return str(self.options.partition or self.train.name)

    def index_of(self, client: ClientId) -> np.ndarray:
        """Positions of a client's images in the dataset."""
        return images_of(client, self.partition, self.train)

    def domain_of(self, client: ClientId) -> str | None:
        """Domain of a client, if the partition has domains."""
        return self.partition.domain_of(int(client)) if self.partition else None

    def files_of(self, client: ClientId) -> ClientFiles:
        """Read the files of a client with tensors."""
        return self.files.get(client, ClientFiles()).read_again()


def run(values: dict[str, Any]) -> Result:
    """Train and score a classifier for each client on the client's images."""
    known: dict[str, Any] = {"recorded": recorded("evaluate personal", values)}
    given = {**train_and_test(values), **divided_files(values["files"]), **known}
    inputs = _open(fill(PersonalOptions, given))
    options, clients = inputs.options, inputs.clients
    origins = _origins(inputs)
    if options.dry_run:
        line = f"would score the models of {counted(clients, 'client')} by personal"
        return line, {"protocol": "personal", "clients": clients}
    if document := found_before(options, origins):
        line = f"{_line(options.output, document)} ({ALREADY})"
        return line, {**document, "unchanged": True}
    scores = []
    for client, features, style in _features(inputs):
        scores.append(_score(inputs, client, features, style))
        shown = f"{100 * scores[-1]['accuracy']:.2f}%"
        console.info(
            f"client {client}: accuracy {shown} ({len(scores)}/{len(clients)})"
        )
    tested = np.concatenate([tested_on(inputs, client) for client in clients])
    found = {
        **origins,
        **load(PROTOCOLS["personal"].function)(scores),
        "clients": scores,
        "test_examples": len(np.unique(tested)),
    }
    if domains := by_domain(scores):
        found["domains"] = domains
    document = write_document(options, found)
    return _line(options.output, document), document


def divided_files(files: tuple[Path, ...]) -> dict[str, Any]:
    """Split the files into partition (if first), model, and files of clients."""
    partition = files[0] if Container(files[0]).header.kind == "partition" else None
    rest = files[1:] if partition else files
    if not rest:
        raise UsageError(f"evaluate personal: give a CHECKPOINT after {partition}")
    return {"partition": partition, "model": rest[0], "files": rest[1:]}


def _open(options: PersonalOptions) -> Inputs:
    given = [options.partition, options.model, *options.files]
    check_output(options.output, [*given, options.train.name, options.test.name])
    if options.generator == "trained" and options.probe.settings is None:
        raise UsageError(
            f"--generator trained: --solver {options.probe.solver} fits a classifier "
            "alone; use --solver gradient, or --generator frozen"
        )
    runtime.start(options.runtime)
    partition = read_partition(options.partition) if options.partition else None
    model = read_checkpoint(options.model)
    train, test = open_pair(options.train, options.test, model)
    if partition:
        check_dataset(partition, train)
    files = read_clients(options.files, model)
    inputs = Inputs(options, partition, model, train, test, files)
    if partition is None:
        check_one_site(inputs.clients)
    for client in inputs.clients:
        _check_client(inputs, client, inputs.files_of(client))
    return inputs


def _check_client(inputs: Inputs, client: ClientId, own: ClientFiles) -> None:
    """Check that a client has training and test images, and a complete model."""
    if not len(inputs.index_of(client)):
        raise InputError(
            f"{inputs.source}: client {client} has no images to learn from; leave this "
            "client out with --client"
        )
    tested_on(inputs, client)
    fitting_net(own.model(inputs.model))
    if inputs.options.generator == "none":
        return
    if own.private is None:
        raise UsageError(
            f"--generator {inputs.options.generator}: client {client} of "
            f"{inputs.source} has no private file with a style model and a generator; "
            "give the file, or leave the client out with --client"
        )
    style_encoder(own.private, inputs.model)
    generator(own.private, inputs.model)


def _origins(inputs: Inputs) -> dict[str, Any]:
    """Entries known before scoring; None for a client without a kind of file."""
    origins = scoring.origins(inputs.model, inputs.train, inputs.test)
    data = dict(origins["data"])
    if inputs.partition:
        data["partition"] = inputs.partition.content
    own = {str(k): inputs.files.get(k, ClientFiles()) for k in inputs.clients}
    private = {k: each.private and each.private.content for k, each in own.items()}
    uploads = {k: each.upload and each.upload.content for k, each in own.items()}
    found = {**origins, "protocol": "personal", "data": data, "private": private}
    found["inputs"] = {
        **scoring.contents(model=inputs.model, partition=inputs.partition),
        **{f"private {k}": content for k, content in private.items() if content},
        **{f"upload {k}": content for k, content in uploads.items() if content},
    }
    if any(uploads.values()):
        found["uploads"] = uploads
    names = [inputs.domain_of(client) for client in inputs.clients]
    if known := [name for name in dict.fromkeys(names) if name is not None]:
        found["domain_names"] = known
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
    device = runtime.device_of(inputs.options.runtime)
    encoder: Tensors = {}
    tested = np.empty(0, np.int64)
    for client in inputs.clients:
        files, rows = inputs.files_of(client), tested_on(inputs, client)
        own = files.model(inputs.model)
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
) -> Predictions:
    """Classify a client's test images, after learning from the client's images."""
    options, index = inputs.options, inputs.index_of(client)
    labels = torch.from_numpy(np.asarray(inputs.train.labels)[index])
    labels = labels.to(features.learned.device)
    classes = max(inputs.train.classes, inputs.test.classes)
    more = classes, options.seed
    if style is None:
        return options.probe.predict(features.learned, labels, features.test, *more)
    learned, test = map(Pair, features, style.h)
    if options.generator == "trained":
        G = style.G.requires_grad_()
        return options.probe.predict_with(G, learned, labels, test, *more)
    h, h_test = (stylised(style.G, pair) for pair in (learned, test))
    return options.probe.predict(h, labels, h_test, *more)


def tested_on(inputs: Inputs, client: ClientId) -> np.ndarray:
    """Indices of a client's test images: every image, or images of the domain."""
    if not inputs.options.by_domain:
        return np.arange(len(inputs.test.images))
    source, domain = inputs.source, inputs.domain_of(client)
    if domain is None:
        raise InputError(
            f"{source}: does not record the domain of client {client}; create a "
            "partition with --scheme domains, or leave out --by-domain"
        )
    own = inputs.test.by_domain().get(domain)
    if own is None:
        raise InputError(
            f"{inputs.test.name}: has no images of the domain {domain} of client "
            f"{client} in {source}; pack both with the same domains and --domain-names"
        )
    return own


def _line(output: Path, document: dict[str, Any]) -> str:
    """Result line for people."""
    mean, worst = document["accuracy"], document["worst_tenth_accuracy"]
    each = domains_text(document)
    return (
        f"{output}: personal accuracy {100 * mean:.2f}% of "
        f"{counted(document['clients'], 'client')} (std {100 * document['clients_std']:.2f}, worst tenth "
        f"{100 * worst:.2f}%), round {document['checkpoint']['facts']['round']}"
        f"{each and f'; {each}'}"
    )
