"""InstaHide: an image mixed with others, the signs of its pixels flipped at random.

Huang et al., "InstaHide: Instance-hiding Schemes for Private Distributed Learning", ICML
2020, with images of the client's own data alone; FCL shares features of such
images. The scheme has been broken: Carlini et al., "Is Private Learning Possible with
Instance Encoding?", IEEE S&P 2021, recover the images. It is part of a method here, and
no protection.

    k        images in a mixture, the row's image first
    lambda   their coefficients: |N(0, 1)|, divided by their sum, none above 0.65
    sigma    the mask: +1 or -1 for every value of an image
"""

from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from furlkit.data.augment.arrange import per_image

K = 4
LARGEST = 0.65


def draw_mixtures(places: Tensor, total: int, generator: Generator) -> Tensor:
    """(n, k): n places, and for each place k - 1 different others of `total` images."""
    if total < K:
        raise ValueError(f"{total} images: a mixture takes {K} different ones")
    steps = torch.randint(1, total, (len(places), K - 1), generator=generator)
    # Draw rows again in which a number occurs twice.
    while (again := (steps.sort(dim=1).values.diff(dim=1) == 0).any(dim=1)).any():
        shape = (int(again.sum()), K - 1)
        steps[again] = torch.randint(1, total, shape, generator=generator)
    others = (places[:, None] + steps) % total  # A step is never 0, nor all the way.
    return torch.cat([places[:, None], others], dim=1)


def draw_coefficients(n: int, generator: Generator) -> Tensor:
    """lambda (n, k): rows that sum to 1, drawn again while one is above 0.65."""
    found = _coefficients(n, generator)
    while (again := (found > LARGEST).any(dim=1)).any():
        found[again] = _coefficients(int(again.sum()), generator)
    return found


def _coefficients(n: int, generator: Generator) -> Tensor:
    drawn = torch.randn(n, K, generator=generator).abs()
    return drawn / drawn.sum(dim=1, keepdim=True)


def draw_mask(shape: Iterable[int], generator: Generator) -> Tensor:
    """sigma: +1 or -1 for every value, each with probability 1/2."""
    return torch.randint(2, tuple(shape), generator=generator).float().mul_(2).sub_(1)


def mixed(
    images: Iterable[Tensor], coefficients: Tensor, mask: Tensor | None
) -> Tensor:
    """sigma * sum_j lambda_j x_j of k normalised batches x_j (n, C, H, W).

    Without a mask, a mixup of k images.
    """
    terms = zip(images, coefficients.T, strict=True)
    x = sum((per_image(share, x) * x for x, share in terms), torch.zeros(()))
    return x if mask is None else x * mask.to(x.device)
