"""An untrained network, for comparison with trained networks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.decoded import Fit
from furlkit.errors import UsageError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts, open_checkpoint
from furlkit.files.facts import Provenance
from furlkit.inputs import labelled
from furlkit.inputs.images import warn_of_change
from furlkit.inputs.paths import check_output
from furlkit.models.description import Architecture, full_architecture

NO_FILE = Path("--untrained")  # Name in messages for a network without a file.


@dataclass(frozen=True, kw_only=True)
class ScoredOptions(labelled.LabelledOptions):
    """With `untrained`, the architecture comes from `model` or from the options."""

    untrained: bool
    encoder: str | None
    width: float | None
    stem: str | None
    image_size: int | None


def open_labelled(options: ScoredOptions) -> tuple[Checkpoint, ImageSet, ImageSet]:
    """Open the model and fitting images; an untrained model has no tensors yet."""
    if not options.untrained:
        return labelled.open_labelled(options)
    sources = (options.train, options.test)
    check_output(options.output, [options.model, *(s.name for s in sources)])
    seed = options.seed or 0
    if options.model:
        model = _undrawn(_facts_like(options.model, options), seed)
        return model, *labelled.open_pair(*sources, model)
    train = labelled.check_labelled(options.train.images(Fit(options.image_size)))
    model = _undrawn(_facts(train, options), seed)
    warn_of_change(train, model)
    test = labelled.open_one(options.test, model)
    labelled.check_pair(train, test)
    return model, train, test


def _facts_like(path: Path, options: ScoredOptions) -> CheckpointFacts:
    for name in ("encoder", "width", "stem", "image_size"):
        if getattr(options, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} does not apply beside {path}, which sets "
                "the architecture; leave out either"
            )
    facts = open_checkpoint(path)[1]
    known = (full_architecture(path, facts).to_dict(), facts.mean, facts.std)
    return CheckpointFacts("global", 0, *known, reading=facts.reading)


def _facts(images: ImageSet, options: ScoredOptions) -> CheckpointFacts:
    height, width, channels = images.images.shape[1:]
    given: dict[str, Any] = {"width": options.width, "stem": options.stem}
    architecture = Architecture(
        options.encoder or "cnn5", options.image_size or min(height, width), channels,
        **{name: value for name, value in given.items() if value is not None},
    )  # fmt: skip
    facts = (architecture.to_dict(), list(images.mean), list(images.std))
    reading = images.reading.facts() or None
    return CheckpointFacts("global", 0, *facts, reading=reading)


def _undrawn(facts: CheckpointFacts, seed: int) -> Checkpoint:
    """Return the model that init would write with this seed, without tensors."""
    header = Provenance("init", seed=seed).header("checkpoint", facts)
    return Checkpoint(NO_FILE, facts, "", {}, header)
