"""Images of one client on the training device, and batches of these images."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit.data.ahead import Ahead, Request
from furlkit.data.augment import draw_views, normalise, plain, sobel
from furlkit.data.augment.arrange import Operations
from furlkit.data.augmentation import Augmentation
from furlkit.data.transfer import Parcel, send

# Up to this number of bytes, a client's images are copied to the device once; otherwise
# each batch is read from the memory map.
RESIDENT_LIMIT = 2 * 2**30
# Bytes for each mapped image, in which the draws of a step travel with the images.
DRAWS_ROOM = 1024
Send = Callable[[Sequence[Tensor], torch.device], list[Tensor]]


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


class Positions:
    """Positions among a client's images, on the CPU and on the device of the images.

    They are sent to the device when they are first asked for there.
    """

    def __init__(self, cpu: Tensor, device: torch.device) -> None:
        self.cpu, self._device = cpu, device

    @cached_property
    def device(self) -> Tensor:
        """The positions on the device."""
        return self.cpu.to(self._device)

    def part(self, start: int, stop: int) -> "Positions":
        """Some of them; nothing is copied."""
        chosen = Positions(self.cpu[start:stop], self._device)
        chosen.device = self.device[start:stop]
        return chosen


@dataclass(frozen=True)
class Batch:
    """Some images of a client, with the only random generator of the step.

    Images and labels are gathered when a step first asks for them. Steps are counted
    from 0 through all epochs. `ahead` may have views that a thread has prepared.
    """

    positions: Positions
    load: Callable[[], Tensor]
    load_labels: Callable[[], Tensor | None]
    generator: torch.Generator
    view: View
    step: int
    choose: "Callable[[Tensor], Batch]"
    source: "Images"
    send: Send = send
    ahead: Ahead | None = None

    @property
    def index(self) -> Tensor:
        """Positions among the client's images, on the images' device."""
        return self.positions.device

    @property
    def index_cpu(self) -> Tensor:
        """Positions among the client's images, on the CPU."""
        return self.positions.cpu

    @property
    def images(self) -> Tensor:
        """(N, H, W, C) as they are stored, uint8 or uint16."""
        return self.load()

    @property
    def labels(self) -> Tensor | None:
        """(N), or None for images without labels."""
        return self.load_labels()

    def at(self, index: Tensor) -> "Batch":
        """Other images of the client, by positions on the CPU, for the same step."""
        others = self.choose(index)
        return replace(others, generator=self.generator, send=self.send)

    def twice(self) -> "tuple[Batch, Batch]":
        """The batch for two passes, the first one before the second, with equal draws.

        The first pass alone sends draws to the device and gathers other images.
        """
        sent: list[list[Tensor]] = []
        chosen: list[Batch] = []

        def send_and_note(tensors: Sequence[Tensor], device: torch.device) -> Any:
            sent.append(self.send(tensors, device))
            return sent[-1]

        def choose_and_note(index: Tensor) -> Batch:
            chosen.append(self.choose(index))
            return chosen[-1]

        return (
            replace(self, send=send_and_note, choose=choose_and_note),
            replace(
                self,
                generator=self.generator.clone_state(),
                send=lambda _tensors, _device: sent.pop(0),
                choose=lambda _index: chosen.pop(0),
            ),
        )

    def two_views(self) -> Tensor:
        """Two augmented views of every image: all first views, then all second ones."""
        return self._augmented(self.view.how, views=2)

    def one_view(self, how: Augmentation | None = None) -> Tensor:
        """One augmented view of every image; `how`, if it is not the usual way."""
        return self._augmented(how or self.view.how)

    def separate_views(
        self, *ways: Augmentation | None, also: Sequence[Tensor] = ()
    ) -> tuple[list[Tensor], list[Tensor]]:
        """`one_view(how)` for each of several ways, and other tensors on the device.

        All draws, and the other tensors of the CPU, are sent in one copy.
        """
        plans = [self._drawn(how or self.view.how) for how in ways]
        parcels = [plan.parcel() for plan in plans]
        every = [tensor for parcel in [*parcels, also] for tensor in parcel]
        sent = iter(self.send(every, self.source.device))
        views = [
            self._input(plan.run(self.images, [next(sent) for _ in parcel]), True)
            for plan, parcel in zip(plans, parcels, strict=True)
        ]
        return views, list(sent)

    def plain(self) -> Tensor:
        """Images without augmentation, resized to the network's input."""
        return self._input(plain(self.images, self.view.size))

    def edges(self) -> Tensor:
        """Sobel images of the plain images."""
        return self._input(sobel(plain(self.images, self.view.size)))

    def prepared(self, request: Request | None, thread: Executor) -> "Batch":
        """The batch, with the views of a request computed by the thread."""
        ahead = Ahead(self.generator)
        if request is not None:
            how, count = request
            # Gathered by the thread, so not counted as time that a step has waited.
            load = partial(self.source.stored, self.positions)

            def views(generator: torch.Generator) -> Tensor:
                own = replace(self, generator=generator, load=load)
                return own._augmented(how, count)

            ahead.prepare(request, views, thread)
        return replace(self, ahead=ahead)

    def _augmented(self, how: Augmentation, views: int = 1) -> Tensor:
        if self.ahead is not None:
            with self.source.waiting():
                prepared = self.ahead.take((how, views), self.generator)
            if prepared is not None:
                return prepared
        plan = self._drawn(how, views)
        sent = self.send(plan.parcel(), self.source.device)
        return self._input(plan.run(self.images, sent), overwrite=True)

    def _drawn(self, how: Augmentation, views: int = 1) -> Operations:
        # The images may still be on the CPU, to be sent with the draws.
        like = self.source.shaped_like(len(self.index_cpu))
        return draw_views(like, how, self.view.size, self.generator, views)

    def _input(self, images: Tensor, overwrite: bool = False) -> Tensor:
        v = self.view
        # The network would otherwise convert the layout in forward and backward passes.
        layout = torch.channels_last if v.channels_last else torch.contiguous_format
        return normalise(images, v.mean, v.std, layout, overwrite)


class Images:
    """A client's images, on the device if they are small enough, else memory-mapped.

    `seconds` is the time that steps have waited for images, or for prepared views.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray | None,
        index: np.ndarray,
        view: View,
        device: torch.device,
    ):
        self._view, self.device, self._count = view, device, len(index)
        self._mapped, self._index = images, index
        self._kind = torch.from_numpy(np.empty(0, images.dtype)).dtype
        self._resident = None
        self._order: tuple[int, Positions] | None = None
        self._like: Tensor | None = None
        self.seconds = 0.0
        self._gatherer = ThreadPoolExecutor(1)
        # Batches of this step and of the next one: positions, parcel, place in it.
        self._ahead: list[tuple[Tensor, Future[Parcel], int]] = []
        if len(index) * images[:1].nbytes <= RESIDENT_LIMIT:
            self._resident = _planes(torch.from_numpy(images[index])).to(device)
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
            self._order = seed, Positions(order, self.device)
            _ = self._order[1].device  # Sent at once, not in a step.
        return self._order[1]

    @property
    def mapped(self) -> bool:
        """Whether batches are read from a memory map."""
        return self._resident is None

    def gather_with(self, batches: "Sequence[Batch]") -> None:
        """Gather batches of mapped images in the background; see `prefetch`."""
        wanted = [(batch.source, batch.index_cpu) for batch in batches]
        gathered = self._gatherer.submit(_gather, wanted, self.device)
        for place, (images, index) in enumerate(wanted):
            images._ahead = [*images._ahead[-1:], (index, gathered, place)]

    def take(self, index: Tensor, out: Tensor) -> None:
        """Read the images at these positions from the map."""
        # numpy.take lets other threads run; an index in brackets does not.
        places = self._index[index.numpy()]
        np.take(self._mapped, places, axis=0, out=out.numpy(), mode="clip")

    def stored_as(self, count: int) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and type of a batch of so many images."""
        return (count, *self._mapped.shape[1:]), self._kind

    def shaped_like(self, count: int) -> Tensor:
        """A tensor without values, of the shape and type of a batch."""
        like = self._like
        if like is None or len(like) != count:
            (_, *sides, _), kind = self.stored_as(count)
            shape = (count, *sides, self._view.channels)
            self._like = like = torch.empty(shape, dtype=kind, device="meta")
        return like

    def _arrived(self, index: Tensor) -> Tensor:
        """Mapped images on the device, from the background if they were prefetched."""
        parcel, place = self._parcel_of(index)
        return (parcel or _gather([(self, index)], self.device)).arrive()[place]

    def _parcel_of(self, index: Tensor) -> tuple[Parcel | None, int]:
        for expected, gathered, place in self._ahead:
            if torch.equal(expected, index):
                return gathered.result(), place
        return None, 0

    def _send(
        self, index: Tensor, tensors: Sequence[Tensor], device: torch.device
    ) -> list[Tensor]:
        """Send the draws of a batch, in one copy with mapped images if possible."""
        parcel = self._parcel_of(index)[0] if device.type != "cpu" else None
        if parcel is None or not parcel.add(tensors):
            return send(tensors, device)
        arrived = parcel.arrive()
        return arrived[len(arrived) - len(tensors) :]

    def batch(
        self, index: Tensor | Positions, generator: torch.Generator, step: int = 0
    ) -> Batch:
        """Batch of the images at these positions; a tensor must be on the CPU."""
        if isinstance(index, Tensor):
            index = Positions(index, self.device)
        # Copies of a batch gather their images once.
        load, labels = _once(self._pixels, index), _once(self._labels_at, index)
        choose = partial(self.batch, generator=generator, step=step)
        return Batch(
            index, load, labels, generator, self._view, step, choose, self,
            partial(self._send, index.cpu),
        )  # fmt: skip

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time as waiting for images."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def _pixels(self, index: Positions) -> Tensor:
        with self.waiting():
            return self.stored(index)

    def stored(self, index: Positions) -> Tensor:
        """Images at these positions, on the device."""
        if self._resident is not None:
            planes = self._resident.index_select(0, index.device)
            images = planes.permute(0, 2, 3, 1)
        else:
            images = self._arrived(index.cpu)
        if images.shape[3] == self._view.channels:
            return images
        # A network for colour images gets grey ones as three equal channels.
        return images.expand(-1, -1, -1, self._view.channels)

    def _labels_at(self, index: Positions) -> Tensor | None:
        return None if self._labels is None else self._labels[index.device]


def _once(load: Callable[[Positions], Any], index: Positions) -> Callable[[], Any]:
    """`functools.cache(partial(load, index))`, which takes longer to create."""
    loaded: list[Any] = []

    def value() -> Any:
        if not loaded:
            loaded.append(load(index))
        return loaded[0]

    return value


def prefetch(batches: Sequence[Batch]) -> None:
    """Begin to gather the batches of mapped images, for later batches of equal positions.

    The images are gathered into one block of memory, which is sent in one copy when
    the first of them are needed.
    """
    mapped = [batch for batch in batches if batch.source.mapped]
    if mapped:
        mapped[0].source.gather_with(mapped)


def _gather(wanted: Sequence[tuple[Images, Tensor]], device: torch.device) -> Parcel:
    kinds = [images.stored_as(len(index)) for images, index in wanted]
    parcel = Parcel(kinds, device, room=DRAWS_ROOM * len(wanted[0][1]))
    for (images, index), out in zip(wanted, parcel.content, strict=True):
        images.take(index, out)
    return parcel


def _planes(images: Tensor) -> Tensor:
    """Images (N, H, W, C) as (N, C, H, W), which crops need, in the same memory."""
    count, height, width, channels = images.shape
    planes = images.view(count, channels, height, width)
    for target, source in zip(planes.split(1024), images.split(1024), strict=True):
        target.copy_(source.clone().permute(0, 3, 1, 2))
    return planes
