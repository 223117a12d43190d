"""The student, its slow copy and the queue of anchors that FLESD distils with."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from furlkit.data.batches import Batch, Images
from furlkit.models.architecture import Net
from furlkit.models.ensembles import Similarities
from furlkit.objectives.simclr import normalise
from furlkit.objectives.similarity import distillation_loss, follow
from furlkit.randomness import torch_generator
from furlkit.training.loop import Purpose, positions


class Distiller(nn.Module):
    """Everything a distillation carries along; only the student is trained.

    `queue` holds representations of m anchors and `anchors` their places in the public
    set. The oldest are replaced by those of each step, so that with its own key in the
    queue an image always finds itself among the anchors.
    """

    queue: Tensor
    anchors: Tensor

    def __init__(self, student: Net, layer: str, width: int, size: int):
        super().__init__()
        self.student, self._layer = student, layer
        self.slow = deepcopy(student).requires_grad_(False)
        device = next(student.parameters()).device
        self.register_buffer("queue", torch.zeros(size, width, device=device))
        self.register_buffer("anchors", torch.zeros(size, dtype=torch.long))
        self.anchors = self.anchors.to(device)

    def represent(self, net: Net, images: Tensor) -> Tensor:
        """Unit rows of h or z."""
        h = net.encoder(images)
        rows = net.projector(h) if self._layer == "z" and net.projector else h
        return normalise(rows.float())

    @torch.no_grad()
    def fill(self, images: Images, batch_size: int, purpose: Purpose) -> None:
        """Fill the queue once, with keys of random images, before the first step."""
        self.train()
        steps = -(-len(self.queue) // min(batch_size, len(images)))
        for step in range(steps):
            index = positions(images, batch_size, (*purpose, "fill"), step)
            generator = torch_generator(*purpose, "fill", step)
            # Counted up to 0, the oldest keys are those that step 0 replaces.
            batch = images.batch(index, generator, step - steps)
            self._enqueue(self.represent(self.slow, batch.one_view()), batch)

    def step(
        self, batch: Batch, similarities: Similarities, tau_S: float, zeta: float
    ) -> tuple[dict[str, Tensor], Tensor]:
        """The student's view of a batch against the queue, held against the ensemble."""
        q = self.represent(self.student, batch.one_view())  # (B, d)
        follow(self.slow.parameters(), self.student.parameters(), zeta)
        with torch.no_grad():
            keys = self.represent(self.slow, batch.one_view())
        self._enqueue(keys, batch)
        with torch.autocast(q.device.type, enabled=False):
            M = similarities.rows(batch.index, self.anchors)  # (B, m)
            loss = distillation_loss(q, self.queue, M, tau_S)
        return {"distillation": loss}, q

    def _enqueue(self, keys: Tensor, batch: Batch) -> None:
        """First in, first out; the place in the queue follows from the step."""
        size, count = len(self.queue), len(keys)
        place = torch.arange(batch.step * count, (batch.step + 1) * count) % size
        place = place[-size:].to(self.queue.device)
        self.queue[place] = keys[-size:].to(self.queue.dtype)
        self.anchors[place] = batch.index[-size:].to(self.anchors.device)
