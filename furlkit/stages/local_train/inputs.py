"""The net, the learner and the exchanges, common to the clients."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import nn

from furlkit import catalogue, runtime
from furlkit.errors import UsageError
from furlkit.exchanges.exchange import Exchange, Setup, make_exchanges
from furlkit.files.clients import ClientId
from furlkit.files.private import Private
from furlkit.models.architecture import build
from furlkit.models.description import Architecture
from furlkit.models.loading import check_parts, check_tensors
from furlkit.stages.local_train.options import LocalTrainOptions
from furlkit.stages.local_train.start import Start
from furlkit.training.learners import learner_of
from furlkit.weights import PRIVATE, parts_of, within


class Inputs(NamedTuple):
    """The opened files, the exchanges, and the parts of the model that leave the client.

    Of these parts the client keeps the tensors in `kept`; the tensors in `unsent` are
    neither sent nor kept, because they stay as received. `private` has files that were
    read to check the clients, until the clients train. `warnings`: of the checks.
    """

    start: Start
    setup: Setup
    exchanges: dict[str, Exchange]
    kept: set[str]
    unsent: set[str]
    private: dict[ClientId, Private]
    warnings: dict[ClientId, list[str]]
    sent: tuple[str, ...] = ()

    @property
    def options(self) -> LocalTrainOptions:
        """Options of the command."""
        return self.start.options

    @property
    def active(self) -> list[Exchange]:
        """Exchanges in use by this command."""
        return [exchange for exchange in self.exchanges.values() if exchange.active]


def open_inputs(start: Start) -> Inputs:
    """Make the exchanges, and check the files of all clients against the net."""
    options, model = start.options, start.model
    exchanges = make_exchanges(options.values)
    device = runtime.start(options.runtime)
    net = build(start.architecture, None)
    active = [exchange for exchange in exchanges.values() if exchange.active]
    learner = make_learner(options, active, net, start.architecture, options.settings)
    setup = Setup(
        partition=start.partition,
        model=model,
        architecture=start.architecture,
        images=start.images,
        net=net.state_dict(),
        learner={k.removeprefix("net."): v for k, v in learner.state_dict().items()},
        clients=options.clients,
        round=start.round,
        parent=model.facts.parent if options.update.continues else model.content,
        plan=start.plan,
        seed=options.seed,
        tell=options.tell,
        device=device,
        channels_last=options.execution.channels_last,
        received=start.received,
    )
    kept = {k for exchange in active for k in exchange.kept_tensors(setup)}
    unsent = {k for exchange in active for k in exchange.unsent_tensors(setup)}
    inputs = Inputs(start, setup, exchanges, kept, unsent, {}, {})
    check_tensors(model.path, setup.learner, model.tensors)
    check_parts(model, setup.net.keys() - kept)
    _check_phases(inputs)
    inputs = inputs._replace(sent=_sent_parts(inputs))
    for exchange in active:
        exchange.open(setup)
    return inputs


def make_learner(
    options: LocalTrainOptions,
    active: Iterable[Exchange],
    net: nn.Module,
    architecture: Architecture,
    settings: dict,
) -> Any:
    """The learner of the objective, with the modules of exchanges."""
    learner = learner_of(options.objective, net, settings)
    for exchange in active:
        exchange.extend(learner, architecture)
    return learner


def _sent_parts(inputs: Inputs) -> tuple[str, ...]:
    """Parts to send in a round; raise for unknown parts."""
    options, setup = inputs.options, inputs.setup
    net, round_ = ("encoder", *setup.architecture.heads), setup.model.facts.round + 1
    more = [part for exchange in inputs.active for part in exchange.sends]
    sent = options.send or (*net, *options.objective.sends, *more)
    known = [part for part in parts_of(setup.learner) if not within(part, PRIVATE)]
    _check_parts("--send", sent, known)
    kept = [part for part in net if not within(part, sent)]
    if kept and not options.private_out:
        raise UsageError(
            f"--send {','.join(sent)}: the {' and '.join(kept)} would be lost; "
            "give --private-out, the file for parts that stay at the client"
        )
    if options.update.sends:
        choose = catalogue.load(options.update.sends)
        return choose(sent, round_, **options.update_settings)
    return sent


def _check_phases(inputs: Inputs) -> None:
    """Check the parts of --phases."""
    options, objective = inputs.options, inputs.options.objective
    trained = ["encoder", *objective.head_names]
    trained += [part for exchange in inputs.active for part in exchange.trains]
    for phase in options.plan.phases:
        _check_parts("--phases", phase.parts, trained)


def _check_parts(flag: str, parts: Iterable[str], known: list[str]) -> None:
    for part in parts:
        if not any(within(own, [part]) for own in known):
            raise UsageError(f"{flag} {part}: expected parts of {', '.join(known)}")
