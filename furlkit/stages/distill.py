"""distill: the server's student learns to arrange public images as the clients do."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from furlkit import runtime
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from furlkit.files.ensemble import Ensemble, read_ensemble
from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile
from furlkit.inputs.matching import check_channels
from furlkit.inputs.paths import check_output
from furlkit.models.architecture import Net
from furlkit.models.ensembles import Similarities
from furlkit.models.loading import architecture_of, load_net, tensors_of, view_of
from furlkit.runtime import Runtime
from furlkit.training import run as training
from furlkit.training.distillation import Distiller
from furlkit.training.loop import Epoch, Plan
from furlkit.training.run import Handling


@dataclass(frozen=True)
class Options:
    """`temperature` is tau_S and `layer` h or z; None takes what the ensemble has.

    `momentum` is zeta, of the slow copy, and `anchors` is m, the length of its queue.
    """

    ensemble: Path
    model: Path
    data: Source
    output: Path
    augmentation: Augmentation
    plan: Plan
    layer: str | None = None
    temperature: float | None = None
    momentum: float = 0.999
    anchors: int = 2048
    handling: Handling = Handling()
    runtime: Runtime = Runtime()
    seed: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class Doors:
    """What distill was given, opened and checked."""

    options: Options
    ensemble: Ensemble
    model: Checkpoint
    images: ImageSet
    layer: str
    width: int

    @property
    def tau(self) -> float:
        """The student's temperature."""
        return self.options.temperature or self.ensemble.facts.temperature

    @property
    def made(self) -> Provenance:
        """How the global model comes to be."""
        o = self.options
        words = {
            "layer": self.layer,
            "temperature": self.tau,
            "momentum": o.momentum,
            "anchors": o.anchors,
            "augmentation": asdict(o.augmentation),
            "plan": asdict(o.plan),
            "channels_last": o.handling.channels_last,
            "compile": o.handling.compile,
            **o.runtime.resolved_options(),
        }
        inputs = {"ensemble": self.ensemble.content, "start": self.model.content}
        return Provenance("distill", words, o.seed, inputs)


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Train the student on the public images and write it as the global model."""
    doors = _open(options)
    facts = doors.ensemble.facts
    line = (
        f"{options.output}: round {facts.round}, distilled from {len(facts.clients)} "
        f"client{'s' * (len(facts.clients) > 1)} on {facts.examples:,} public images"
    )
    data: dict[str, Any] = {"round": facts.round, "images": facts.examples}
    if not options.dry_run:
        student, last = _train(doors)
        data["content"] = _write(doors, student, last)
        data.update(asdict(last))
        ProgressFile(options.output, doors.made).discard()
    return line, data


def _open(options: Options) -> Doors:
    given = [options.ensemble, options.model, Path(options.data.name)]
    check_output(options.output, given)
    device = runtime.start(options.runtime)
    ensemble, model = read_ensemble(options.ensemble), read_checkpoint(options.model)
    images = options.data.images()
    if difference := same_dataset(ensemble.facts.dataset, images.fingerprint):
        raise InputError(
            f"{ensemble.path}: is of other images than {images.name}: {difference}; "
            "give the --data that embed was given"
        )
    index = ensemble.index
    if len(index) < 2 or not 0 <= index.min() <= index.max() < len(images.images):
        raise InputError(
            f"{ensemble.path}: names {len(index)} images, {images.name} has "
            f"{len(images.images)}; 2 of them or more were wanted"
        )
    if options.anchors < min(options.plan.batch_size, len(index)):
        cure = "an image must find itself among them; lower --batch-size"
        raise UsageError(f"--anchors {options.anchors}: fewer than a batch, but {cure}")
    architecture = architecture_of(model.path, model.facts)
    check_channels(images, architecture, model.path)
    layer = options.layer or ensemble.facts.layer
    if layer == "z" and not architecture.projector:
        raise InputError(f"{model.path}: has no projector, so no z; use --layer h")
    width = architecture.feature_dim
    if layer == "z" and architecture.projector:
        width = architecture.projector[-1]
    load_net(model, device)
    return Doors(options, ensemble, model, images, layer, width)


def _train(doors: Doors) -> tuple[Net, Epoch]:
    options, device = doors.options, runtime.device_of(doors.options.runtime)
    student = load_net(doors.model, device)
    training.prepare(student, options.handling)
    view = view_of(doors.model, options.augmentation, options.handling.channels_last)
    images = Images(doors.images.images, None, doors.ensemble.index, view, device)
    distiller = Distiller(student, doors.layer, doors.width, options.anchors)
    purpose = (options.seed, "distill", doors.ensemble.facts.round)
    similarities = Similarities(doors.ensemble, device)

    def loss_of(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        return distiller.step(batch, similarities, doors.tau, options.momentum)

    def fill() -> None:
        distiller.fill(images, options.plan.batch_size, purpose)

    plan = options.plan
    job = training.Job("student", distiller, loss_of, images, plan, purpose, fill)
    last = training.run(job, options.output, doors.made, options.handling, False)
    return student, last


def _write(doors: Doors, student: Net, last: Epoch) -> str:
    ensemble = doors.ensemble.facts
    facts = replace(
        doors.model.facts,
        role="global",
        round=ensemble.round,
        client=None,
        examples=ensemble.examples,
        parent=doors.model.content,
        partition=None,
        loss=sum(last.losses.values()),
        left_out=None,
    )
    output = doors.options.output
    return write_checkpoint(output, tensors_of(student), facts, doors.made).content
