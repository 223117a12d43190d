"""aggregate --rule masked-sum: the mean of models that the server sees only as a sum."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.aggregators.masked_sum import sum_of
from furlkit.catalogue import load, rules
from furlkit.errors import InputError, TooEarlyError, UsageError
from furlkit.files.checkpoint import CheckpointFacts, check_finite, open_checkpoint
from furlkit.files.clients import client_order
from furlkit.files.container.header import canonical
from furlkit.files.container.layout import Entry, place
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.write import Blocks, write
from furlkit.files.masked import WEIGHT, ZEROS, model_entries, open_masked
from furlkit.inputs.bodies import check_statistic
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.parent import check_tensors
from furlkit.inputs.uploads import (
    ROUND,
    Sent,
    UploadOptions,
    check_added,
    check_same,
    check_same_facts,
    provenance_of,
)
from furlkit.stages.aggregate.privacy import check_release
from furlkit.weights import is_batchnorm_statistic

AGAIN = "all sites must mask with the same keys and --weights: furlkit mask upload"
VOID = (
    "the training of a site failed, or a site cheats: the masks hide which site; the "
    "round is void"
)


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check that all sites are present, then add the masked numbers."""
    if values["parent"] is None:
        raise UsageError(
            f"--rule {values['rule']}: give the global model of the clients' round, "
            "--parent CHECKPOINT"
        )
    options, sites = open_uploads(values, KIND)
    _check_all_present(sites)
    parent = _open_parent(values["parent"], sites[0])
    console.info(
        "masked uploads cannot be checked one by one: no robust rule, report or "
        "comparison of clients; a single site can shift the result"
    )
    facts = _facts(parent, sites[0].facts)
    line = (
        f"{options.output}: round {facts.round}, masked sum of {len(sites)} sites, "
        f"weights {sites[0].facts.weights}"
    )
    data: dict[str, Any] = {"round": facts.round, "clients": len(sites)}
    if options.dry_run:
        return line, data
    provenance = provenance_of(options, sites)
    inputs = {**provenance.inputs, **by_role("aggregate", parent=parent)}
    provenance = replace(provenance, inputs=inputs)
    if made := existing_result(options, "checkpoint", provenance, facts, data):
        return made
    check_release(options, facts)
    with Lockstep([site.opened for site in sites]) as files:
        weight = _weight(files, sites)
        if sites[0].facts.weights == "examples":
            facts = replace(facts, examples=weight)
        tensors = _tensors(options, files, sites, weight)
        header = provenance.header("checkpoint", facts)
        data["content"] = write(options.output, tensors, header)
    return line, data


def _check_all_present(sites: list[Sent]) -> None:
    """A missing site voids the round: the masks of the site do not cancel."""
    expected = sites[0].facts.clients if sites else []
    missing = {*expected} - {site.facts.client for site in sites}
    if missing:
        names = ", ".join(str(name) for name in sorted(missing, key=client_order))
        raise TooEarlyError(
            f"no masked upload of {names}: {len(sites)} of {len(expected)} sites have "
            "reported, and a masked sum needs all. The round is void without the site: run "
            "this command again after the upload. A second sum of this round without the "
            "site could reveal the site's model"
        )


def _open_parent(path: Path, site: Sent) -> Sent:
    """Open the model of --parent and compare names, shapes and types of the tensors."""
    opened, facts = open_checkpoint(path)
    parent = Sent(opened.path, opened.content, opened, facts)
    entries = model_entries(site.opened, site.facts)
    check_tensors(site.path, entries, parent, partial=False)
    return parent


def _facts(parent: Sent, masked: Any) -> CheckpointFacts:
    """Facts of the result: the model's from the parent, none of a single site."""
    about = {"parent": parent.content, "parts": masked.parts}
    unknown: dict[str, Any] = dict.fromkeys(
        ("client", "examples", "classes", "partition", "loss", "state")
    )
    unknown |= {"cluster_head": None, "cluster_losses": None}
    unknown |= {"privacy": None, "next_clip": None}
    return replace(
        parent.facts, role="global", round=masked.round, statistics=masked.statistics,
        **about, **unknown,
    )  # fmt: skip


def _weight(files: Lockstep, sites: list[Sent]) -> int:
    """Sum of the weights, after the sum of the zeros has shown that the masks cancel."""
    opened, masked = sites[0].opened, sites[0].facts
    words = [*files.combine(opened.entry(ZEROS), sum_of)]
    if np.any(np.concatenate(words)):
        raise InputError(_uncancelled(sites))
    (weights,) = files.combine(opened.entry(WEIGHT), sum_of)
    weight = int(weights[0]) >> masked.bits
    if weight < len(sites) or (masked.weights == "uniform" and weight > len(sites)):
        raise InputError(
            f"{sites[0].path}: the sum of the weights of {len(sites)} sites is {weight}; "
            f"{AGAIN}"
        )
    return weight


def _uncancelled(sites: list[Sent]) -> str:
    names = ", ".join(str(site.facts.client) for site in sites)
    return (
        f"{sites[0].path}: the masks of {names} do not cancel: a site used another "
        f"secret key, or numbers of another round; {AGAIN}"
    )


def _tensors(
    options: UploadOptions, files: Lockstep, sites: list[Sent], weight: int
) -> dict[str, Blocks]:
    """Tensors to write; the last tensor compares the checksums of the uploads."""
    first, masked = sites[0].opened, sites[0].facts
    function: Callable[..., np.ndarray] = load(rules()[options.rule].function)
    entries = place(model_entries(first, masked))

    def pieces(entry: Entry) -> Iterator[np.ndarray]:
        how = (len(sites), weight, masked.bits, entry.dtype)
        try:
            for piece in files.combine(
                first.entry(entry.name), lambda column: function(column, *how)
            ):
                check_finite(options.output, entry.name, piece)
                if is_batchnorm_statistic(entry.name):
                    check_statistic(options.output, entry.name, piece, VOID)
                yield piece
        except OverflowError as error:
            raise InputError(_uncancelled(sites)) from error
        if entry.name == entries[-1].name:
            files.finish()

    return {e.name: Blocks(e.dtype, e.shape, pieces(e)) for e in entries}


def _open(path: Path) -> Sent:
    opened, facts = open_masked(path)
    check_added(path, facts.types, rules()["masked-sum"])
    return Sent(opened.path, opened.content, opened, facts)


def _examined(sent: Sent, by: str | None, remember: bool) -> Sent:
    for _ in sent.opened.verified_pieces(by, remember):
        pass
    return sent


def _check_together(sites: list[Sent]) -> None:
    check_same_facts(sites, ROUND)
    again = dict.fromkeys(("roster", "weights", "bits", "statistics"), AGAIN)
    check_same_facts(sites, again)
    for name in ("clients", "types", "parts"):
        values = [canonical(getattr(site.facts, name)) for site in sites]
        check_same(sites, name, values, AGAIN)
    shapes = [tuple(entry.shape for entry in site.opened.entries) for site in sites]
    check_same(sites, "list of shapes", shapes, AGAIN)


KIND = Kind(("masked",), _open, _examined, _check_together)
