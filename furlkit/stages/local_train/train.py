"""Training clients one after the other."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from furlkit import catalogue, console, runtime
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.files.checkpoint import (
    open_checkpoint,
    read_checkpoint,
)
from furlkit.files.clients import ClientId
from furlkit.files.journal import Journal
from furlkit.files.lock import holding
from furlkit.files.progress import ProgressFile
from furlkit.inputs.existing import ALREADY, content_of
from furlkit.inputs.neighbours import positions as positions_of
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, load_tensors, view_of
from furlkit.models.style import style_net
from furlkit.stages.local_train.client import Client, check_clients, open_client
from furlkit.stages.local_train.helpers import helper_net
from furlkit.stages.local_train.inputs import Inputs, make_learner, open_inputs
from furlkit.stages.local_train.mining import with_neighbours
from furlkit.stages.local_train.options import options_of
from furlkit.stages.local_train.results import Result, Trained, result_of, write
from furlkit.stages.local_train.sharing import (
    Rows,
    own_rows,
    rows_before_training,
)
from furlkit.training import run as training
from furlkit.training.learners import Given, terms_of
from furlkit.training.loop import Epoch, Job, Purpose, positions
from furlkit.training.personal import Afterwards, together
from furlkit.weights import Tensors, divide

IMAGES = "images"  # The journal's line about them.


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Train one client after the other from the global model; each result as it comes."""
    options = options_of(values)
    inputs = open_inputs(options)
    check_clients(inputs)
    if options.dry_run:
        yield from (_plan(inputs, number) for number in options.clients)
        return
    nets: dict[str, Net] = {}
    for number in options.clients:
        client, output = open_client(inputs, number), fill(options.output, number)
        with holding(output):
            result = None if options.force else _made_before(inputs, client)
            if result is None:
                result = _train(inputs, client, nets)
            ProgressFile(output, client.work).discard()
        yield result


def _made_before(inputs: Inputs, client: Client) -> Result | None:
    """The result of a client whose files the same command has made, all of them."""
    options, number = inputs.options, client.number
    output, whose = fill(options.output, number), {"client": number}
    content = content_of(output, "checkpoint", client.provenance, whose)
    if content is None or not _same_images(inputs, output):
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
    line, data = result_of(inputs, client, open_checkpoint(output)[1], data)
    return f"{line} ({ALREADY})", data


def _same_images(inputs: Inputs, output: Path) -> bool:
    """Whether a site's upload is of the images it has now, which the upload cannot say.

    The journal says so, and stays at the site.
    """
    if inputs.partition:
        return True
    lines = [line for line in Journal(output).read() if line.get("event") == IMAGES]
    same = bool(lines) and lines[-1].get("dataset") == inputs.images.fingerprint
    if not same:
        console.info(
            f"{output}: its journal does not say that it is of the images in "
            f"{inputs.images.name}; making it again"
        )
    return same


def _train(inputs: Inputs, client: Client, nets: dict[str, Net]) -> Result:
    """Train a client; `nets` are those of the client before, which serve again."""
    options, own = inputs.options, None
    purpose: Purpose = (options.seed, "local-train", inputs.round, client.number)
    if options.continues_round:  # Draws that the round's first training has not made.
        purpose = (*purpose, "continue")
    nets["sent"], more = _net(inputs, client.tensors, nets.get("sent"))
    early = rows_before_training(inputs, client, nets["sent"])
    if options.mining:
        client = with_neighbours(inputs, client, nets["sent"], options.mining)
    settings = _settings(inputs, client, early)
    sent = _learner(inputs, nets["sent"], more, settings)
    given = _given(inputs, client, sent, (*purpose, "align"))
    view = view_of(inputs.model, options.augmentation, options.execution.channels_last)
    labels = inputs.images.labels if options.objective.labels else None
    device = runtime.device_of(options.runtime)
    job = training.Job(
        title=f"client {client.number}",
        learner=sent,
        images=Images(inputs.images.images, labels, client.index, view, device),
        plan=inputs.plan,
        purpose=purpose,
        terms=terms_of(nets["sent"], given, options.terms),
        begin=lambda: _begin_journal(inputs, client),
    )
    if options.has_own_model:
        nets["own"], more = _net(inputs, client.own, nets.get("own"))
        learner = _learner(inputs, nets["own"], more, settings)
        terms = terms_of(nets["own"], given, options.terms)
        own = replace(job, learner=learner, terms=terms, begin=None)
    last, memory = _run(inputs, client, job, own)
    trained = Trained(job.learner, own.learner if own else None, memory, last, early)
    return write(inputs, client, trained)


def _settings(inputs: Inputs, client: Client, early: Rows | None) -> dict[str, Any]:
    """The objective's settings, with the rows that it takes."""
    options, device = inputs.options, runtime.device_of(inputs.options.runtime)
    settings = dict(options.settings)
    z_dict = _rows_of_others(client, device)
    if z_dict is not None and options.objective.negatives:
        settings["z_dict"] = z_dict
        settings["remote_only"] = options.sharing.negatives == "remote"
    if options.sharing.own_rows:
        own = early.z if early else own_rows(inputs, client)
        settings["z_own"] = torch.from_numpy(own).to(device)
    for what, kept in client.kept.items():
        settings[what] = torch.from_numpy(kept).to(device)
    if options.mining:
        settings["neighbours"] = torch.from_numpy(positions_of(client.memory))
    if client.helpers:
        files = [read_checkpoint(helper.path) for helper in client.helpers.values()]
        settings["helpers"] = [helper_net(f, inputs.model, device) for f in files]
    return settings


def _rows_of_others(client: Client, device: torch.device) -> torch.Tensor | None:
    """The client's rows of the dictionary on the device; None without a row."""
    if client.negatives is None or not len(client.negatives):
        return None
    return torch.from_numpy(client.negatives).float().to(device)


def _learner(inputs: Inputs, net: Net, more: Tensors, settings: dict[str, Any]) -> Any:
    """A learner of this net; `more` is what it carries besides."""
    learner = make_learner(inputs.options, net, inputs.architecture, settings)
    if more:
        load_tensors(learner, more)
    return learner


def _run(
    inputs: Inputs, client: Client, job: Job, own: Job | None
) -> tuple[Epoch, Tensors]:
    """Train the copy of the global model, and the client's own with it or afterwards.

    Gives the last epoch of the model that is sent, and what the method of the client's
    own model remembers.
    """
    options, method = inputs.options, inputs.options.personal
    run = partial(
        training.run,
        output=fill(options.output, client.number),
        provenance=client.work,
        save_every=options.execution.save_every,
        save_last=bool(options.sharing.features_out),
    )
    if own is None:
        return run(job), {}
    settings = options.personal_settings
    if method.together:
        both = together(method, job, own, client.memory, settings)
        last, memory = run(both), both.learner.memory()
        return last, {name: np.array(value) for name, value in memory.items()}
    jobs = Afterwards(method, job, own, client.received, settings)
    run(jobs)
    return jobs.epochs[int(options.sends_own)], {}


def _begin_journal(inputs: Inputs, client: Client) -> None:
    """A site's images, and what the update decided; a resumed training has both lines."""
    decision, name = client.decision, inputs.options.update.name
    journal = Journal(fill(inputs.options.output, client.number))
    if inputs.partition is None:
        journal.write({"event": IMAGES, "dataset": inputs.images.fingerprint})
    if decision is None:
        return
    journal.write({"event": "update", "update": name, **decision.to_json()})
    far = "" if decision.distance is None else f", distance {decision.distance:.4g}"
    console.info(
        f"client {client.number}: --update {name} {decision.word}, "
        f"{decision.own:.2f} of its own{far}"
    )


def _net(inputs: Inputs, start: Tensors, used: Net | None) -> tuple[Net, Tensors]:
    """The net at the start of the round, and what its learner carries besides.

    The net that the last client used serves again: building one takes longer than many
    a client's round. A learner of another package may have changed more than weights.
    """
    options = inputs.options
    parts = ("encoder", *inputs.architecture.heads)
    tensors, more = divide(start, parts)
    if used is not None and options.objective.name in catalogue.OBJECTIVES:
        load_tensors(used.requires_grad_(), tensors)
        return used, more
    facts = replace(inputs.model.facts, parts=None)
    model = replace(inputs.model, facts=facts, tensors=tensors)
    net = load_net(model, runtime.device_of(options.runtime))
    training.prepare(net, options.execution)
    return net, more


def _given(inputs: Inputs, client: Client, learner: Any, order: Purpose) -> Given:
    """What terms want: the received model, public images with their targets, styles."""
    device = next(learner.parameters()).device
    styles = _styles(inputs, client, device)
    given = Given(received=client.received, styles=styles, learner=learner)
    rows = _rows_of_others(client, device)
    if rows is not None and not inputs.options.objective.negatives:
        given = given._replace(rows=F.normalize(rows, dim=1))
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


def _plan(inputs: Inputs, number: ClientId) -> Result:
    examples, options = len(inputs.index_of(number)), inputs.options
    output = str(fill(options.output, number))
    line = (
        f"would write {output}: client {number}, round {inputs.round}, {examples:,} "
        f"images, {options.plan.epochs} epochs of {options.objective.name}"
    )
    return line, {"client": number, "examples": examples, "output": output}
