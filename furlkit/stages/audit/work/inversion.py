"""A decoder of public images, and its reconstructions from rows."""

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
from furlkit.catalogue import AUDITS, load
from furlkit.data.augment import plain
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.features import Features
from furlkit.inputs.candidates import Candidates
from furlkit.models.architecture import drawn
from furlkit.models.heads import Decoder
from furlkit.models.loading import architecture_of
from furlkit.objectives.autoencoder import reconstruction_loss
from furlkit.randomness import numpy_generator, torch_generator
from furlkit.reports.figures import Frame, figure
from furlkit.reports.summary import ImageRow
from furlkit.stages.audit import Attack
from furlkit.stages.audit.inversion import InversionOptions
from furlkit.stages.audit.work import seconds_per, success_of
from furlkit.stages.audit.work.rows import features_of

BATCH = 128
SHOWN = 10  # Images in a row of the sheet.


@dataclass(frozen=True)
class Side:
    """Rows (n, d) of equal lengths and images (n, C, S, S) with values from 0 to 1."""

    rows: Tensor
    x: Tensor

    def first(self, count: int) -> "Side":
        """The first rows and images."""
        return Side(self.rows[:count], self.x[:count])


def attack(
    options: InversionOptions,
    model: Checkpoint,
    rows: Features,
    public: Candidates,
    originals: Candidates,
) -> Attack:
    """Attack by z of public images; `originals`: the images behind the rows."""
    device = runtime.start(options.runtime)

    def sides() -> tuple[Side, Side]:
        z = torch.from_numpy(features_of(model, public, device))
        shared = torch.from_numpy(rows.rows)
        return (
            _side(z, public, model, device),
            _side(shared, originals, model, device),
        )

    return Attack(
        lambda: _attacked(options, *sides(), model),
        lambda: _estimate(options, *sides(), model),
    )


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
    drawing = figure("mosaic:draw_mosaic")(rows, Frame(title), "")
    figure("style:save")(drawing, path, command="audit inversion")
