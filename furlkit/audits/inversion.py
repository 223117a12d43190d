"""Images reconstructed from rows by a decoder, and their agreement with the originals.

Dosovitskiy and Brox, "Inverting Visual Representations with Convolutional Networks",
CVPR 2016: a decoder learns from public images and their features; the decoder then maps
the shared rows to images.
"""

import numpy as np

WINDOW = 7
K_1, K_2 = 0.01, 0.03


def ssim(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Wang et al. 2004: structural similarity of images (n, H, W, C), in [0, 1].

    Uniform windows of 7 x 7 pixels, or of the whole image if smaller; mean over windows
    and channels, (n).
    """
    side = min(WINDOW, *x.shape[1:3])
    x, y = x.astype(np.float64), y.astype(np.float64)
    mu_x, mu_y = _windows(x, side), _windows(y, side)
    var_x = _windows(x * x, side) - mu_x**2
    var_y = _windows(y * y, side) - mu_y**2
    cov = _windows(x * y, side) - mu_x * mu_y
    c_1, c_2 = K_1**2, K_2**2
    top = (2 * mu_x * mu_y + c_1) * (2 * cov + c_2)
    bottom = (mu_x**2 + mu_y**2 + c_1) * (var_x + var_y + c_2)
    return (top / bottom).mean(axis=(1, 2, 3))


def _windows(images: np.ndarray, side: int) -> np.ndarray:
    """Means of all windows of side x side pixels, by sums of sums."""
    sums = np.pad(images, ((0, 0), (1, 0), (1, 0), (0, 0))).cumsum(1).cumsum(2)
    high, low = slice(side, None), slice(None, -side)
    block = sums[:, high, high] - sums[:, low, high] - sums[:, high, low]
    return (block + sums[:, low, low]) / side**2


def agreement(x_hat: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Negative mean squared error between m reconstructions and n images, (m, n)."""
    a, b = x_hat.reshape(len(x_hat), -1), images.reshape(len(images), -1)
    squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1)[None] - 2 * a @ b.T
    return -squares / a.shape[1]


def ranks(scores: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Rank of image place[i] in row i of the scores, 1 for the best; ties count half."""
    own = scores[np.arange(len(scores)), place][:, None]
    return 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
