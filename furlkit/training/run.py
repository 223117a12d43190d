"""Driver of the loop: progress file, journal, bar, warnings."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from furlkit import console, runtime
from furlkit.errors import FurlkitError, UsageError, is_out_of_memory
from furlkit.files import bugs
from furlkit.files.facts import Provenance
from furlkit.files.journal import COLLAPSED_RANK, COLLAPSED_SPREAD, Journal
from furlkit.files.progress import Progress, ProgressFile
from furlkit.runtime import no_primitive
from furlkit.training import loop, processes, signals
from furlkit.training.loop import Job
from furlkit.training.plan import Execution
from furlkit.weights import Tensors, below

COLLAPSED_SHARE = 0.9  # Share of the images in the largest cluster.
WORTH_SAVING = 1.0  # Seconds; repeating a shorter training is faster than saving.


class Jobs(Protocol):
    """Consecutive trainings, and the state passed between them.

    The progress file of every training contains `state`; a resumed training calls
    `load`. By default the state is empty.
    """

    @property
    def turns(self) -> int:
        """Number of trainings."""

    def job(self, turn: int) -> Job:
        """Training of a turn, counted from 0."""

    def finish(self, turn: int, last: loop.Epoch) -> None:
        """Record the end of a training."""

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """State passed between the trainings."""
        return {}, {}

    def load(self, tensors: Tensors, values: dict[str, Any]) -> None:
        """Restore a saved `state`."""
        return


class _Single(Jobs):
    """One training."""

    turns = 1

    def __init__(self, job: Job):
        self._job = job

    def job(self, turn: int) -> Job:
        return self._job

    def finish(self, turn: int, last: loop.Epoch) -> None:
        if not self._job.may_collapse:
            warn_of_collapse(self._job.title, last)


def prepare(net: nn.Module, execution: Execution) -> None:
    """Lay out and compile a net in place; the names of tensors stay."""
    if execution.channels_last:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if execution.compile and runtime.processes() > 1:
        raise UsageError("--compile: is not possible with several processes")
    if execution.compile:
        for child in net.children():
            child.compile()
    if isinstance(encoder := getattr(net, "encoder", None), nn.Module):
        processes.share(encoder, next(net.parameters()).device)


def run_jobs(
    jobs: Job | Jobs,
    output: Path,
    provenance: Provenance,
    save_every: float,
    save_last: bool = False,
) -> loop.Epoch:
    """Train to the end, resume if interrupted, and return the last epoch.

    `save_last` also saves the finished training, unless it was short, for commands with
    further work. The writer of the output then discards the progress file.
    """
    sequence = _Single(jobs) if isinstance(jobs, Job) else jobs
    with bugs.kept(output):
        keeper = _Keeper(output, provenance, sequence, save_every, save_last)
        while keeper.turn < sequence.turns:
            with signals.deferring():
                job = sequence.job(keeper.turn)
            _run_job(job, keeper)
            if keeper.last is None:
                raise FurlkitError(f"{job.title}: --epochs 0 trains nothing")
            with signals.deferring():
                sequence.finish(keeper.turn, keeper.last)
                keeper.next_turn()
        if keeper.last is None:
            raise FurlkitError("there is nothing to train")
        return keeper.last


def _run_job(job: Job, keeper: "_Keeper") -> None:
    console.detail(
        f"{job.title}: {len(job.images):,} images, {job.steps:,} steps, progress in "
        f"{keeper.file.path} every {keeper.save_every:g} s, journal in "
        f"{keeper.journal.path}"
    )
    keeper.job = job
    processes.check_batch(min(job.plan.batch_size, len(job.images)))
    with console.bar(job.title, job.steps) as bar, naming(job.title):
        for step in loop.train(job, keeper):
            if step.epoch is not None:
                keeper.note(step.epoch)
                _print_epoch(job, step.epoch)
            bar.reach(step.number, f"loss {_total(keeper.last)}" if keeper.last else "")


@contextmanager
def naming(title: str) -> Iterator[None]:
    """Name the failed training in errors, and a cure."""
    try:
        yield
    except loop.DivergedError as error:
        raise FurlkitError(f"{title}: {error}") from error
    except RuntimeError as error:
        # torch has no error class for exhausted CPU memory.
        if is_out_of_memory(error):
            cure = "lower --batch-size, or try --precision bfloat16"
            raise FurlkitError(f"{title}: out of memory; {cure}") from error
        if cause := no_primitive(error):
            raise FurlkitError(f"{title}: {cause}") from error
        raise


class _Keeper:
    """Save progress at intervals; see `loop.Keeper`.

    One file holds the current training and the state passed between trainings.
    """

    job: Job

    def __init__(
        self,
        output: Path,
        provenance: Provenance,
        jobs: Jobs,
        save_every: float,
        save_last: bool,
    ):
        self.file = ProgressFile(output, provenance, runtime.versions())
        self.journal = Journal(output)
        self.save_every, self._save_last, self.jobs = save_every, save_last, jobs
        self._saved = time.monotonic()
        self._inner: tuple[int, dict[str, Tensor], dict[str, Any]] | None = None
        self.turn, self.last = 0, None  # type: int, loop.Epoch | None
        self._rewind: int | None = 0
        found, reason = self.file.load()
        if reason:
            console.warn(reason, passing=True)
        if found is not None:
            self._load_or_start_over(found)

    def _load_or_start_over(self, found: Progress) -> None:
        before = self.jobs.state()
        try:
            self._load(found)
        # Anything may be wrong with a file of another program.
        except Exception as error:
            self.jobs.load(*before)
            self.turn, self.last, self._inner = 0, None, None
            self._warn(error)
        else:
            self._rewind = found.step
            console.info(f"{self.file.path}: resuming after step {found.step}")

    def _load(self, found: Progress) -> None:
        values = found.values
        self.turn = values["turn"]
        self.last = loop.Epoch(**values["last"]) if values["last"] else None
        if self.turn not in range(self.jobs.turns + (self.last is not None)):
            raise ValueError(f"it is at training {self.turn} of {self.jobs.turns}")
        self.jobs.load(below("jobs.", found.tensors), values["jobs"])
        if values["inner"] is not None:
            inner = below("inner.", found.tensors)
            tensors = {k: torch.from_numpy(v) for k, v in inner.items()}
            self._inner = values["step"], tensors, values["inner"]

    def refuse(self, error: Exception) -> None:
        """Refuse a saved training and start over."""
        self._warn(error)
        self._rewind = self.job.steps_before
        self.restore()

    def _warn(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        text = f"{self.file.path}: cannot be resumed ({reason}); starting over"
        console.warn(text, passing=True)

    def restore(self) -> tuple[int, dict[str, Tensor], dict[str, Any]] | None:
        """Return the interrupted training once; None starts a new training."""
        # Only now, since a refused training must not write.
        if self._rewind is not None:
            self.journal.rewind(self._rewind)
            self.journal.write({"event": "start", **runtime.machine()})
            self._rewind = None
        inner, self._inner = self._inner, None
        if inner is None and self.job.begin is not None:
            self.job.begin()
        return inner

    def due(self, finished: bool) -> bool:
        """Return True if it is time to save."""
        if finished and not self._save_last:
            return False
        wait = min(self.save_every, WORTH_SAVING) if finished else self.save_every
        return time.monotonic() - self._saved >= wait

    def save(
        self, step: int, tensors: dict[str, Tensor], values: dict[str, Any] | None
    ) -> None:
        """Save the current training, and the state passed between trainings."""
        shared, numbers = self.jobs.state()
        arrays = {f"jobs.{name}": array for name, array in shared.items()}
        for name, tensor in tensors.items():
            arrays[f"inner.{name}"] = tensor.detach().cpu().contiguous().numpy()
        last = self.last._asdict() if self.last else None
        state = {"turn": self.turn, "step": step, "inner": values}
        before = self.job.steps_before + (self.job.steps if values is None else step)
        self.file.save(before, arrays, {**state, "last": last, "jobs": numbers})
        self._saved = time.monotonic()

    def note(self, epoch: loop.Epoch) -> None:
        """Record an epoch; the journal counts the steps of all trainings."""
        self.last = epoch
        step = self.job.steps_before + epoch.step
        speed = round(epoch.samples_per_second, 1)
        counted = {**epoch.facts(), "step": step, "samples_per_second": speed}
        self.journal.write({"event": "epoch", **self.job.where, **counted})

    def next_turn(self) -> None:
        """Go to the next training; save and stop if requested."""
        self.turn += 1
        # A single finished training is not saved: its stage writes the output next.
        resumable = self.turn < self.jobs.turns or self.jobs.state()[0]
        if resumable and (self.due(False) or signals.requested()):
            self.save(0, {}, None)
            signals.stop()


def _print_epoch(job: Job, epoch: loop.Epoch) -> None:
    terms = ""
    if len(epoch.losses) > 1:
        parts = [f"{name} {value:.4f}" for name, value in epoch.losses.items()]
        terms = f" ({', '.join(parts)})"
    others = "".join(
        f" {name} spread {spread:.2f} rank {rank:.1f}"
        for name, (spread, rank) in epoch.meters().items()
        if name
    )
    # Measures of the learner: "used clusters 10 ". Lists are too long.
    found = {k: v for k, v in epoch.measures.items() if not isinstance(v, list)}
    words = "".join(f"{k.replace('_', ' ')} {v:.3g} " for k, v in found.items())
    console.info(
        f"{job.title} epoch {epoch.epoch}/{job.epochs} loss {_total(epoch)}{terms} "
        f"spread {epoch.spread:.2f} rank {epoch.effective_rank:.1f}{others} "
        f"{words}{epoch.samples_per_second:.0f} images/s"
    )


def _total(epoch: loop.Epoch) -> str:
    return f"{sum(epoch.losses.values()):.4f}"


def warn_of_collapse(title: str, epoch: loop.Epoch) -> None:
    """Warn if a training ended with a collapsed representation or clustering."""
    for term, (spread, rank) in epoch.meters().items():
        whose, lower = (f" of {term}", f"--{term}, --lr") if term else ("", "--lr")
        if spread < COLLAPSED_SPREAD or rank < COLLAPSED_RANK:
            console.warn(
                f"{title}: the representation{whose} has collapsed (spread {spread:.3f}, "
                f"effective rank {rank:.2f}): nearly equal for all images; lower "
                f"{lower}, raise --batch-size (or --temperature, if the objective has "
                "one), or check the data"
            )
    found = epoch.measures
    if found.get("largest_cluster", 0) <= COLLAPSED_SHARE:
        _warn_of_lost_clusters(title, found)
    else:
        # A self-labelling model has neither --entropy-weight nor neighbours.
        cure = (
            "start from longer trained clusters, or train fewer --epochs at a "
            "lower --lr, with --class-weights"
            if "skipped" in found
            else "raise --entropy-weight or --batch-size, or start from a better pretext "
            "model"
        )
        console.warn(
            f"{title}: the clustering has collapsed: {found['largest_cluster']:.0%} of "
            f"the images are in one cluster (entropy {found['cluster_entropy']:.2f}, "
            f"confident {found['confident']:.0%}); {cure}"
        )


def _warn_of_lost_clusters(title: str, found: dict[str, Any]) -> None:
    """Warn if a self-labelling model has lost at least half of its clusters."""
    first, last = found.get("first_used", 0), found.get("used_clusters", 0)
    if first and last <= first / 2:
        console.warn(
            f"{title}: {first} clusters have become {last}: confident images belong "
            "to few clusters, which absorb other clusters; train fewer --epochs at "
            "a lower --lr, or give another --confidence"
        )
