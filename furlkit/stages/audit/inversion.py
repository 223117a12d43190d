"""audit inversion: reconstruct images from rows by a decoder of public images."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit import console, runtime
from furlkit.audits.inversion import agreement, ranks
from furlkit.audits.success import identified, mean_interval
from furlkit.catalogue import AUDITS, load, recorded
from furlkit.data.augment import plain
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.candidates import Candidates, without_copies
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.row_images import limited, open_row_images
from furlkit.inputs.settings import fill
from furlkit.models.architecture import drawn
from furlkit.models.heads import Decoder
from furlkit.models.loading import architecture_of
from furlkit.objectives.autoencoder import reconstruction_loss
from furlkit.randomness import numpy_generator, torch_generator
from furlkit.reports.document import describe_checkpoint
from furlkit.reports.figures import Frame, check_format, figure
from furlkit.reports.summary import ImageRow
from furlkit.stages.audit import (
    Attack,
    AuditOptions,
    conclude,
    draw,
    seconds_per,
    success_of,
)
from furlkit.stages.audit.rows import describe_knowledge, describe_rows, features_of

BATCH = 128
SHOWN = 10  # Images in a row of the sheet.


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


@dataclass(frozen=True)
class Side:
    """Rows (n, d) of equal lengths and images (n, C, S, S) with values from 0 to 1."""

    rows: Tensor
    x: Tensor

    def first(self, count: int) -> "Side":
        """The first rows and images."""
        return Side(self.rows[:count], self.x[:count])


def run(values: dict[str, Any]) -> Result:
    """Train a decoder on public images, and compare reconstructions with originals."""
    options = _options(values)
    sources = [options.public.name, options.candidates.name]
    inputs = [options.rows, options.model, options.partition, *sources]
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
    device = runtime.start(options.runtime)
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

    def sides() -> tuple[Side, Side]:
        known = Candidates(public, learned)
        z = torch.from_numpy(features_of(model, known, device))
        shared = torch.from_numpy(found.rows.rows)
        return (
            _side(z, known, model, device),
            _side(shared, Candidates(images, found.index), model, device),
        )

    attack = Attack(
        origins,
        lambda: _attacked(options, *sides(), model),
        lambda: _estimate(options, *sides(), model),
    )
    return conclude(options, attack)


def _options(values: dict[str, Any]) -> InversionOptions:
    known = recorded("audit inversion", values)
    place = {key: values.pop(key) for key in ("data_root", "download", "cache")}
    for name in ("public", "candidates"):
        values[name] = Source(values[name], **place)
    return fill(InversionOptions, {**values, "recorded": known})


def _side(
    rows: Tensor, side: Candidates, model: Checkpoint, device: torch.device
) -> Side:
    a = architecture_of(model.path, model.facts)
    pixels = torch.from_numpy(np.ascontiguousarray(side.pixels))
    x = plain(pixels.expand(-1, -1, -1, a.channels), a.image_size)
    scaled = F.normalize(rows, dim=1) * rows.shape[1] ** 0.5
    return Side(scaled.to(device), x.to(device))


def _attacked(
    options: InversionOptions, public: Side, shared: Side, model: Checkpoint
) -> dict[str, Any]:
    decode = _trained(options, public, model, options.epochs)
    x_hat, x = (_pixels(each) for each in (decode(shared.rows), shared.x))
    if options.sheet:
        _draw_sheet(options.sheet, x, x_hat)
    ssim = load(AUDITS["inversion"].function)
    mean = np.broadcast_to(_pixels(public.x).mean(axis=0), x.shape)
    values, of_mean = ssim(x_hat, x), ssim(mean, x)
    scores, own = agreement(x_hat, x), np.arange(len(x))
    chances = [
        identified(row[i], np.delete(row, i), options.k) for i, row in enumerate(scores)
    ]
    rng = numpy_generator(options.seed, "audit", "inversion", "means")
    # A partner for each row: the original of the next row.
    wrong = scores[own, np.roll(own, 1)]
    return {
        **success_of(scores[own, own], wrong, options.seed, "inversion"),
        "ssim": float(values.mean()),
        "ssim_interval": list(mean_interval(values, rng)),
        "ssim_of_mean": float(of_mean.mean()),
        "rank": float(np.median(ranks(scores, own))),
        "ranked": len(x),
        "identified": float(np.mean(chances)),
        "identified_interval": list(mean_interval(np.array(chances), rng)),
        "identified_by_chance": 1 / options.k,
    }


def _trained(
    options: InversionOptions, public: Side, model: Checkpoint, epochs: int
) -> Callable[[Tensor], Tensor]:
    """Train the decoder; return the function from rows to images."""
    a = architecture_of(model.path, model.facts)
    seed = options.seed
    with torch.device("meta"):
        decoder = Decoder(public.rows.shape[1], a.image_size, a.channels)
    decoder = drawn(decoder, torch_generator(seed, "audit", "decoder"))
    decoder.to(public.rows.device).train()
    optimiser = torch.optim.Adam(decoder.parameters(), options.lr)
    with console.bar("training the decoder", epochs) as bar:
        for epoch in range(epochs):
            rng = torch_generator(seed, "audit", "decoder", epoch)
            order = torch.randperm(len(public.rows), generator=rng)
            for batch in order.to(public.rows.device).split(BATCH):
                if len(batch) > 1:  # BatchNorm needs two images.
                    x_hat = decoder(public.rows[batch])
                    loss = reconstruction_loss(x_hat, public.x[batch])
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
            bar.reach(epoch + 1)

    @torch.inference_mode()
    def decode(rows: Tensor) -> Tensor:
        decoder.eval()
        return torch.cat([decoder(part).clamp(0, 1) for part in rows.split(BATCH)])

    return decode


def _estimate(
    options: InversionOptions, public: Side, shared: Side, model: Checkpoint
) -> float:
    each = seconds_per(
        len(public.rows), lambda few: _trained(options, public.first(few), model, 1)
    )
    return each * len(public.rows) * options.epochs


def _pixels(x: Tensor) -> np.ndarray:
    """Images (n, C, S, S) as arrays (n, S, S, C)."""
    return x.permute(0, 2, 3, 1).cpu().numpy().astype(np.float64)


def _draw_sheet(path: Path, x: np.ndarray, x_hat: np.ndarray) -> None:
    """Draw originals above reconstructions, for the first rows."""
    rows = []
    for name, images in (("originals", x), ("reconstructions", x_hat)):
        shown = (255 * images[:SHOWN]).round().astype(np.uint8)
        if shown.shape[3] not in (1, 3):
            shown = shown[..., :1]
        rows.append(ImageRow(0, name, "", shown, [False] * len(shown)))
    title = f"Rows of {len(x):,} images, decoded by an attacker"
    figure("style:save")(figure("mosaic:draw_mosaic")(rows, Frame(title), ""), path)
