"""Training clients one after the other, and writing what each sends and keeps."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from furlkit import catalogue, console, runtime
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.files.checkpoint import (
    CheckpointFacts,
    open_checkpoint,
    write_checkpoint,
)
from furlkit.files.lock import holding
from furlkit.files.private import PrivateFacts, write_private
from furlkit.files.progress import ProgressFile
from furlkit.inputs.dictionary import INDEX, ROWS
from furlkit.inputs.existing import ALREADY, content_of
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, load_tensors, view_of
from furlkit.models.style import style_net
from furlkit.stages.local_train.inputs import (
    Client,
    Inputs,
    make_learner,
    open_client,
    open_inputs,
    options_of,
)
from furlkit.stages.local_train.sharing import (
    Rows,
    kept_rows,
    rows_after_training,
    rows_before_training,
    share,
)
from furlkit.training import run as training
from furlkit.training.learners import Given, parts_by_name, terms_of
from furlkit.training.loop import Epoch, Purpose, positions
from furlkit.weights import Tensors, divide, is_batchnorm_statistic, parts_of

Result = tuple[str, dict[str, Any]]


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Train one client after the other from the global model; each result as it comes."""
    options = options_of(values)
    inputs = open_inputs(options)
    if options.dry_run:
        yield from (_plan(inputs, number) for number in options.clients)
        return
    net: Net | None = None
    for number in options.clients:
        client, output = open_client(inputs, number), fill(options.output, number)
        with holding(output):
            result = None if options.force else _made_before(inputs, client)
            if result is None:
                net, more = _net(inputs, client, net)
                result = _train(inputs, client, net, more)
            ProgressFile(output, client.provenance).discard()
        yield result


def _made_before(inputs: Inputs, client: Client) -> Result | None:
    """The result of a client whose files the same command has made, all of them."""
    options, number = inputs.options, client.number
    output, whose = fill(options.output, number), {"client": number}
    content = content_of(output, "checkpoint", client.provenance, whose)
    if content is None:
        return None
    data: dict[str, Any] = {"content": content, "unchanged": True}
    more = {"private": options.private_out, "features": options.sharing.features_out}
    for kind, pattern in more.items():
        if pattern:
            data[kind] = content_of(
                fill(pattern, number), kind, client.provenance, whose
            )
    if None in data.values():
        return None
    line, data = _result(inputs, open_checkpoint(output)[1], data)
    return f"{line} ({ALREADY})", data


def _train(inputs: Inputs, client: Client, net: Net, more: Tensors) -> Result:
    options, device = inputs.options, runtime.device_of(inputs.options.runtime)
    early = rows_before_training(inputs, client, net)
    settings = dict(options.settings)
    if client.negatives is not None and len(client.negatives):
        settings["z_dict"] = torch.from_numpy(client.negatives).float().to(device)
        settings["remote_only"] = options.sharing.negatives == "remote"
    if options.sharing.own_rows:
        own = early.z if early else kept_rows(inputs, client)
        settings["z_own"] = torch.from_numpy(own).to(device)
    learner = make_learner(options, net, inputs.architecture, settings)
    if more:
        load_tensors(learner, more)
    view = view_of(inputs.model, options.augmentation, options.execution.channels_last)
    labels = inputs.images.labels if options.objective.labels else None
    purpose = (options.seed, "local-train", inputs.round, client.number)
    given = _given(inputs, client, learner, (*purpose, "align"))
    job = training.Job(
        title=f"client {client.number}",
        learner=learner,
        images=Images(inputs.images.images, labels, client.index, view, device),
        plan=inputs.plan,
        purpose=purpose,
        terms=terms_of(net, given, options.terms),
    )
    output, every = fill(options.output, client.number), options.execution.save_every
    shares = bool(options.sharing.features_out)
    last = training.run(job, output, client.provenance, every, shares)
    return _write(inputs, client, learner, last, early)


def _net(inputs: Inputs, client: Client, used: Net | None) -> tuple[Net, Tensors]:
    """The net at the start of the round, and what its learner carries besides.

    The net that the last client used serves again: building one takes longer than many
    a client's round. A learner of another package may have changed more than weights.
    """
    options = inputs.options
    parts = ("encoder", *inputs.architecture.heads)
    tensors, more = divide(client.tensors, parts)
    if used is not None and options.objective.name in catalogue.OBJECTIVES:
        load_tensors(used.requires_grad_(), tensors)
        return used, more
    facts = replace(inputs.model.facts, parts=None)
    start = replace(inputs.model, facts=facts, tensors=tensors)
    net = load_net(start, runtime.device_of(options.runtime))
    training.prepare(net, options.execution)
    return net, more


def _given(inputs: Inputs, client: Client, learner: Any, order: Purpose) -> Given:
    """What was opened for terms: public images with their targets, the client's style."""
    device = next(learner.parameters()).device
    given = Given(styles=_styles(inputs, client, device), learner=learner)
    if inputs.align is None:
        return given
    targets, public = inputs.align
    layout = inputs.options.execution.channels_last
    view = view_of(inputs.model, Augmentation(), layout)
    images = Images(public.images, None, targets.index, view, device)

    def batch_of(step: int, size: int) -> Batch:
        # Batches go through the set in a random order (what does not fill a batch is
        # left out), then in another. Plain images draw nothing from the generator.
        index = positions(images, size, order, step)
        return images.batch(index, torch.Generator(), step)

    h, z = (
        torch.from_numpy(rows).float().to(device) for rows in (targets.h, targets.z)
    )
    return given._replace(public=batch_of, h_align=h, z_align=z)


def _styles(
    inputs: Inputs, client: Client, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """h_s of the client's images and of their Sobel images, computed once.

    Neither are augmented, and the style model is frozen. A training that is resumed
    computes them again, from the same model.
    """
    if not client.style:
        return None
    net = style_net(inputs.model, client.style, device)
    known = (
        net,
        inputs.images.images,
        client.index,
        view_of(inputs.model, Augmentation()),
    )
    plain, edges = (embed(*known, "h", edges=e).to(device) for e in (False, True))
    return plain, edges


def _write(
    inputs: Inputs, client: Client, learner: Any, last: Epoch, early: Rows | None
) -> Result:
    """What the client keeps, what it shares, and last, for make, its model.

    `early` has the rows that are shared, where the global model computed them.
    """
    options, number, examples = inputs.options, client.number, len(client.index)
    data: dict[str, Any] = {}
    memory = dict(client.memory)
    if options.sharing.features_out:
        memory = {k: v for k, v in memory.items() if k not in (ROWS, INDEX)}
        rows = early or rows_after_training(inputs, client, learner)
        memory |= share(inputs, client, rows, data)
    # Buffers that begin_epoch made belong to the epoch; they are not carried further.
    known = inputs.expected.all
    tensors = {k: v for k, v in parts_by_name(learner).items() if k in known}
    upload, kept = divide(tensors, inputs.sent)
    if options.private_out:
        own = _kept(inputs, upload, kept) | client.carried
        names = sorted({name.split(".")[0] for name in memory})
        about = PrivateFacts(number, inputs.round, parts_of(own), names)
        path = fill(options.private_out, number)
        private = write_private(path, own, memory, about, client.provenance)
        data["private"] = private
    elif kept:
        lost = ", ".join(parts_of(kept))
        console.detail(f"client {number}: {lost} not kept; --private-out would keep it")
    facts = CheckpointFacts(
        role="client",
        round=inputs.round,
        architecture=inputs.model.facts.architecture,
        mean=inputs.model.facts.mean,
        std=inputs.model.facts.std,
        client=number,
        examples=examples,
        parent=inputs.model.content,
        partition=inputs.partition.content,
        loss=sum(last.losses.values()),
        parts=parts_of(upload),
    )
    output = fill(options.output, number)
    content = write_checkpoint(output, upload, facts, client.provenance)
    data |= {"content": content, **last.facts()}
    return _result(inputs, facts, data)


def _result(inputs: Inputs, facts: CheckpointFacts, data: dict[str, Any]) -> Result:
    """What is printed of a client whose files are written."""
    line = (
        f"{fill(inputs.options.output, facts.client or 0)}: client {facts.client}, "
        f"round {facts.round}, {facts.examples:,} images, loss {facts.loss:.4f}"
    )
    about = {"client": facts.client, "round": facts.round, "examples": facts.examples}
    return line, {**data, **about}


def _kept(inputs: Inputs, upload: Tensors, kept: Tensors) -> Tensors:
    """What of the model goes into the client's private file.

    Besides the parts that are not sent it has a copy of the BatchNorm statistics, which
    the server may leave out of the mean (aggregate --bn keep), and where the update
    needs them the weights that the client ends its round with.
    """
    own = {k: v for k, v in upload.items() if is_batchnorm_statistic(k)} | kept
    if inputs.options.update.own:
        last = {**upload, **kept}
        own |= {f"last.{name}": last[name] for name in inputs.expected.net}
    return own


def _plan(inputs: Inputs, number: int) -> Result:
    examples, options = len(inputs.partition.of(number)), inputs.options
    output = str(fill(options.output, number))
    line = (
        f"would write {output}: client {number}, round {inputs.round}, {examples:,} "
        f"images, {options.plan.epochs} epochs of {options.objective.name}"
    )
    return line, {"client": number, "examples": examples, "output": output}
