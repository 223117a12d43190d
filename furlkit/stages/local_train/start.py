"""Files common to the clients, provenance, and existing results; without torch."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from furlkit import catalogue, console
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError
from furlkit.exchanges.draws import check_draws, withheld_with_draws
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.partition import Partition, read_partition
from furlkit.files.progress import ProgressFile, progress_of
from furlkit.files.published import has_record
from furlkit.files.replaceable import check_same_output
from furlkit.files.signatures import CLIENT, SERVER, check_received
from furlkit.inputs import matching
from furlkit.inputs.declared import contents_of
from furlkit.inputs.existing import Output, already, earlier_result, unchanged
from furlkit.inputs.images import open_images
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.paths import fill
from furlkit.inputs.publishing import is_site
from furlkit.inputs.records import check_places
from furlkit.inputs.sites import images_of, is_of_images, site_provenance
from furlkit.models.description import Architecture, full_architecture
from furlkit.stages.local_train.options import LocalTrainOptions
from furlkit.training.plan import Plan
from furlkit.weights import within

Result = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Start:
    """Files common to the clients, and the plan of this round.

    `received`: GLOBAL, and files that --signers has checked, by path.
    """

    options: LocalTrainOptions
    partition: Partition | None
    model: Checkpoint
    architecture: Architecture
    images: ImageSet
    round: int
    plan: Plan
    received: dict[Path, Container]

    def work(self, provenance: Provenance) -> Provenance:
        """Provenance of files that stay at the client; of a site, with the images."""
        here = self.partition is not None
        return provenance if here else site_provenance(provenance, self.images)


def open_start(options: LocalTrainOptions) -> Start:
    """Open and check partition, global model and images."""
    for client in options.clients:
        if is_site(client, options.partition):
            check_places(_sent_files(options, client))
    received = _received_files(options)
    # Uploads and masks name the model by its content hash.
    received[options.model].by = "content"
    partition = read_partition(options.partition) if options.partition else None
    model = read_checkpoint(received[options.model])
    own = options.clients[0] if options.update.starts_from_own else None
    matching.check_start(model, partition, own)
    if options.update.continues:
        matching.check_continued(model, options.update.name)
    architecture = full_architecture(model.path, model.facts)
    matching.check_heads(model, architecture, options.objective)
    matching.check_augmentation(options.augmentation, model)
    images = open_images(options.data, model)
    if partition:
        matching.check_dataset(partition, images)
    if "classes" in options.tell and images.labels is None:
        raise InputError(f"{images.without_labels}, which --tell classes counts")
    if options.objective.labels:
        matching.check_labels(images, architecture.heads["classifier"][0], model)
    round_ = model.facts.round + (not options.update.continues)
    plan = options.plan.of_round(round_)
    _warn(options, partition, images)
    return Start(
        options, partition, model, architecture, images, round_, plan, received
    )


def _warn(
    options: LocalTrainOptions, partition: Partition | None, images: ImageSet
) -> None:
    """Warn about batches and phases, also if the outputs exist."""
    source = str(partition.path if partition else images.name)
    sizes = {c: len(images_of(c, partition, images)) for c in options.clients}
    matching.check_batches(source, sizes, options.plan.batch_size)
    named = [part for phase in options.plan.phases for part in phase.parts]
    heads = options.objective.head_names
    left = [head for head in heads if not within(head, named)]
    if named and left:
        console.warn(
            f"--phases: no phase trains the {left[0]} of --objective "
            f"{options.objective.name}; add the part to a phase: {named[0]}+{left[0]}:5"
        )


def _received_files(options: LocalTrainOptions) -> dict[Path, Container]:
    """Open GLOBAL, and check received files by --signers.

    GLOBAL may be the client's model, made here. Without a record beside the model, the
    client must have signed the model: a courier could have sent it.
    """
    model = Container(options.model)
    if not options.signers:
        return {options.model: model}
    files = [
        (fill(each.path, client), each.file.signer)
        for each in options.files
        for client in options.clients
        if each.is_received and each.path != str(options.model)
    ]
    own = options.update.starts_from_own and model.header.facts.get("role") == "client"
    if not own:
        files.append((options.model, SERVER))
    elif options.partition is None and not has_record(model):
        files.append((options.model, CLIENT))
    return {options.model: model, **check_received(options.signers, files)}


def provenance_of(start: Start, client: ClientId, known: dict[Path, str]) -> Provenance:
    """Provenance of a client's files; `known` are content hashes of opened files."""
    options, partition = start.options, start.partition
    received = {path: file.content for path, file in start.received.items()}
    known = {**received, start.model.path: start.model.content, **known}
    if partition:
        known[partition.path] = partition.content
    resolved = {**options.resolved, **encoder_plugin(start.model)}
    if start.plan.schedule_rounds > 1:
        resolved["first-round"] = start.plan.first_round
    clients = partition.facts.clients if partition else 1
    for name, entry in catalogue.exchanges().items():
        plugin = catalogue.plugin_options("furlkit.exchanges", name)
        if plugin and catalogue.load(entry.function)(options.values).active:
            resolved |= plugin
        if entry.record:
            catalogue.load(entry.record)(resolved, options.values, clients)
    contents = contents_of(options.files, client, known)
    withheld = None
    if is_site(client, partition):
        withheld = withheld_with_draws("local-train", options.values, client)
        withheld = replace(withheld, dataset=start.images.fingerprint)
    return Provenance("local-train", resolved, options.seed, contents, withheld)


def _sent_files(options: LocalTrainOptions, client: ClientId) -> list[Path]:
    """Files of a client for others."""
    sent = [each.path for each in options.written if each.file.direction == "sent"]
    return [fill(path, client) for path in (str(options.output), *sent)]


def drawn_files(start: Start, client: ClientId) -> list[Path]:
    """Files of an earlier run of this command; empty if --force replaces the files."""
    options = start.options
    if options.force:
        return []
    output = fill(options.output, client)
    written = [fill(each.path, client) for each in options.written]
    return [output, progress_of(output), *written]


def existing_result(
    start: Start, client: ClientId, provenance: Provenance | None = None
) -> Result | None:
    """Result of a client, if an earlier run of this command wrote the client's files."""
    options, whose = start.options, {"client": client}
    path = fill(options.output, client)
    written = {each.file.role or each.flag: each for each in options.written}
    paths = [path, *(fill(each.path, client) for each in written.values())]
    check_draws(options.values, client, drawn_files(start, client))
    if options.force:
        return None
    kinds = ["checkpoint", *(each.file.kind for each in written.values())]
    for file, kind in zip(paths, kinds, strict=True):
        check_same_output(file, "-o", kind, {**whose, "round": start.round})
    if not all(each.exists() for each in paths):
        return None
    how = provenance or provenance_of(start, client, {})
    outputs = [Output(p, k, how, whose) for p, k in zip(paths, kinds, strict=True)]
    existing = unchanged(options, *outputs)
    if not existing or not (start.partition or is_of_images(path, start.images)):
        return None
    ProgressFile(path, start.work(how)).discard()
    contents = [each.content for each in existing]
    data = earlier_result(path, existing[0].content)
    data |= zip(["content", *written], contents, strict=True)
    return already(*result_of(start, client, existing[0].facts.get("loss"), data))


def result_of(
    start: Start, client: ClientId, loss: float | None, data: dict[str, Any]
) -> Result:
    """Result of a client to print, after writing the files."""
    path, round_ = fill(start.options.output, client), start.round
    examples = len(images_of(client, start.partition, start.images))
    line = f"{path}: client {client}, round {round_}, {examples:,} images"
    line += "" if loss is None else f", loss {loss:.4f}"
    about = {"client": client, "round": round_, "examples": examples}
    return line, {**data, **about}
