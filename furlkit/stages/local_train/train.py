"""Train clients in sequence."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from furlkit import catalogue, console
from furlkit.data.batches import Images
from furlkit.errors import UsageError
from furlkit.exchanges.exchange import Client, Trained, Written
from furlkit.files.checkpoint import open_checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.journal import Journal
from furlkit.files.lock import holding
from furlkit.files.progress import ProgressFile
from furlkit.inputs.existing import ALREADY, content_of
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import is_of_images, journal_line
from furlkit.models.architecture import Net
from furlkit.models.loading import load_net, load_tensors, view_of
from furlkit.stages.local_train.client import check_clients, open_client
from furlkit.stages.local_train.inputs import Inputs, make_learner, open_inputs
from furlkit.stages.local_train.options import options_of
from furlkit.stages.local_train.results import Result, result_of, write
from furlkit.training.learners import terms_of
from furlkit.training.loop import Job
from furlkit.training.run import Jobs, prepare, run_jobs
from furlkit.weights import Tensors, divide


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Train the clients in sequence from the global model; yield the results."""
    options = options_of(values)
    inputs = open_inputs(options)
    only = check_clients(inputs)
    if options.dry_run:
        yield from (_plan(inputs, number) for number in options.clients)
        return
    nets: dict[str, Net] = {}
    for number in options.clients:
        client = only or open_client(inputs, number)
        output = fill(options.output, number)
        with holding(output):
            result = None if options.force else _made_before(inputs, client)
            if result is None:
                result = train_client(inputs, client, nets)
            ProgressFile(output, client.work).discard()
        yield result


def _made_before(inputs: Inputs, client: Client) -> Result | None:
    """Result of a client, if an earlier run of this command wrote the client's files."""
    options, number = inputs.options, client.number
    output, whose = fill(options.output, number), {"client": number}
    content = content_of(output, "checkpoint", client.provenance, whose)
    if content is None:
        return None
    if not (inputs.setup.partition or is_of_images(output, inputs.setup.images)):
        return None
    data: dict[str, Any] = {"content": content, "unchanged": True}
    written = [written for exchange in options.active for written in exchange.writes]
    if options.private_out:
        written += [Written("private", "private", "--private-out", options.private_out)]
    for role, kind, _, pattern in written:
        path = fill(pattern, number)
        data[role] = content_of(path, kind, client.provenance, whose)
    if None in data.values():
        return None
    line, data = result_of(inputs, client, open_checkpoint(output)[1], data)
    return f"{line} ({ALREADY})", data


def train_client(inputs: Inputs, client: Client, nets: dict[str, Net]) -> Result:
    """Train a client; reuse `nets`, the nets of the previous client."""
    options = inputs.options
    nets["sent"], more = _net(inputs, client.tensors, nets.get("sent"))
    given: dict[str, Any] = {"received": client.received, "last": client.last}
    for exchange in options.active:
        given |= exchange.begin(client, nets["sent"])
    job = _job(inputs, client, nets["sent"], more, given)

    def twin(tensors: Tensors) -> Job:
        nets["twin"], more = _net(inputs, tensors, nets.get("twin"))
        return replace(_job(inputs, client, nets["twin"], more, given), begin=None)

    jobs = _jobs(inputs, client, job, twin)
    last = run_jobs(
        jobs,
        output=fill(options.output, client.number),
        provenance=client.work,
        save_every=options.execution.save_every,
        save_last=any(exchange.writes for exchange in options.active),
    )
    trained = Trained(job.learner, job.learner, last, last.losses)
    return write(inputs, client, trained)


def _jobs(
    inputs: Inputs, client: Client, job: Job, twin: Callable[[Tensors], Job]
) -> Job | Jobs:
    """The training of the sent model, or the trainings of an exchange."""
    made = [e.jobs(client, job, twin) for e in inputs.options.active]
    changed: list[Job | Jobs] = [jobs for jobs in made if jobs]
    if len(changed) > 1:
        raise UsageError("two exchanges train a second model; omit either exchange")
    return changed[0] if changed else job


def _job(
    inputs: Inputs, client: Client, net: Net, more: Tensors, given: dict[str, Any]
) -> Job:
    """A training of this net; `more` are the learner's tensors, `given` the inputs."""
    options, setup = inputs.options, inputs.setup
    taken = {key: given[key] for key in options.objective.inputs if key in given}
    settings = {**options.settings, **taken}
    learner = make_learner(options, net, setup.architecture, settings)
    if more:
        load_tensors(learner, more)
    view = view_of(setup.model, options.augmentation, setup.channels_last)
    labels = setup.images.labels if options.objective.labels else None
    return Job(
        title=f"client {client.number}",
        learner=learner,
        images=Images(setup.images.images, labels, client.index, view, setup.device),
        plan=setup.plan,
        purpose=client.purpose,
        terms=terms_of(net, {**given, "learner": learner}, options.terms),
        begin=lambda: _begin_journal(inputs, client),
        pairs=options.objective.pairs,
    )


def _begin_journal(inputs: Inputs, client: Client) -> None:
    """Journal a site's images and the update's decision, also for a resumed training."""
    decision, name = client.decision, inputs.options.update.name
    journal = Journal(fill(inputs.options.output, client.number))
    if inputs.setup.partition is None:
        journal.write(journal_line(inputs.setup.images))
    if decision is None:
        return
    journal.write({"event": "update", "update": name, **decision.to_json()})
    console.info(f"client {client.number}: --update {name} {decision.text}")


def _net(inputs: Inputs, start: Tensors, used: Net | None) -> tuple[Net, Tensors]:
    """The net at the start of the round, and further tensors of the learner.

    The net of the last client is reused, because building a net takes longer than many
    rounds; not with a plugin's learner, which may have changed more than weights.
    """
    options, setup = inputs.options, inputs.setup
    parts = ("encoder", *setup.architecture.heads)
    tensors, more = divide(start, parts)
    if used is not None and options.objective.name in catalogue.OBJECTIVES:
        load_tensors(used.requires_grad_(), tensors)
        return used, more
    facts = replace(setup.model.facts, parts=None)
    model = replace(setup.model, facts=facts, tensors=tensors)
    net = load_net(model, setup.device)
    prepare(net, options.execution)
    return net, more


def _plan(inputs: Inputs, number: ClientId) -> Result:
    options, setup = inputs.options, inputs.setup
    examples = len(setup.index_of(number))
    output = str(fill(options.output, number))
    line = (
        f"would write {output}: client {number}, round {setup.round}, {examples:,} "
        f"images, {options.plan.epochs} epochs of {options.objective.name}"
    )
    return line, {"client": number, "examples": examples, "output": output}
