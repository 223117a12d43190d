"""A client at the start of a round: images, files, and the model before training."""

from contextlib import suppress
from dataclasses import replace
from glob import escape
from pathlib import Path

from furlkit import catalogue, console
from furlkit.errors import FurlkitError
from furlkit.exchanges.draws import begin_draws, check_draws
from furlkit.exchanges.exchange import Client
from furlkit.files.clients import ClientId
from furlkit.files.facts import Provenance, open_facts
from furlkit.files.private import Private, PrivateFacts, read_private
from furlkit.inputs import matching
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import of_these_images
from furlkit.models.architecture import build
from furlkit.models.loading import check_tensors, tensors_of
from furlkit.randomness import torch_generator
from furlkit.stages.local_train.inputs import Inputs
from furlkit.stages.local_train.start import drawn_files, provenance_of
from furlkit.training.loop import Purpose
from furlkit.updates.decision import Decision
from furlkit.weights import Tensors, below, divide, parts_of

KEPT_BYTES = 2**28  # Private files that stay in memory between check and training.


def check_clients(inputs: Inputs, clients: list[ClientId]) -> Client | None:
    """Open and check every client before the first training.

    Return the client of a command with a single client. Several clients are made again
    before training, because memory holds the model of a single client at a time; only
    private files beyond KEPT_BYTES are read again.
    """
    options, setup, kept = inputs.options, inputs.setup, 0
    for number in clients:
        with console.noted() as inputs.warnings[number]:
            client = open_client(inputs, number)
            _warn_of_forgotten_file(inputs, number)
            if client.private:
                used = bool(options.update.sends)
                matching.check_private(client.private, setup.model, used)
            for exchange in inputs.active:
                exchange.check(client)
        if client.private and len(clients) > 1:
            kept += client.private.nbytes
            if kept <= KEPT_BYTES:
                inputs.private[number] = client.private
    return client if len(clients) == 1 else None


def _warn_of_forgotten_file(inputs: Inputs, number: ClientId) -> None:
    """Warn if --private is missing beside a private file of an earlier round.

    Recipes have a folder for each round, with equal names of files.
    """
    options, round_ = inputs.options, inputs.setup.round
    if options.private or not options.private_out or round_ < 2:
        return
    output = fill(options.private_out, number).absolute()
    earlier: list[tuple[int, Path]] = []
    for path in output.parent.parent.glob(f"*/{escape(output.name)}"):
        with suppress(FurlkitError):
            opened, facts = open_facts(path, "private", PrivateFacts)
            same_run = opened.header.seed == options.seed
            if same_run and facts.client == number and facts.round < round_:
                earlier.append((facts.round, path))
    if earlier:
        last, path = max(earlier)
        console.warn(
            f"client {number}: starts without {path}, the client's private file of round "
            f"{last}; give --private, or what the client has kept is lost"
        )


def open_client(inputs: Inputs, number: ClientId) -> Client:
    """Read the client's private file; the update computes the weights before training."""
    options, setup = inputs.options, inputs.setup
    index = setup.index_of(number)
    matching.check_size(str(options.partition or setup.images.name), number, index)
    private = inputs.private.pop(number, None)
    if options.private and private is None:
        private = read_private(fill(options.private, number), number)
        private = of_these_images(private, setup.images)
    kept, carried = _divided(inputs, private)
    received, last = _start(inputs, number, kept), _last(inputs, private)
    memory = dict(private.memory) if private else {}
    update = catalogue.load(options.update.function)
    start = update(received, last or None, memory, **options.update_settings)
    tensors, memory, decision = start
    empty = Provenance("local-train")
    client = Client(
        number=number,
        index=index,
        private=private,
        purpose=_purpose(inputs, number),
        received=received,
        tensors=tensors,
        last=last,
        memory=memory,
        carried=carried,
        decision=decision or _kept_heads(inputs),
        provenance=empty,
        work=empty,
    )
    for exchange in inputs.active:
        exchange.start(client)
    provenance = _provenance(inputs, number, private)
    work = inputs.start.work(provenance)
    return replace(client, provenance=provenance, work=work)


def _purpose(inputs: Inputs, number: ClientId) -> Purpose:
    """Purpose of the client's random draws."""
    purpose = (inputs.options.seed, "local-train", inputs.setup.round, number)
    # Other draws than in the first training of the round.
    return (*purpose, "continue") if inputs.options.update.continues else purpose


def _last(inputs: Inputs, private: Private | None) -> Tensors:
    """The client's weights after the last round, for the present parts of the net."""
    last, net = below("last.", private.tensors) if private else {}, inputs.setup.net
    known = {name: last[name] for name in last.keys() & net.keys()}
    if private:
        check_tensors(private.path, net, known, "this training")
    return known


def _kept_heads(inputs: Inputs) -> Decision | None:
    """Record whether the heads are the client's, if only some rounds exchange heads."""
    if not inputs.options.update.sends:
        return None
    given = parts_of(inputs.setup.model.tensors)
    heads = inputs.setup.architecture.heads
    return Decision(0.0 if all(head in given for head in heads) else 1.0)


def _divided(inputs: Inputs, private: Private | None) -> tuple[Tensors, Tensors]:
    """Divide a private file into tensors for training and carried tensors.

    Active exchanges read their tensors; parts of inactive exchanges are carried.
    """
    if private is None:
        return {}, {}
    setup = inputs.setup
    parts = [part for e in inputs.exchanges.values() for part in e.carried]
    mine = {k: v for k, v in private.tensors.items() if not k.startswith("last.")}
    found = divide(mine, parts)[0].items()
    carried = {k: v for k, v in found if k not in setup.learner}
    theirs = {k: v for e in inputs.active for k, v in e.own_tensors(setup).items()}
    kept = {k: v for k, v in mine.items() if k not in carried}
    expected = {**setup.learner, **theirs}
    check_tensors(private.path, expected, kept, "this training")
    return {k: v for k, v in kept.items() if k not in theirs}, carried


def _start(inputs: Inputs, number: ClientId, kept: Tensors) -> Tensors:
    """The global model, completed by parts of the private file.

    Missing parts (a head that clients do not send, BatchNorm statistics in a client's
    first round) are drawn from seed and client. A head for later averaging is drawn like
    in init, equally for every client.
    """
    setup, options = inputs.setup, inputs.options
    start = {**kept, **setup.model.tensors}
    if lacking := [name for name in setup.net if name not in start]:
        averaged = bool(options.update.sends)
        purpose = ("init",) if averaged else ("new parts", number)
        rng = torch_generator(options.seed, *purpose)
        new = tensors_of(build(setup.architecture, rng))
        start |= {name: new[name] for name in lacking}
    for exchange in inputs.active:
        start |= exchange.new_parts(number, start)
    return start


def _provenance(
    inputs: Inputs, number: ClientId, private: Private | None
) -> Provenance:
    known = {private.path: private.content} if private else {}
    prepare = check_draws if inputs.options.dry_run else begin_draws
    prepare(inputs.options.values, number, drawn_files(inputs.start, number))
    provenance = provenance_of(inputs.start, number, known)
    chosen = {k: v for e in inputs.active for k, v in e.contents().items()}
    return replace(provenance, inputs={**provenance.inputs, **chosen})
