"""A client at the start of a round: what it was given, what it kept, what is new."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from furlkit import catalogue, console
from furlkit.data.augment.instahide import K as MIXED
from furlkit.errors import InputError, UsageError
from furlkit.files.clients import ClientId
from furlkit.files.facts import Provenance
from furlkit.files.neighbours import Neighbours
from furlkit.files.private import Private, read_private
from furlkit.inputs import matching
from furlkit.inputs.dictionary import averaged_features, rows_of_others
from furlkit.inputs.kept import kept_rows
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.neighbours import MEMORY as NEIGHBOURS
from furlkit.inputs.neighbours import (
    NEAREST,
    ROUND,
    kept_neighbours,
    open_neighbours,
    remembered_neighbours,
)
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import images_hash, of_these_images
from furlkit.inputs.style import style_encoder
from furlkit.models.architecture import build, drawn
from furlkit.models.loading import check_tensors, tensors_of, z_width
from furlkit.models.style import empty_generator
from furlkit.randomness import torch_generator
from furlkit.stages.local_train.helpers import Candidate
from furlkit.stages.local_train.inputs import Inputs
from furlkit.stages.local_train.options import Mining, Options, Sharing
from furlkit.updates.decision import Decision
from furlkit.weights import OWN, STYLE, Tensors, below, divide, parts_of


@dataclass(frozen=True)
class Client:
    """A client at the start of a round.

    `received` is the global model, completed by what the client has kept; `tensors` is
    what the update makes of it, the model that training starts from: the parts of the
    net, and whatever else the learner carries. `own` is the same for the model that the
    client trains for itself, if it does. `memory` is what methods remember, and `kept`
    the rows of its images among it that the objective wants back; `decision` is what the
    update decided, for the journal, and `helpers` are other clients whose models help.
    `carried` are tensors of the private file that this training leaves as they are, and
    `style` is the encoder of the client's style model, where it is needed. `work` is the
    provenance of what stays at the client: a site's names its images too.
    """

    number: ClientId
    index: np.ndarray
    private: Private | None
    received: Tensors
    tensors: Tensors
    own: Tensors
    memory: Tensors
    kept: Tensors
    decision: Decision | None
    carried: Tensors
    style: Tensors
    negatives: np.ndarray | None
    helpers: dict[ClientId, Candidate]
    provenance: Provenance
    work: Provenance


def check_clients(inputs: Inputs) -> None:
    """Open every client once, so that nothing is trained if one of them does not fit."""
    options, model = inputs.options, inputs.model
    for number in options.clients:
        client = open_client(inputs, number)
        if client.private:
            used = bool(options.update.sends)
            matching.check_private(client.private, model, used)
        if options.sharing.features_out or options.sharing.own_rows:
            averaged_features(client.private, client.index, z_width(model))
        _check_mixtures(options.sharing, client)
        if options.mining:
            _check_nearest(options.mining, client)
    source = str(options.partition or inputs.images.name)
    sizes = {number: len(inputs.index_of(number)) for number in options.clients}
    matching.check_batches(source, sizes, options.plan.batch_size)
    _check_statistics(inputs)
    if options.sharing.features_out and "examples" not in options.tell:
        _check_rows_tell_nothing(inputs, sizes)


def _check_rows_tell_nothing(inputs: Inputs, sizes: dict[ClientId, int]) -> None:
    """Warn of a client with a row for every image: their number is then no secret."""
    path, most = inputs.options.sharing.features_out, inputs.rows_shared
    for number, images in sizes.items():
        if images <= most:
            console.warn(
                f"--features-out {path}: has a row for each of the {images:,} images of "
                f"client {number}, and so tells their number, which --tell leaves out; "
                "share fewer with a smaller --dictionary-size"
            )


def _check_statistics(inputs: Inputs) -> None:
    sharing = inputs.options.sharing
    alone = bool(sharing.features_out) and inputs.rows_shared < 2
    if alone and sharing.rows_statistics == "batch":
        raise UsageError(
            f"--rows-statistics batch: a client shares {inputs.rows_shared} row, and one "
            "row has no statistics; raise --dictionary-size"
        )


def open_client(inputs: Inputs, number: ClientId) -> Client:
    """What one client starts the round with; its private file is read here."""
    options = inputs.options
    source = options.partition or inputs.images.name
    matching.check_size(str(source), number, inputs.index_of(number))
    private = None
    if options.private:
        private = read_private(fill(options.private, number), number)
        private = of_these_images(private, inputs.images)
    mine, carried = _divided(inputs, private)
    received = _start(inputs, number, mine)
    update, last = catalogue.load(options.update.function), _last(inputs, private)
    memory = dict(private.memory) if private else {}
    start = update(received, last or None, memory, **options.update_settings)
    tensors, memory, decision = start
    index, near = inputs.index_of(number), _neighbours(inputs, number)
    if options.mining:
        memory = {k: v for k, v in memory.items() if k not in NEIGHBOURS}
        memory |= _known_neighbours(inputs, options.mining, index, near or private)
    helpers = _helpers(inputs, number)
    provenance = _provenance(inputs, number, private, near, helpers)
    return Client(
        number=number,
        index=index,
        private=private,
        received=received,
        tensors=tensors,
        own=_own_start(options, received, private),
        memory=memory,
        kept=_kept_rows(inputs, number, private),
        decision=decision or _kept_heads(inputs),
        carried=carried,
        style=_style(inputs, private),
        negatives=_negatives(inputs, number),
        helpers=helpers,
        provenance=provenance,
        work=_work(inputs, provenance),
    )


def _last(inputs: Inputs, private: Private | None) -> Tensors:
    """The client's weights after its last round, of the parts that the net still has."""
    last = below("last.", private.tensors) if private else {}
    known = {name: last[name] for name in last.keys() & inputs.expected.net.keys()}
    if private:
        check_tensors(private.path, inputs.expected.net, known, "this training")
    return known


def _kept_heads(inputs: Inputs) -> Decision | None:
    """Where heads travel in some rounds only: whether they are the client's own."""
    if not inputs.options.update.sends:
        return None
    given = parts_of(inputs.model.tensors)
    heads = inputs.architecture.heads
    return Decision(0.0 if all(head in given for head in heads) else 1.0)


def _divided(inputs: Inputs, private: Private | None) -> tuple[Tensors, Tensors]:
    """What the training takes of a private file, and what passes it by.

    A client keeps its style also in rounds that do not infuse it. Its own model is read
    elsewhere.
    """
    if private is None:
        return {}, {}
    known = inputs.expected.all
    own = {OWN + k: v for k, v in known.items()} if inputs.options.has_own_model else {}
    mine = {k: v for k, v in private.tensors.items() if not k.startswith("last.")}
    style = {k: v for k, v in divide(mine, STYLE)[0].items() if k not in known}
    kept = {k: v for k, v in mine.items() if k not in style}
    check_tensors(private.path, {**known, **own}, kept, "this training")
    return {k: v for k, v in kept.items() if not k.startswith(OWN)}, style


def _style(inputs: Inputs, private: Private | None) -> Tensors:
    if private is None or not inputs.options.infuses:
        return {}
    return style_encoder(private, inputs.model)


def _start(inputs: Inputs, number: ClientId, kept: Tensors) -> Tensors:
    """The global model, completed by what the client kept.

    What nobody has (a head that other clients kept to themselves, BatchNorm statistics
    in a client's first round, its generator) is drawn from the seed, for each client. A
    head that will be averaged later is the one that init drew.
    """
    start, seed = {**kept, **inputs.model.tensors}, inputs.options.seed
    if lacking := [name for name in inputs.expected.net if name not in start]:
        averaged = bool(inputs.options.update.sends)
        purpose = ("init",) if averaged else ("new parts", number)
        new = tensors_of(build(inputs.architecture, torch_generator(seed, *purpose)))
        start |= {name: new[name] for name in lacking}
    if inputs.options.infuses and "generator" not in parts_of(start):
        rng = torch_generator(seed, "generator", number)
        new = tensors_of(drawn(empty_generator(inputs.architecture.feature_dim), rng))
        start |= {f"generator.{name}": array for name, array in new.items()}
    return start


def _own_start(options: Options, received: Tensors, private: Private | None) -> Tensors:
    """What the client's own model goes on from; at first it is the received model."""
    if not options.has_own_model:
        return {}
    return {**received, **(below(OWN, private.tensors) if private else {})}


def _kept_rows(inputs: Inputs, number: ClientId, private: Private | None) -> Tensors:
    """The rows of its images that the objective wants back, by its name for them."""
    what = inputs.options.objective.keeps
    if not what:
        return {}
    width = inputs.architecture.heads["projector"][-1]
    return {what: kept_rows(private, what, inputs.index_of(number), width)}


def _neighbours(inputs: Inputs, number: ClientId) -> Neighbours | None:
    """The file of neighbours that the client was given."""
    mining, index = inputs.options.mining, inputs.index_of(number)
    if mining is None or not mining.neighbours_from:
        return None
    path = fill(mining.neighbours_from, number)
    known = index, inputs.images, mining.nearest
    return open_neighbours(path, number, *known, site=inputs.partition is None)


def _known_neighbours(
    inputs: Inputs,
    mining: Mining,
    index: np.ndarray,
    found: Neighbours | Private | None,
) -> Tensors:
    """Neighbours that need not be mined, as memory: given, or kept and not too old."""
    if isinstance(found, Neighbours):
        return remembered_neighbours(found.nearest, found.index, inputs.round)
    kept = kept_neighbours(found, index)
    if not kept or kept[NEAREST].shape[1] != min(mining.nearest, len(index) - 1):
        return {}
    age = inputs.round - int(kept[ROUND])
    return {} if mining.mine_every and age >= mining.mine_every else kept


def _check_mixtures(sharing: Sharing, client: Client) -> None:
    if sharing.mixes and len(client.index) < MIXED:
        raise InputError(
            f"client {client.number} has {len(client.index)} images; --share-rows "
            f"{sharing.share_rows} mixes {MIXED}; use --share-rows plain"
        )


def _check_nearest(mining: Mining, client: Client) -> None:
    others = len(client.index) - 1
    if mining.nearest > others:
        console.warn(
            f"--nearest {mining.nearest}: is more than the {others:,} others that an "
            f"image of client {client.number} has; each is a neighbour of all of them, "
            "so that all are drawn into one cluster; lower it"
        )


def _negatives(inputs: Inputs, number: ClientId) -> np.ndarray | None:
    """The rows of the dictionary that are negatives for the client's images."""
    dictionary = inputs.dictionaries.get(number)
    if dictionary is None or inputs.options.sharing.negatives == "local":
        return None
    if inputs.options.sharing.leave_own_out:
        return rows_of_others(dictionary, number)
    return dictionary.rows


def _helpers(inputs: Inputs, number: ClientId) -> dict[ClientId, Candidate]:
    """The other clients that help one."""
    if inputs.candidates is None or inputs.options.helpers is None:
        return {}
    return inputs.candidates.nearest(number, inputs.options.helpers.helper_count)


def _work(inputs: Inputs, provenance: Provenance) -> Provenance:
    if inputs.partition:
        return provenance
    data = {"data": images_hash(inputs.images)}
    return replace(provenance, inputs={**provenance.inputs, **data})


def _provenance(
    inputs: Inputs,
    number: ClientId,
    private: Private | None,
    near: Neighbours | None,
    helpers: dict[ClientId, Candidate],
) -> Provenance:
    dictionary = inputs.dictionaries.get(number)
    files: dict[str, Any] = {
        "global": inputs.model,
        "partition": inputs.partition,
        "private": private,
        "neighbours": near,
        "dictionary": dictionary,
        "targets": inputs.align and inputs.align[0],
        **{f"helper {client}": helper for client, helper in helpers.items()},
    }
    contents = {role: file.content for role, file in files.items() if file}
    options = inputs.options
    resolved = {**options.resolved, **encoder_plugin(inputs.model)}
    if not dictionary:  # A recipe may give the flag in the first round too.
        for name in ("leave-own-out", "negatives", "dictionary-positive"):
            resolved.pop(name, None)
        if not options.sharing.features_out:
            resolved.pop("dictionary-from", None)
    if inputs.plan.schedule_rounds > 1:
        resolved["first-round"] = inputs.plan.first_round
    if options.sharing.features_out:
        resolved["rows"] = inputs.rows_shared
    return Provenance("local-train", resolved, options.seed, contents)
