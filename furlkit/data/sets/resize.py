"""Resize images: the shorter side to a given size, then crop the centre."""

import numpy as np

BLOCK = 1024


def resized_shape(height: int, width: int, size: int) -> tuple[int, int, int, int]:
    """Height and width with a shorter side of `size`, and the central square's corner.

    The corner is top and left. Rounding is torchvision's.
    """
    short = min(height, width)
    height, width = int(size * height / short), int(size * width / short)
    return height, width, round((height - size) / 2), round((width - size) / 2)


def resize_images(images: np.ndarray, size: int | None) -> np.ndarray:
    """Resize (N, H, W, C) to (N, size, size, C), bilinear with antialiasing.

    Images of the target size are returned unchanged, still memory-mapped.
    """
    if size is None or images.shape[1:3] == (size, size):
        return images
    import torch
    from torch.nn.functional import interpolate

    height, width, top, left = resized_shape(images.shape[1], images.shape[2], size)
    white = np.iinfo(images.dtype).max
    resized = np.empty((len(images), size, size, images.shape[3]), images.dtype)
    for start in range(0, len(images), BLOCK):
        block = torch.from_numpy(np.array(images[start : start + BLOCK]))
        block = block.permute(0, 3, 1, 2).float()  # (n, C, H, W)
        block = interpolate(block, (height, width), mode="bilinear", antialias=True)
        block = block[:, :, top : top + size, left : left + size]
        block = block.round_().clamp_(0, white).permute(0, 2, 3, 1)
        resized[start : start + BLOCK] = block.numpy()
    return resized
