"""local-train: what a client does in a round."""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from furlkit import runtime
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images
from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.features import write_features
from furlkit.files.private import PrivateFacts, write_private
from furlkit.files.progress import ProgressFile
from furlkit.inputs.client import Doors, Options, open_doors
from furlkit.inputs.dictionary import (
    INDEX,
    ROWS,
    ensemble_of,
    shared_rows,
    sharing_facts,
)
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import Tensors, load_net, tensors_of, view_of
from furlkit.randomness import numpy_generator
from furlkit.training import run as training
from furlkit.training.loop import Epoch, LossOf, Purpose
from furlkit.training.methods import OBJECTIVES
from furlkit.training.terms import PublicImages, Term, alignment, proximal, with_terms
from furlkit.weights import is_batchnorm_statistic

Result = tuple[str, dict[str, Any]]


def run(options: Options) -> list[Result]:
    """Train one client after the other from the global model."""
    doors = open_doors(options)
    if options.dry_run:
        return [_plan(doors, client) for client in options.clients]
    results = [_train(doors, client) for client in options.clients]
    # Only now: a restart must not train again the clients that were done already.
    for client in options.clients:
        ProgressFile(fill(options.output, client), doors.made(client)).discard()
    return results


def _train(doors: Doors, client: int) -> Result:
    options = doors.options
    device = runtime.device_of(options.runtime)
    net = load_net(doors.start(client), device)
    training.prepare(net, options.handling)
    view = view_of(doors.model, options.augmentation, options.handling.channels_last)
    labelled = OBJECTIVES[options.objective].labels
    labels = doors.images.labels if labelled else None
    purpose = (options.seed, "local-train", doors.round, client)
    job = training.Job(
        title=f"client {client}",
        module=net,
        loss_of=_loss_of(doors, client, net, purpose),
        images=Images(
            doors.images.images, labels, doors.partition.of(client), view, device
        ),
        plan=doors.plan,
        purpose=purpose,
    )
    more_to_do = len(options.clients) > 1 or bool(options.sharing.features_out)
    output, made = fill(options.output, client), doors.made(client)
    last = training.run(job, output, made, options.handling, more_to_do)
    return _write(doors, client, net, last)


def _loss_of(doors: Doors, client: int, net: Net, purpose: Purpose) -> LossOf:
    """The objective's step with what it was given, and the terms added to it."""
    options, settings = doors.options, dict(doors.settings)
    rows = doors.negatives(client)
    if rows is not None and len(rows):
        device = next(net.parameters()).device
        settings["z_dict"] = torch.from_numpy(rows).float().to(device)
    step = partial(OBJECTIVES[options.objective].step, net, **settings)
    terms: dict[str, Term] = {}
    if options.proximal:
        terms["proximal"] = proximal(net, options.proximal)
    if (a := options.aligning) and a.beta:
        public, order = _public(doors, net), (*purpose, "align")
        terms["alignment"] = alignment(
            net, public, a.beta, a.reduction, a.batch_size, order
        )
    return with_terms(step, terms)


def _public(doors: Doors, net: Net) -> PublicImages:
    targets, public = doors.targets, doors.public
    if targets is None or public is None:
        raise ValueError("alignment without targets")
    device = next(net.parameters()).device
    layout = doors.options.handling.channels_last
    view = view_of(doors.model, Augmentation(), layout)
    images = Images(public.images, None, targets.index, view, device)
    h, z = (
        torch.from_numpy(rows).float().to(device) for rows in (targets.h, targets.z)
    )
    return PublicImages(images, h, z)


def _write(doors: Doors, client: int, net: Net, last: Epoch) -> Result:
    """What the client keeps, what it shares, and at the end, for make, its model."""
    options, made = doors.options, doors.made(client)
    examples, tensors = len(doors.partition.of(client)), tensors_of(net)
    data: dict[str, Any] = {"client": client, "round": doors.round}
    own = doors.ensemble(client)
    if options.sharing.features_out:
        own = _share(doors, client, net, data)
    if options.private_out:
        own |= {k: v for k, v in tensors.items() if is_batchnorm_statistic(k)}
        holds = ["BatchNorm statistics", *(["ensemble Z"] if ROWS in own else [])]
        facts = PrivateFacts(client, doors.round, holds)
        path = fill(options.private_out, client)
        data["private"] = write_private(path, own, facts, made).content
    model = doors.model
    about = CheckpointFacts(
        role="client",
        round=doors.round,
        architecture=model.facts.architecture,
        mean=model.facts.mean,
        std=model.facts.std,
        client=client,
        examples=examples,
        parent=model.content,
        partition=doors.partition.content,
        loss=sum(last.losses.values()),
    )
    output = fill(options.output, client)
    data["content"] = write_checkpoint(output, tensors, about, made).content
    data.update(examples=examples, **asdict(last))
    line = (
        f"{output}: client {client}, round {doors.round}, {examples:,} images, "
        f"loss {about.loss:.4f}"
    )
    return line, data


def _share(doors: Doors, client: int, net: Net, data: dict[str, Any]) -> Tensors:
    """Write the rows the client shares; gives the ensemble that it keeps."""
    sharing, index = doors.options.sharing, doors.partition.of(client)
    view = view_of(doors.model, Augmentation())
    z = embed(net, doors.images.images, index, view, "z").numpy()
    Z = ensemble_of(doors.private(client), z, index, sharing.keep)
    rng = numpy_generator(doors.options.seed, "share", doors.round, client)
    rows = shared_rows(Z, sharing.rows(doors.partition.facts.clients), rng)
    facts = sharing_facts(client, doors.round, len(rows), doors.model.content)
    path, made = fill(sharing.features_out or "", client), doors.made(client)
    numbers = np.arange(len(rows))
    data["features"] = write_features(path, rows, numbers, facts, made).content
    return {ROWS: Z, INDEX: index} if sharing.keep else {}


def _plan(doors: Doors, client: int) -> Result:
    examples, plan = len(doors.partition.of(client)), doors.options.plan
    output = str(fill(doors.options.output, client))
    line = (
        f"would write {output}: client {client}, round {doors.round}, {examples:,} "
        f"images, {plan.epochs} epochs of {doors.options.objective}"
    )
    return line, {"client": client, "examples": examples, "output": output}
