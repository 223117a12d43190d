"""Running the loop with everything around it: progress file, journal, bar, warnings."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from furlkit import console
from furlkit.data.batches import Images
from furlkit.errors import FurlkitError
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.progress import ProgressFile
from furlkit.runtime import no_primitive
from furlkit.training import loop

# Below these the representation is as good as one point, or one line.
COLLAPSED_SPREAD, COLLAPSED_RANK = 0.1, 1.5


@dataclass(frozen=True)
class Job:
    """A training: what is trained, on what, how, and from which seeds.

    `begin` comes before the first step, and not where a training is taken up again.
    """

    title: str
    module: nn.Module
    loss_of: loop.LossOf
    images: Images
    plan: loop.Plan
    purpose: loop.Purpose
    begin: Callable[[], None] | None = None


@dataclass(frozen=True)
class Handling:
    """How a module runs on the device: the mathematics stay, the rounding may not."""

    channels_last: bool = True
    compile: bool = False
    save_every: float = 60.0


def prepare(net: nn.Module, handling: Handling) -> None:
    """Lay out and compile a net in place; the names of its tensors stay."""
    if handling.channels_last:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if handling.compile:
        for child in net.children():
            child.compile()


def run(
    job: Job, output: Path, made: Provenance, handling: Handling, save_last: bool
) -> loop.Epoch:
    """Train to the end and give the last epoch; takes up an interrupted training.

    `save_last` saves the finished training too, for a command that has more to do
    before it is over. Whoever writes the output discards the progress file then.
    """
    steps = loop.steps_per_epoch(len(job.images), job.plan.batch_size)
    files = ProgressFile(output, made), Journal(output)
    keeper = _Keeper(*files, job, handling.save_every, save_last)
    console.detail(
        f"{job.title}: {len(job.images):,} images, {steps:,} steps an epoch, progress in "
        f"{files[0].path} every {handling.save_every:g} s, journal in {files[1].path}"
    )
    with console.bar(job.title, job.plan.epochs * steps) as bar, naming(job.title):
        _train(job, keeper, bar)
    if keeper.last is None:
        raise FurlkitError(f"{job.title}: was asked to train for no epoch at all")
    _warn_of_collapse(job.title, keeper.last)
    return keeper.last


@contextmanager
def naming(title: str) -> Iterator[None]:
    """Say which training it was that failed, and what would help."""
    try:
        yield
    except loop.DivergedError as error:
        raise FurlkitError(f"{title}: {error}") from error
    except RuntimeError as error:
        # torch has no class of its own for a CPU's memory that is used up.
        if "out of memory" in str(error) or "allocate memory" in str(error):
            cure = "lower --batch-size, or try --precision bfloat16"
            raise FurlkitError(f"{title}: out of memory; {cure}") from error
        if cause := no_primitive(error):
            raise FurlkitError(f"{title}: {cause}") from error
        raise


def _train(job: Job, keeper: "_Keeper", bar: console.Bar) -> None:
    events = loop.train(
        job.module, job.loss_of, job.images, job.plan, job.purpose, keeper
    )
    for event in events:
        if isinstance(event, int):
            bar.reach(event, f"loss {_total(keeper.last)}" if keeper.last else "")
            continue
        keeper.last = event
        keeper.journal.write({"event": "epoch", **_rounded(event)})
        _tell(job, event)


class _Keeper:
    """Saves progress when the clock says so; see `loop.Keeper`."""

    def __init__(
        self,
        file: ProgressFile,
        journal: Journal,
        job: Job,
        save_every: float,
        save_last: bool,
    ):
        self.journal = journal
        self.last: loop.Epoch | None = None
        self._file, self._job = file, job
        self._every, self._save_last = save_every, save_last
        self._saved = time.monotonic()

    def restore(self) -> tuple[int, dict[str, Tensor], dict[str, Any]] | None:
        found, reason = self._file.load()
        if reason:
            console.warn(reason)
        self.journal.rewind(found.step if found else 0)
        if found is None:
            if self._job.begin:
                self._job.begin()
            return None
        console.info(f"{self._job.title}: carries on after step {found.step}")
        if found.values["last"]:
            self.last = loop.Epoch(**found.values["last"])
        tensors = {k: torch.from_numpy(v) for k, v in found.tensors.items()}
        return found.step, tensors, found.values

    def due(self, finished: bool) -> bool:
        if finished:
            return self._save_last
        return time.monotonic() - self._saved >= self._every

    def save(
        self, step: int, tensors: dict[str, Tensor], values: dict[str, Any]
    ) -> None:
        arrays = {
            name: tensor.detach().cpu().contiguous().numpy()
            for name, tensor in tensors.items()
        }
        last = asdict(self.last) if self.last else None
        self._file.save(step, arrays, {**values, "last": last})
        self._saved = time.monotonic()


def _tell(job: Job, epoch: loop.Epoch) -> None:
    terms = ""
    if len(epoch.losses) > 1:
        parts = [f"{name} {value:.4f}" for name, value in epoch.losses.items()]
        terms = f" ({', '.join(parts)})"
    console.info(
        f"{job.title} epoch {epoch.epoch}/{job.plan.epochs} loss {_total(epoch)}{terms} "
        f"spread {epoch.spread:.2f} rank {epoch.effective_rank:.1f} "
        f"{epoch.samples_per_second:.0f} images/s"
    )


def _total(epoch: loop.Epoch) -> str:
    return f"{sum(epoch.losses.values()):.4f}"


def _rounded(epoch: loop.Epoch) -> dict[str, Any]:
    values = asdict(epoch)
    values["samples_per_second"] = round(epoch.samples_per_second, 1)
    return values


def _warn_of_collapse(title: str, epoch: loop.Epoch) -> None:
    if epoch.spread < COLLAPSED_SPREAD or epoch.effective_rank < COLLAPSED_RANK:
        console.warn(
            f"{title}: the representation has collapsed (spread {epoch.spread:.3f}, "
            f"effective rank {epoch.effective_rank:.2f}): all images look alike to it; "
            "lower --lr, raise --temperature or --batch-size, or look at the data"
        )
