"""Sort a batch so that images with the same operation are adjacent."""

import torch
from torch import Generator, Tensor


class Arranged:
    """A batch that is reordered while operations run and restored at the end.

    Reordering costs one copy. In return, the images of an operation are a slice, which
    it can change in place without masks and without a scatter.
    """

    def __init__(self, images: Tensor, who: Tensor | None = None) -> None:
        """`who` (n,) is the number of the image in each row; default 0 to n - 1."""
        self.images = images
        self.who = torch.arange(len(images)) if who is None else who

    def sort(self, keys: Tensor, kinds: int) -> list[slice]:
        """Sort the images by key and return the rows of key 0, 1, ..., kinds - 1.

        keys: (n,) integers on the CPU, in the original order of the images.
        """
        keys = keys[self.who]
        if (keys.diff() < 0).any():
            rows = keys.argsort(stable=True)
            self.who = self.who[rows]
            self.images = self.images.index_select(0, rows.to(self.images.device))
        ends = keys.bincount(minlength=kinds).cumsum(0).tolist()
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def restored(self) -> Tensor:
        """The images in their original order."""
        rows = self.who.argsort()
        return self.images.index_select(0, rows.to(self.images.device))


def uniform(generator: Generator, *shape: int) -> Tensor:
    """Random numbers in [0, 1), on the generator's device."""
    return torch.rand(shape, generator=generator, device=generator.device)


def draw_chosen(n: int, probability: float, generator: Generator) -> Tensor:
    """(n,) bool: the images that an operation with this probability applies to."""
    return uniform(generator, n) < probability


def per_image(values: Tensor, images: Tensor) -> Tensor:
    """(n,) parameters on the images' device, shaped to act on (n, C, H, W)."""
    return values.to(images.device, images.dtype).view(-1, 1, 1, 1)
