"""audit rows: recognise a client's images by the rows that the client shares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.catalogue import recorded
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.secret import SECRET
from furlkit.inputs.candidates import Candidates, others_source, without_copies
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.row_images import RowImages, limited, open_row_images
from furlkit.inputs.settings import fill
from furlkit.reports.document import describe_checkpoint
from furlkit.stages.audit import AuditOptions, conclude, draw, work_of


@dataclass(frozen=True, kw_only=True)
class RowsOptions(AuditOptions):
    """`candidates` has the client's images; `others`: None for other clients' images."""

    rows: Path
    model: Path
    candidates: Source
    others: Source | None
    partition: Path | None
    secret: Path | None
    k: int


def run(values: dict[str, Any]) -> Result:
    """Compare distances to the nearest row of the client's images and of others."""
    options = _options(values)
    names = [s.name for s in (options.candidates, options.others) if s]
    inputs = [options.rows, options.model, options.partition, options.secret, *names]
    check_output(options.output, inputs)
    model = read_checkpoint(options.model)
    images = open_images(options.candidates, model)
    paths = options.partition, options.secret
    found = open_row_images(options.rows, model, images, *paths)
    places = draw(np.arange(len(found.index)), options.images, options.seed, "rows")
    found = limited(found, places)
    members = Candidates(images, found.index)
    others = _others(options, found, members, model)
    if len(others) < options.k - 1:
        raise UsageError(
            f"--k {options.k}: needs {options.k - 1} images that the client does not "
            f"have, found {len(others)}; lower --k or give --others"
        )
    data = {"candidates": images.fingerprint}
    if options.others:
        data["others"] = others.images.fingerprint
    origins = {
        "protocol": "rows",
        "attacker": describe_knowledge(model, found),
        "n": {"members": len(members), "others": len(others)},
        "k": options.k,
        "checkpoint": describe_checkpoint(model),
        "rows": describe_rows(found),
        "data": data,
        "inputs": {
            **by_role("audit rows", rows=found.rows, model=model),
            **found.partition,
        },
    }

    return conclude(
        options,
        origins,
        lambda: work_of("rows").attack(
            options, model, found.rows, members, others, found.noise
        ),
    )


def _options(values: dict[str, Any]) -> RowsOptions:
    known = recorded("audit rows", values)
    place = {key: values.pop(key) for key in ("data_root", "download", "cache")}
    given, data = values["others"], values["candidates"]
    if given is None and values["partition"]:
        values["others"] = None
    else:
        values["others"] = others_source(data, given, place, "candidates")
    values["candidates"] = Source(data, **place)
    return fill(RowsOptions, {**values, "recorded": known})


def _others(
    options: RowsOptions, found: RowImages, members: Candidates, model: Checkpoint
) -> Candidates:
    if options.others is None:
        index = draw(found.others, options.images, options.seed, "others")
        return Candidates(members.images, index)
    kept = without_copies(members, open_images(options.others, model))
    index = draw(kept.index, options.images, options.seed, "others")
    return Candidates(kept.images, index)


def describe_knowledge(model: Checkpoint, found: RowImages) -> str:
    """Knowledge of an attacker with rows and a model, in words."""
    facts, client = model.facts, found.rows.facts.client
    whose = "another model"
    if facts.role == "global":
        whose = f"the global model of round {facts.round}, like every client"
    elif found.by_own_model:
        whose = "the client's model, like the server"
    elif facts.role == "client":
        owner = "the client" if facts.client == client else f"client {facts.client}"
        whose = f"another model: of {owner} after round {facts.round}"
    return f"the attacker has the rows, candidate images and {whose}"


def describe_rows(found: RowImages) -> dict[str, Any]:
    """Client, round and kind of the attacked rows."""
    facts = found.rows.facts
    drawn_by = {"drawn_by": SECRET} if found.by_secret else {}
    confirmed = {"secret_confirmed": True} if found.confirmed else {}
    confirmed |= {"images_confirmed": True} if found.images_confirmed else {}
    return {
        **drawn_by,
        **confirmed,
        "client": facts.client,
        "round": facts.round,
        "share_rows": facts.share_rows or "averaged",
        "content": found.rows.content,
    }
