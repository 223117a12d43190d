"""Resize images: the shorter side to a given size, then crop the centre."""

import numpy as np

from furlkit.errors import UsageError

BLOCK = 1024


def resized_shape(height: int, width: int, size: int) -> tuple[int, int]:
    """Height and width with a shorter side of `size`, rounded as in torchvision."""
    if height <= width:
        return size, int(size * width / height)
    return int(size * height / width), size


def centre(height: int, width: int, size: int) -> tuple[int, int]:
    """Top and left of the central square of `size`, rounded as in torchvision."""
    return round((height - size) / 2), round((width - size) / 2)


def resize_images(images: np.ndarray, size: int | None) -> np.ndarray:
    """Resize (N, H, W, C) uint8 to (N, size, size, C), bilinear with antialiasing.

    Images that already have the size are returned unchanged, still memory-mapped.
    """
    if size is None or images.shape[1:3] == (size, size):
        return images
    if size < 1:
        raise UsageError(f"--image-size {size}: expected at least 1")
    resized = np.empty((len(images), size, size, images.shape[3]), np.uint8)
    for start in range(0, len(images), BLOCK):
        block = images[start : start + BLOCK]
        resized[start : start + BLOCK] = _resize_block(block, size)
    return resized


def _resize_block(images: np.ndarray, size: int) -> np.ndarray:
    import torch
    from torch.nn.functional import interpolate

    height, width = resized_shape(images.shape[1], images.shape[2], size)
    block = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float()  # NCHW
    block = interpolate(block, (height, width), mode="bilinear", antialias=True)
    top, left = centre(height, width, size)
    block = block[:, :, top : top + size, left : left + size]
    return block.round_().clamp_(0, 255).byte().permute(0, 2, 3, 1).numpy()
