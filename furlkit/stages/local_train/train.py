"""Train clients in sequence."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from furlkit import catalogue, console
from furlkit.data.batches import Images
from furlkit.errors import UsageError
from furlkit.exchanges.exchange import Client, Trained
from furlkit.files.clients import ClientId
from furlkit.files.journal import Journal
from furlkit.files.lock import holding
from furlkit.files.progress import ProgressFile
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import journal_line
from furlkit.models.architecture import Net
from furlkit.models.loading import load_net, load_tensors, view_of
from furlkit.stages.local_train.client import check_clients, open_client
from furlkit.stages.local_train.inputs import Inputs, make_learner, open_inputs
from furlkit.stages.local_train.results import write
from furlkit.stages.local_train.start import Result, Start, existing_result
from furlkit.training.learners import terms_of
from furlkit.training.loop import Job
from furlkit.training.run import Jobs, prepare, run_jobs
from furlkit.weights import Tensors, divide


def train_clients(start: Start, existing: dict[ClientId, Result]) -> Iterator[Result]:
    """Train the clients without `existing` results; yield the results of all clients."""
    options = start.options
    with console.noted() as warnings:
        inputs = open_inputs(start)
    only = check_clients(inputs, [n for n in options.clients if n not in existing])
    if options.dry_run:
        yield from (_plan(inputs, number) for number in options.clients)
        return
    nets: dict[str, Net] = {}
    for number in options.clients:
        result = existing.get(number)
        if result is None:
            client = only or open_client(inputs, number)
            with holding(fill(options.output, number)):
                result = _train_or_find(inputs, client, nets, warnings)
        yield result


def _train_or_find(
    inputs: Inputs, client: Client, nets: dict[str, Net], warnings: list[str]
) -> Result:
    """Train a client, unless results exist of the files that an exchange has chosen.

    `warnings`: warnings about common inputs, which the journal keeps.
    """
    options, result = inputs.options, None
    if options.chooses:
        result = existing_result(inputs.start, client.number, client.provenance)
    output = fill(options.output, client.number)
    if result is None:
        with console.noted() as own:
            result = train_client(inputs, client, nets)
        checked = inputs.warnings[client.number]
        Journal(output).note_result(result[1], [*warnings, *checked, *own])
    ProgressFile(output, client.work).discard()
    return result


def train_client(inputs: Inputs, client: Client, nets: dict[str, Net]) -> Result:
    """Train a client; reuse `nets`, the nets of the previous client."""
    options = inputs.options
    nets["sent"], more = _net(inputs, client.tensors, nets.get("sent"))
    given: dict[str, Any] = {"received": client.received, "last": client.last}
    for exchange in inputs.active:
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
        save_last=any(each.file.direction == "sent" for each in options.written),
    )
    trained = Trained(job.learner, job.learner, last, last.losses)
    return write(inputs, client, trained)


def _jobs(
    inputs: Inputs, client: Client, job: Job, twin: Callable[[Tensors], Job]
) -> Job | Jobs:
    """The training of the sent model, or the trainings of an exchange."""
    made = [e.jobs(client, job, twin) for e in inputs.active]
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
    learner = make_learner(options, inputs.active, net, setup.architecture, settings)
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
