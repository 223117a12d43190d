"""Bring the images that share an operation side by side."""

import torch
from torch import Tensor


class Arranged:
    """A batch that is reordered freely while operations run and restored at the end.

    Gathering whole images costs one copy. In return the images of an operation are a
    slice, which it can change in place, without masks and without a scatter.
    """

    def __init__(self, images: Tensor, who: Tensor | None = None) -> None:
        """`who` gives the number of the image in each row, if they are not in order."""
        self.images = images
        self.who = torch.arange(len(images)) if who is None else who

    def sort(self, keys: Tensor, kinds: int) -> list[slice]:
        """Order the images by key, and return the rows of key 0, 1, ... kinds - 1.

        keys: (n,) integers on the CPU, one for each image in its first order.
        """
        keys = keys[self.who]
        if (keys.diff() < 0).any():
            rows = keys.argsort(stable=True)
            self.who = self.who[rows]
            self.images = self.images.index_select(0, rows.to(self.images.device))
        ends = keys.bincount(minlength=kinds).cumsum(0).tolist()
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def rows_of(self, chosen: Tensor) -> Tensor:
        """The rows where the chosen images are now; chosen: (n,) bool on the CPU."""
        return chosen[self.who].nonzero().squeeze(1).to(self.images.device)

    def restored(self) -> Tensor:
        """The images in their first order."""
        rows = self.who.argsort()
        return self.images.index_select(0, rows.to(self.images.device))


def draw_chosen(n: int, probability: float, generator: torch.Generator) -> Tensor:
    """(n,) bool: the images an operation with this probability is applied to."""
    u = torch.rand(n, generator=generator, device=generator.device)
    return u < probability


def per_image(values: Tensor, images: Tensor) -> Tensor:
    """(n,) parameters on the images' device, shaped to act on (n, C, H, W)."""
    return values.to(images.device, images.dtype).view(-1, 1, 1, 1)
