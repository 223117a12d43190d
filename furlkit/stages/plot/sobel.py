"""plot sobel: images and their edges, from which FedStyle learns a style."""

from typing import Any

import numpy as np

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.decoded import Fit
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import in_bytes
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator
from furlkit.reports.figures import Frame
from furlkit.reports.summary import ImageRow
from furlkit.reports.text import counted, plain
from furlkit.stages.plot.picture import Picture, figure, picture

SIDE = 128  # Size of a folder's images, if sizes differ.


@picture
def run(images: int, seed: int, frame: Frame, **data: Any) -> Picture:
    """Draw two rows for each domain, or for all images: the images and their edges."""
    known = fill(Source, data).images(Fit(SIDE))
    chosen = {name: _drawn(of, images, seed) for name, of in _domains(known).items()}
    shown = sum(map(len, chosen.values()))
    text = f"{counted(shown, 'image')} and their Sobel images"
    titled = frame._replace(title=text) if frame.title is None else frame

    def draw() -> Any:
        rows = [r for name, of in chosen.items() for r in _rows(known, name, of)]
        return figure("mosaic:draw_mosaic")(rows, titled, "")

    rows = {name: of.tolist() for name, of in chosen.items()}
    return draw, f"{text}, of {plain(known.name)}", {"images": rows}


def _domains(known: ImageSet) -> dict[str, np.ndarray]:
    """Images by domain; without domains, all images under an empty name."""
    return known.by_domain() or {"": np.arange(len(known.images))}


def _drawn(of: np.ndarray, images: int, seed: int) -> np.ndarray:
    rng = numpy_generator(seed, "plot", "sobel")
    return np.sort(rng.permutation(of)[:images])


def _rows(known: ImageSet, name: str, of: np.ndarray) -> list[ImageRow]:
    taken, right = in_bytes(known.images[of]), [False] * len(of)
    edges = _edges(taken)
    return [
        ImageRow(0, plain(name), "images", taken, right),
        ImageRow(0, "", "Sobel images", edges, right),
    ]


def _edges(images: np.ndarray) -> np.ndarray:
    """Sobel images (k, H, W, C) uint8 of images in the same form."""
    import torch  # Here, because a dry run needs no torch.

    from furlkit.data.augment import sobel

    x = torch.from_numpy(images / np.float32(255)).permute(0, 3, 1, 2)  # (k, C, H, W)
    return (255 * sobel(x)).round().byte().permute(0, 2, 3, 1).numpy()
