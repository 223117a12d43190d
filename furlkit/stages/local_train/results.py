"""What a client's round leaves: its upload, the rows it shares, its private file."""

from typing import Any, NamedTuple

import numpy as np

from furlkit import catalogue, console
from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.private import PrivateFacts, write_private
from furlkit.inputs.dictionary import INDEX, ROWS
from furlkit.inputs.kept import remembered_rows
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import class_counts
from furlkit.stages.local_train.client import Client
from furlkit.stages.local_train.inputs import Inputs
from furlkit.stages.local_train.options import Options
from furlkit.stages.local_train.sharing import Rows, rows_after_training, share
from furlkit.training.learners import parts_by_name
from furlkit.training.loop import Epoch
from furlkit.weights import OWN, Tensors, divide, is_batchnorm_statistic, parts_of

Result = tuple[str, dict[str, Any]]


class Trained(NamedTuple):
    """What a client's round gave.

    `learner` is that of the global model's copy, `own` that of the model that the client
    trained for itself, and `memory` what its method remembers. `last` is the last epoch
    of the model that is sent. `early`
    has the rows that are shared, where the global model computed them.
    """

    learner: Any
    own: Any | None
    memory: Tensors
    last: Epoch
    early: Rows | None


def write(inputs: Inputs, client: Client, trained: Trained) -> Result:
    """What the client keeps, what it shares, and last, for make, its model."""
    options, number = inputs.options, client.number
    data: dict[str, Any] = {}
    memory = _remembered(inputs, client, trained, data)
    upload, kept = divide(_tensors(inputs, trained.learner), inputs.sent)
    if options.sends_own:
        upload, _ = divide(_tensors(inputs, trained.own), inputs.sent)
    if options.private_out:
        own = _private_parts(inputs, client, trained, upload, kept)
        about = PrivateFacts(
            number, inputs.round, parts_of(own), _methods(memory),
            None if inputs.partition else inputs.images.fingerprint,
        )  # fmt: skip
        path = fill(options.private_out, number)
        data["private"] = write_private(path, own, memory, about, client.provenance)
    elif lost := ", ".join([*parts_of(kept), *_methods(memory)]):
        console.detail(f"client {number}: {lost} not kept; --private-out would keep it")
    if "examples" not in options.tell:
        upload = _without_counts(upload, client.received)
    facts = CheckpointFacts(
        role="client",
        round=inputs.round,
        architecture=inputs.model.facts.architecture,
        mean=inputs.model.facts.mean,
        std=inputs.model.facts.std,
        client=number,
        parent=inputs.parent,
        partition=inputs.partition.content if inputs.partition else None,
        parts=parts_of(upload),
        init_seed=inputs.model.facts.init_seed,
        reading=inputs.model.facts.reading,
        **_told(inputs, client, trained.last),
    )
    output = fill(options.output, number)
    content = write_checkpoint(output, upload, facts, client.provenance)
    data |= {"content": content, **trained.last.facts()}
    if client.decision:
        data["update"] = client.decision.to_json()
    return result_of(inputs, client, facts, data)


def _remembered(
    inputs: Inputs, client: Client, trained: Trained, data: dict[str, Any]
) -> Tensors:
    """What methods remember until the next round; writes the rows that are shared."""
    memory = {**_carried(client.memory), **trained.memory}
    if inputs.options.sharing.features_out:
        memory = {k: v for k, v in memory.items() if k not in (ROWS, INDEX)}
        rows = trained.early or rows_after_training(inputs, client, trained.learner)
        memory |= share(inputs, client, rows, data)
    for what in client.kept:
        by_image = getattr(trained.learner, what).cpu().numpy()
        memory |= remembered_rows(what, by_image, client.index)
    return memory


def _methods(memory: Tensors) -> list[str]:
    """The first words of what is remembered."""
    return sorted({name.split(".")[0] for name in memory})


def _told(inputs: Inputs, client: Client, last: Epoch) -> dict[str, Any]:
    """What the upload tells of the client's images: no more than --tell says."""
    tell = inputs.options.tell
    told: dict[str, Any] = {}
    if "examples" in tell:
        told["examples"] = len(client.index)
    if "classes" in tell:
        told["classes"] = class_counts(inputs.images, client.index)
    if "loss" in tell:
        told["loss"] = sum(_losses_of_sent(inputs.options, last))
        told |= _cluster_facts(last)
    return told


def _losses_of_sent(options: Options, last: Epoch) -> list[float]:
    """The losses of the model that is sent; APFL's epoch has those of both models."""
    own = {name: loss for name, loss in last.losses.items() if name.startswith(OWN)}
    if own and options.sends_own:
        return list(own.values())
    return [loss for name, loss in last.losses.items() if name not in own]


def _without_counts(upload: Tensors, received: Tensors) -> Tensors:
    """The upload without BatchNorm's counts of batches, which tell how many images.

    Nothing computes with them. They are those of the received model.
    """
    return {
        k: received.get(k, np.zeros_like(v))
        if k.endswith(".num_batches_tracked")
        else v
        for k, v in upload.items()
    }


def _cluster_facts(last: Epoch) -> dict[str, Any]:
    """The loss of each head of clusters in the last epoch, and which is the lowest."""
    if "head" not in last.measures:
        return {}
    named = last.losses.items()
    losses = [loss for name, loss in named if name.partition(".")[0] == "cluster"]
    return {"cluster_head": last.measures["head"], "cluster_losses": losses}


def result_of(
    inputs: Inputs, client: Client, facts: CheckpointFacts, data: dict[str, Any]
) -> Result:
    """What is printed of a client whose files are written."""
    number, examples = client.number, len(client.index)
    line = (
        f"{fill(inputs.options.output, number)}: client {number}, "
        f"round {facts.round}, {examples:,} images"
    )
    line += "" if facts.loss is None else f", loss {facts.loss:.4f}"
    about = {"client": number, "round": facts.round, "examples": examples}
    return line, {**data, **about}


def _carried(memory: Tensors) -> Tensors:
    """What methods remember, but for that of an own model, which is written with it."""
    return {
        k: v for k, v in memory.items() if k.split(".")[0] not in catalogue.PERSONAL
    }


def _tensors(inputs: Inputs, learner: Any) -> Tensors:
    """A learner's tensors, by part.

    Buffers that begin_epoch made belong to the epoch; they are not carried further.
    """
    known = inputs.expected.all
    return {k: v for k, v in parts_by_name(learner).items() if k in known}


def _private_parts(
    inputs: Inputs, client: Client, trained: Trained, upload: Tensors, kept: Tensors
) -> Tensors:
    """The parts of models that go into the client's private file.

    Besides the parts that are not sent it has a copy of the BatchNorm statistics, which
    the server may leave out of the mean (aggregate --bn keep), and where the update
    needs them the weights that the client ends its round with; then what the client
    carries along, as its style model, and the model that it trains for itself.
    """
    own = {k: v for k, v in upload.items() if is_batchnorm_statistic(k)} | kept
    if inputs.options.update.own:
        last = {**upload, **kept}
        own |= {f"last.{name}": last[name] for name in inputs.expected.net}
    own |= client.carried
    if trained.own is not None:
        tensors = _tensors(inputs, trained.own)
        own |= {OWN + name: array for name, array in tensors.items()}
    return own
