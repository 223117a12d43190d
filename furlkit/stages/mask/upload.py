"""mask upload: hide the numbers of an upload by masks that cancel in the sum."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.aggregators.masked_sum import BITS, FEWEST, MOST, add_mask, fixed_point
from furlkit.catalogue import rules
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.read import Tensors
from furlkit.files.facts import Provenance
from furlkit.files.keys import (
    PUBLIC,
    SECRET,
    Key,
    mask_words,
    point_of,
    public_of,
    read_key,
    roster_of,
)
from furlkit.files.lock import holding
from furlkit.files.masked import WEIGHT, ZERO_WORDS, ZEROS, MaskedFacts, write_masked
from furlkit.files.replaceable import check_same_output
from furlkit.files.signatures import CLIENT, check_received
from furlkit.inputs.bodies import check_statistic
from furlkit.inputs.declared import by_role
from furlkit.inputs.paths import check_output
from furlkit.inputs.publishing import is_site
from furlkit.inputs.settings import fill
from furlkit.inputs.uploads import check_added
from furlkit.stages.mask.used import Use, check_unused, note_use, used_of
from furlkit.weights import is_batchnorm_statistic

COMMAND = "mask upload"


@dataclass(frozen=True)
class MaskOptions:
    """The upload, the keys of all sites, and the secret key of this site."""

    upload: Path
    keys: tuple[Path, ...]
    secret: Path
    weights: str
    new_roster: bool
    signers: Path | None
    output: Path
    force: bool
    dry_run: bool


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check upload and keys, and write the masked upload."""
    options = fill(MaskOptions, values)
    used = used_of(options.secret)
    check_output(options.output, [options.upload, *options.keys, options.secret, used])
    secret, upload = read_key(options.secret, SECRET), _read_upload(options.upload)
    keys = _read_keys(options)
    _check_owner(secret, upload, keys)
    w, facts = _weight(options, upload), _facts(options, upload, keys)
    tensors = {**upload.tensors, WEIGHT: np.ones(1), ZEROS: np.zeros(ZERO_WORDS)}
    numbers = {k: _fixed(upload, k, x, w, facts.bits) for k, x in tensors.items()}
    about = (upload.content, facts.roster, facts.weights)
    use = Use(facts.round, facts.parent, *about)
    line = (
        f"{options.output}: masked model of client {facts.client} in round {facts.round} "
        f"for the sum of {len(keys)} sites with keys {facts.roster[:16]}"
    )
    data: dict[str, Any] = {"client": facts.client, "roster": facts.roster}
    # Of two commands at once, the second reads the list that the first has written.
    with nullcontext() if options.dry_run else holding(used):
        check_unused(secret, use, options.new_roster)
        if not options.force:
            check_same_output(options.output, "-o", "masked", vars(facts))
        if options.dry_run:
            return line, data
        how = Provenance(COMMAND, {"weights": options.weights}, inputs=_inputs(keys))
        masked = _masked(numbers, secret, keys, facts)  # Refuses broken keys.
        # Before the upload: after a crash, the masks count as used.
        note_use(secret, use)
        data["content"] = write_masked(options.output, masked, facts, how)
    return line, data


def _inputs(keys: Mapping[ClientId, Key]) -> dict[str, str]:
    """Public keys by role. The hash of the upload would confirm guessed images."""
    return by_role(COMMAND, keys=keys)


def _read_upload(path: Path) -> Checkpoint:
    upload = read_checkpoint(path)
    if upload.facts.role != "client" or upload.facts.parent is None:
        raise InputError(
            f"{path}: is a checkpoint of role {upload.facts.role}, expected an upload of "
            "local-train with a parent"
        )
    _check_summable(upload)
    return upload


def _check_summable(upload: Checkpoint) -> None:
    """Refuse an upload that aggregate --rule masked-sum cannot add."""
    path, layers = upload.path, upload.header.options.get("train-layers")
    if layers:
        raise InputError(
            f"{path}: has the layers {layers} of the encoder alone (local-train "
            "--train-layers), and a masked sum needs whole models; train without "
            "--train-layers, or send the upload without a mask"
        )
    check_added(path, upload.tensors, rules()["masked-sum"])
    for name, values in upload.tensors.items():
        if is_batchnorm_statistic(name):
            check_statistic(path, name, values)


def _read_keys(options: MaskOptions) -> dict[ClientId, Key]:
    """Public keys of all sites, in client order."""
    if not FEWEST <= len(options.keys) <= MOST:
        raise UsageError(
            f"KEY: {len(options.keys)} keys are given, expected {FEWEST} to {MOST}: the "
            "public key of every site, also of this site"
        )
    received = {}
    if options.signers:
        received = check_received(options.signers, [(p, CLIENT) for p in options.keys])
    keys: dict[ClientId, Key] = {}
    for path in options.keys:
        key = read_key(received.get(path, path), PUBLIC)
        for other in keys.values():
            same_key = point_of(key.key) == point_of(other.key)
            if key.facts.client == other.facts.client or same_key:
                raise InputError(
                    f"{path}: has the client or the key of {other.path}; give one key of "
                    "each site"
                )
        keys[key.facts.client] = key
    return {client: keys[client] for client in sorted(keys, key=client_order)}


def _check_owner(secret: Key, upload: Checkpoint, keys: Mapping[ClientId, Key]) -> None:
    """Check that secret key, upload and public keys are of one site and one run."""
    client, run_ = secret.facts.client, secret.facts.run
    if (upload.facts.client, upload.facts.run) != (client, run_):
        raise InputError(
            f"{upload.path}: is of client {upload.facts.client} in run "
            f"{upload.facts.run}, {secret.path} of client {client} in run {run_}"
        )
    for key in keys.values():
        if key.facts.run != run_:
            raise InputError(
                f"{key.path}: is a key for run {key.facts.run}, expected run {run_}; ask "
                f"client {key.facts.client} for a key of this run"
            )
    if client not in keys or keys[client].key != public_of(secret.key):
        where = keys[client].path if client in keys else "KEY"
        raise InputError(
            f"{where}: has no public key of {secret.path}; give the file that furlkit "
            "mask key wrote together with the secret key"
        )


def _weight(options: MaskOptions, upload: Checkpoint) -> int:
    if options.weights == "uniform":
        return 1
    if upload.facts.examples is None:
        raise InputError(
            f"{upload.path}: has no number of images (local-train --tell); give "
            "--weights uniform, at every site"
        )
    return upload.facts.examples


def _facts(
    options: MaskOptions, upload: Checkpoint, keys: Mapping[ClientId, Key]
) -> MaskedFacts:
    about, client = upload.facts, upload.facts.client
    run_, parent = about.run, about.parent
    if client is None or run_ is None or parent is None:
        raise InputError(f"{upload.path}: is no upload of a client in a run")
    if not options.signers:
        console.info(
            "the keys are not checked (--signers): compare the hash of the keys with "
            "the other sites; a server that replaces keys can remove the masks"
        )
    return MaskedFacts(
        client, about.round, run_, parent, [*keys],
        roster_of(run_, {name: key.key for name, key in keys.items()}),
        options.weights, BITS[options.weights],
        {name: array.dtype.name for name, array in upload.tensors.items()},
        about.parts, about.statistics, is_site(client, about.partition) or None,
    )  # fmt: skip


def _fixed(
    upload: Checkpoint, name: str, x: np.ndarray, w: int, bits: int
) -> np.ndarray:
    try:
        return fixed_point(x, w, bits)
    except OverflowError as error:
        raise InputError(
            f"{upload.path}: {name} has a number of size {error}; has the training "
            "diverged?"
        ) from error


def _masked(
    numbers: Tensors, secret: Key, keys: Mapping[ClientId, Key], facts: MaskedFacts
) -> Tensors:
    """Add the masks of every pair to the numbers, tensor by tensor in order of names."""
    own, masks = secret.facts.client, []
    for other, key in keys.items():
        if other != own:
            pair = sorted((own, other), key=client_order)
            about = [facts.run, facts.round, facts.parent, facts.roster, pair]
            masks.append((pair[0] == own, mask_words(secret.key, key, about)))
    for name in sorted(numbers):
        y = numbers[name]
        for first, words in masks:
            add_mask(y, words(y.size).reshape(y.shape), first)
    return numbers
