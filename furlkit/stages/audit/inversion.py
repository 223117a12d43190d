"""audit inversion: reconstruct images from rows by a decoder of public images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.catalogue import recorded
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs.candidates import Candidates, without_copies
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.row_images import limited, open_row_images
from furlkit.inputs.settings import fill
from furlkit.reports.document import describe_checkpoint
from furlkit.reports.figures import check_format
from furlkit.stages.audit import AuditOptions, conclude, draw, work_of
from furlkit.stages.audit.rows import describe_knowledge, describe_rows


@dataclass(frozen=True, kw_only=True)
class InversionOptions(AuditOptions):
    """`public_images`: largest number of images for the decoder's training."""

    rows: Path
    model: Path
    public: Source
    candidates: Source
    partition: Path | None
    secret: Path | None
    sheet: Path | None
    epochs: int
    lr: float
    k: int
    public_images: int


def run(values: dict[str, Any]) -> Result:
    """Train a decoder on public images, and compare reconstructions with originals."""
    options = _options(values)
    sources = [options.public.name, options.candidates.name]
    files = options.rows, options.model, options.partition, options.secret
    inputs = [*files, *sources]
    check_output(options.output, inputs)
    if options.sheet:
        check_output(options.sheet, [*inputs, options.output], "--sheet")
        check_format(options.sheet, "--sheet", "audit inversion --sheet")
    model = read_checkpoint(options.model)
    images, public = (
        open_images(source, model) for source in (options.candidates, options.public)
    )
    paths = options.partition, options.secret
    found = open_row_images(options.rows, model, images, *paths)
    places = draw(np.arange(len(found.index)), options.images, options.seed, "rows")
    found = limited(found, places)
    if len(found.index) < options.k:
        raise UsageError(
            f"--k {options.k}: there are {len(found.index)} rows with originals; lower "
            "--k"
        )
    fresh = without_copies(Candidates(images, found.index), public).index
    learned = draw(fresh, options.public_images, options.seed, "public")
    if len(learned) < 2:
        raise InputError(f"{public.name}: has {len(learned)} image, expected more")
    origins = {
        "protocol": "inversion",
        "attacker": f"{describe_knowledge(model, found)}, and public images to train a "
        "decoder",
        "n": {"rows": len(found.index), "public_images": len(learned)},
        "k": options.k,
        "checkpoint": describe_checkpoint(model),
        "rows": describe_rows(found),
        "data": {"public": public.fingerprint, "candidates": images.fingerprint},
        "inputs": {
            **by_role("audit inversion", rows=found.rows, model=model),
            **found.partition,
        },
    }

    known, originals = Candidates(public, learned), Candidates(images, found.index)
    return conclude(
        options,
        origins,
        lambda: work_of("inversion").attack(
            options, model, found.rows, known, originals
        ),
    )


def _options(values: dict[str, Any]) -> InversionOptions:
    known = recorded("audit inversion", values)
    place = {key: values.pop(key) for key in ("data_root", "download", "cache")}
    for name in ("public", "candidates"):
        values[name] = Source(values[name], **place)
    return fill(InversionOptions, {**values, "recorded": known})
