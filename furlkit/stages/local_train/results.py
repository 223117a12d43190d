"""The files of a client's round: upload, shared files and private file."""

from typing import Any

from furlkit import catalogue, console
from furlkit.exchanges.exchange import Client, Trained
from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.private import PrivateFacts, write_private
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import class_counts
from furlkit.stages.local_train.inputs import Inputs
from furlkit.stages.local_train.start import Result, result_of
from furlkit.training.learners import parts_by_name
from furlkit.weights import (
    Tensors,
    divide,
    is_batchnorm_statistic,
    parts_of,
    without_counts,
)


def write(inputs: Inputs, client: Client, trained: Trained) -> Result:
    """Write shared files, the private file and, last for make, the upload."""
    options, setup, number = inputs.options, inputs.setup, client.number
    parts, memory = _finished(inputs, client, trained)
    upload, _ = _divided(inputs, trained.sent)
    _, kept = _divided(inputs, trained.learner)
    if options.private_out:
        own = _private_parts(inputs, client, upload, kept) | parts
        about = PrivateFacts(
            number, setup.round, parts_of(own), _first_words(memory),
            None if setup.partition else setup.images.fingerprint,
        )  # fmt: skip
        path = fill(options.private_out, number)
        content = write_private(path, own, memory, about, client.provenance)
        trained.results["private"] = content
    elif lost := ", ".join([*parts_of(kept), *_first_words(memory)]):
        console.detail(f"client {number}: {lost} not kept; --private-out would keep it")
    if "examples" not in options.tell or setup.is_site(number):
        # The server publishes the largest count, which is of the largest site.
        upload = without_counts(upload, client.received)
    facts = CheckpointFacts(
        role="client",
        round=setup.round,
        architecture=setup.model.facts.architecture,
        mean=setup.model.facts.mean,
        std=setup.model.facts.std,
        client=number,
        parent=setup.parent,
        partition=setup.partition.content if setup.partition else None,
        parts=parts_of(upload),
        init_seed=setup.model.facts.init_seed,
        reading=setup.model.facts.reading,
        run=setup.model.facts.run,
        **_told(inputs, client, trained),
    )
    output = fill(options.output, number)
    content = write_checkpoint(output, upload, facts, client.provenance)
    data = {**trained.results, "content": content, **trained.last.facts()}
    if client.decision:
        data["update"] = client.decision.to_json()
    return result_of(inputs.start, number, facts.loss, data)


def _finished(
    inputs: Inputs, client: Client, trained: Trained
) -> tuple[Tensors, Tensors]:
    """Finish the exchanges; return parts and memory for the private file."""
    active = inputs.active
    theirs = {word for exchange in active for word in exchange.memory}
    memory = {k: v for k, v in client.memory.items() if k.split(".")[0] not in theirs}
    parts: Tensors = {}
    for exchange in active:
        kept = exchange.finish(client, trained)
        parts |= kept.parts
        memory |= kept.memory
    return parts, memory


def _first_words(memory: Tensors) -> list[str]:
    return sorted({name.split(".")[0] for name in memory})


def _told(inputs: Inputs, client: Client, trained: Trained) -> dict[str, Any]:
    """Facts about the client's images for the upload, by --tell."""
    tell, objective = inputs.options.tell, inputs.options.objective
    told: dict[str, Any] = {}
    if "examples" in tell:
        told["examples"] = len(client.index)
    if "classes" in tell:
        told["classes"] = class_counts(inputs.setup.images, client.index)
    if "loss" in tell:
        told["loss"] = sum(trained.losses.values())
        if objective.tells:
            last = trained.last
            told |= catalogue.load(objective.tells)(last.losses, last.measures)
    return told


def _divided(inputs: Inputs, learner: Any) -> tuple[Tensors, Tensors]:
    """The tensors of a learner that leave the client, and the others.

    Buffers made by begin_epoch belong to the epoch and are left out.
    """
    wanted = inputs.setup.learner.keys() - inputs.unsent
    tensors = {k: v for k, v in parts_by_name(learner).items() if k in wanted}
    sent, kept = divide(tensors, inputs.sent)
    kept |= {name: sent.pop(name) for name in inputs.kept & sent.keys()}
    return sent, kept


def _private_parts(
    inputs: Inputs, client: Client, upload: Tensors, kept: Tensors
) -> Tensors:
    """Parts of models for the client's private file, except the parts of exchanges.

    Besides the unsent parts, the file has a copy of the BatchNorm statistics, which the
    server may leave out of the mean (aggregate --bn keep), and the weights at the end of
    the round if the update or a term needs these weights.
    """
    own = {k: v for k, v in upload.items() if is_batchnorm_statistic(k)} | kept
    if inputs.options.keeps_last:
        last = {**upload, **kept}
        own |= {f"last.{name}": last[name] for name in inputs.setup.net}
    return own | client.carried
