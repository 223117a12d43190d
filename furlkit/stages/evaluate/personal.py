"""evaluate personal: score each client's model on the client's data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.read import Container
from furlkit.files.partition import Partition, read_partition
from furlkit.inputs.clients import ClientFiles, read_clients
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.labelled import open_pair, train_and_test
from furlkit.inputs.matching import check_dataset
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.inputs.sites import check_one_site, images_of, unless_all
from furlkit.reports import document as scoring
from furlkit.reports.metrics import domains_text
from furlkit.reports.text import counted
from furlkit.stages.evaluate import work_of
from furlkit.stages.evaluate.probe import Probe


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
    """Opened and checked inputs; the tensors of each client are read later."""

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
        """Files of a client, with outlines of tensors."""
        return self.files.get(client, ClientFiles())


def run(values: dict[str, Any]) -> Result:
    """Train and score a classifier for each client on the client's images."""
    known: dict[str, Any] = {"recorded": recorded("evaluate personal", values)}
    given = {**train_and_test(values), **divided_files(values["files"]), **known}
    inputs = _open(fill(PersonalOptions, given))
    options, clients = inputs.options, inputs.clients
    origins = _origins(inputs)
    if document := existing_scores(options, origins):
        return already(_line(options.output, document), document)
    work = work_of("personal")
    work.check_models(inputs)
    if options.dry_run:
        line = f"would score the models of {counted(clients, 'client')} by personal"
        return line, {"protocol": "personal", "clients": clients}
    document = write_document(options, {**origins, **work.score(inputs)})
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
        _check_client(inputs, client)
    return inputs


def _check_client(inputs: Inputs, client: ClientId) -> None:
    """Check that a client has training and test images, and required files."""
    if not len(inputs.index_of(client)):
        raise InputError(
            f"{inputs.source}: client {client} has no images to learn from; leave this "
            "client out with --client"
        )
    tested_on(inputs, client)
    if inputs.options.generator != "none" and inputs.files_of(client).private is None:
        raise UsageError(
            f"--generator {inputs.options.generator}: client {client} of "
            f"{inputs.source} has no private file with a style model and a generator; "
            "give the file, or leave the client out with --client"
        )


def _origins(inputs: Inputs) -> dict[str, Any]:
    """Entries known before scoring; None for a client without a kind of file."""
    files = {str(k): inputs.files_of(k) for k in inputs.clients}
    contents = by_role(
        "evaluate personal",
        model=inputs.model,
        partition=inputs.partition,
        private={k: each.private for k, each in files.items()},
        upload={k: each.upload for k, each in files.items()},
    )
    found = scoring.origins(inputs.model, inputs.train, inputs.test, contents)
    if inputs.partition:
        found["data"]["partition"] = inputs.partition.content
    private = {k: each.private and each.private.content for k, each in files.items()}
    uploads = {k: each.upload and each.upload.content for k, each in files.items()}
    found |= {"protocol": "personal", "private": private}
    if any(uploads.values()):
        found["uploads"] = uploads
    names = [inputs.domain_of(client) for client in inputs.clients]
    if known := [name for name in dict.fromkeys(names) if name is not None]:
        found["domain_names"] = known
    return found


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
