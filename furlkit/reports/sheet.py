"""A contact sheet: images side by side, as bytes of a PNG file."""

import io
from math import ceil, sqrt

import numpy as np

GAP = 2
BACKGROUND = 128


def contact_sheet(images: np.ndarray, software: str = "furlkit") -> bytes:
    """Draw pixels (n, H, W, C) in [0, 1]: grey, in colour, or a tile per channel.

    An image with other than 1 or 3 channels is a row of tiles. The file names the
    software.
    """
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    tiles = np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
    columns = ceil(sqrt(len(tiles)))
    if tiles.shape[3] not in (1, 3):
        columns = tiles.shape[3]
        tiles = np.moveaxis(tiles, 3, 1).reshape(-1, *tiles.shape[1:3], 1)
    n, height, width, channels = tiles.shape
    rows = ceil(n / columns)
    shape = rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, channels
    sheet = np.full(shape, BACKGROUND, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = (GAP + GAP * k for k in divmod(number, columns))
        top, left = top + number // columns * height, left + number % columns * width
        sheet[top : top + height, left : left + width] = tile
    written, about = io.BytesIO(), PngInfo()
    about.add_text("Software", software)
    picture = Image.fromarray(sheet if channels == 3 else sheet[..., 0])
    picture.save(written, "PNG", pnginfo=about)
    return written.getvalue()
