"""Images of one client on the training device, and batches of these images."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from furlkit.data.augment import Augmentation, augment, normalise, plain, sobel

# Up to this number of bytes, a client's images are copied to the device once; otherwise
# each batch is read from the memory map.
RESIDENT_LIMIT = 2 * 2**30


@dataclass(frozen=True)
class View:
    """Conversion of images to network input: augmentation, size, normalisation.

    `channels_last` is the memory layout of the network.
    """

    how: Augmentation
    size: int
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels_last: bool = False


class Positions(NamedTuple):
    """Positions among a client's images, on the CPU and on the device of the images."""

    cpu: Tensor
    device: Tensor

    def part(self, start: int, stop: int) -> "Positions":
        """A slice of the positions, without a copy."""
        return Positions(self.cpu[start:stop], self.device[start:stop])


@dataclass(frozen=True)
class Batch:
    """Some images of a client, with the only random generator of the step.

    `index`: positions among the client's images, on the images' device; `index_cpu`:
    these positions on the CPU. `images` is uint8 (N, H, W, C). Steps are counted from 0
    through all epochs.
    """

    index: Tensor
    index_cpu: Tensor
    images: Tensor
    labels: Tensor | None
    generator: torch.Generator
    view: View
    step: int = 0
    source: "Images | None" = None

    def at(self, index: Tensor) -> "Batch":
        """Batch of other images for this step, by positions on the CPU."""
        if self.source is None:
            raise ValueError("a batch without a source has no other images")
        return self.source.batch(index, self.generator, self.step)

    def two_views(self) -> Tensor:
        """Two augmented views of every image: first views, then second views."""
        return self._augmented(2)

    def one_view(self, how: Augmentation | None = None) -> Tensor:
        """One augmented view of every image; `how` replaces the usual augmentation."""
        return self._augmented(1, how)

    def plain(self) -> Tensor:
        """Images without augmentation, resized to the network's input."""
        return self._input(plain(self.images, self.view.size))

    def edges(self) -> Tensor:
        """Sobel images of the plain images."""
        return self._input(sobel(plain(self.images, self.view.size)))

    def _augmented(self, views: int, how: Augmentation | None = None) -> Tensor:
        how, size = how or self.view.how, self.view.size
        return self._input(augment(self.images, how, size, self.generator, views))

    def _input(self, images: Tensor) -> Tensor:
        v = self.view
        # The network would otherwise convert the layout in forward and backward passes.
        layout = torch.channels_last if v.channels_last else torch.contiguous_format
        return normalise(images, v.mean, v.std, layout)


class Images:
    """Images of a client, on the device if small enough, otherwise memory-mapped."""

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray | None,
        index: np.ndarray,
        view: View,
        device: torch.device,
    ):
        self._view, self._device, self._count = view, device, len(index)
        self._mapped, self._index = images, index
        self._resident = None
        self._order: tuple[int, Positions] | None = None
        self._gatherer = ThreadPoolExecutor(1)
        self._ahead: tuple[Tensor, Future[Tensor]] | None = None
        if len(index) * images[:1].nbytes <= RESIDENT_LIMIT:
            self._resident = torch.from_numpy(images[index]).to(device)
        self._labels = None
        if labels is not None:
            self._labels = torch.from_numpy(labels[index]).to(device)

    def __len__(self) -> int:
        return self._count

    def order(self, seed: int) -> Positions:
        """Random order of the images in the epoch with this seed."""
        if self._order is None or self._order[0] != seed:
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(self._count, generator=generator)
            self._order = seed, Positions(order, order.to(self._device))
        return self._order[1]

    def prefetch(self, index: Positions) -> None:
        """Start to gather a mapped batch in the background, for `batch`."""
        if self._resident is None:
            self._ahead = index.cpu, self._gatherer.submit(self._gather, index.cpu)

    def _gather(self, index: Tensor) -> Tensor:
        """Gather images from the map, in pinned memory for a GPU."""
        places, shape = self._index[index.numpy()], self._mapped.shape[1:]
        kind = torch.from_numpy(np.empty(0, self._mapped.dtype)).dtype
        pinned = self._device.type == "cuda"
        taken = torch.empty((len(places), *shape), dtype=kind, pin_memory=pinned)
        # numpy.take lets other threads run; an index in brackets does not.
        np.take(self._mapped, places, axis=0, out=taken.numpy(), mode="clip")
        return taken

    def _gathered(self, index: Tensor) -> Tensor:
        """Gathered images, from the background if the batch was prefetched."""
        if self._ahead is not None and torch.equal(self._ahead[0], index):
            (_, gathered), self._ahead = self._ahead, None
            return gathered.result()
        return self._gather(index)

    def batch(
        self, index: Tensor | Positions, generator: torch.Generator, step: int = 0
    ) -> Batch:
        """Batch of the images at these positions; a tensor must be on the CPU."""
        if isinstance(index, Tensor):
            index = Positions(index, index.to(self._device))
        if self._resident is not None:
            images = self._resident.index_select(0, index.device)
        else:
            taken = self._gathered(index.cpu)
            images = taken.to(self._device, non_blocking=True)
        # A network for colour images gets grey images with three equal channels.
        images = images.expand(-1, -1, -1, self._view.channels)
        labels = None if self._labels is None else self._labels[index.device]
        known = generator, self._view, step, self
        return Batch(index.device, index.cpu, images, labels, *known)
