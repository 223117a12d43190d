"""init: the model that everyone starts from."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.data.sets.datasets import names, open_labels, usual_numbers
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import CheckpointFacts, read_checkpoint, write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.inputs.paths import check_output
from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import Tensors, architecture_of, tensors_of
from furlkit.randomness import torch_generator
from furlkit.runtime import pinned_option


@dataclass(frozen=True)
class Options:
    """What the net is. Size, channels, classes, mean and std are the data's, if given.

    `heads` names the heads the objective trains; `source` is a checkpoint whose
    encoder, and heads of the same name, are taken over.
    """

    output: Path
    encoder: str
    heads: tuple[str, ...]
    width: float = 1.0
    stem: str = "auto"
    projector: tuple[int, ...] = (512, 128)
    predictor: tuple[int, ...] = (512, 128)
    data: Source | None = None
    image_size: int | None = None
    channels: int | None = None
    classes: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    source: Path | None = None
    isa: str = "auto"
    seed: int = 0
    dry_run: bool = False


class Known(NamedTuple):
    """What the images say about the net that is to see them."""

    image_size: int | None = None
    channels: int | None = None
    classes: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw the weights of a net and write them as the global model of round 0."""
    if options.source is not None:
        check_output(options.output, [options.source])
    architecture, mean, std = _resolve(options)
    net = build(architecture, torch_generator(options.seed, "init"))
    tensors, inputs = tensors_of(net), {}
    if options.source is not None:
        taken, inputs["source"] = _taken_from(options.source, tensors)
        tensors.update(taken)
    facts = CheckpointFacts("global", 0, architecture.to_dict(), list(mean), list(std))
    total = sum(p.numel() for p in net.parameters())
    encoder = sum(p.numel() for p in net.encoder.parameters())
    line = (
        f"{options.output}: {architecture.encoder} for {architecture.image_size} x "
        f"{architecture.image_size} x {architecture.channels}, {total:,} parameters, "
        f"{encoder:,} of them in the encoder, h has {architecture.feature_dim}"
    )
    data = {"parameters": total, "encoder_parameters": encoder, **asdict(facts)}
    if not options.dry_run:
        words = {**architecture.to_dict(), "mean": list(mean), "std": list(std)}
        words.update(pinned_option(options.isa))
        made = Provenance("init", words, options.seed, inputs)
        data["content"] = write_checkpoint(options.output, tensors, facts, made).content
    return line, data


def _resolve(
    options: Options,
) -> tuple[Architecture, tuple[float, ...], tuple[float, ...]]:
    known = _known(options.data) if options.data else Known()
    size, channels = options.image_size or known.image_size, known.channels
    channels = options.channels or channels
    if options.data and size is None:
        raise UsageError(
            f"--data {options.data.name}: a folder's images may have any size; give "
            "init --image-size"
        )
    if size is None or channels is None:
        raise UsageError("init: give --data, or both --image-size and --channels")
    usual = (known.mean, known.std)
    if known.mean is None or known.std is None or len(known.mean) != channels:
        usual = usual_numbers(channels)
    mean, std = options.mean or usual[0], options.std or usual[1]
    if not len(mean or ()) == len(std or ()) == channels or min(std or (0,)) <= 0:
        raise UsageError(
            f"--mean {mean} --std {std}: wanted {channels} numbers each, one a "
            "channel, and no spread of 0"
        )
    return _architecture(options, size, channels, known), mean, std  # type: ignore[return-value]


def _architecture(
    options: Options, size: int, channels: int, known: Known
) -> Architecture:
    heads = options.heads
    classes = options.classes or known.classes
    if "classifier" in heads and not classes:
        raise UsageError("init: a classifier needs --classes, or labelled --data")
    return Architecture(
        encoder=options.encoder,
        image_size=size,
        channels=channels,
        width=options.width,
        stem=options.stem,
        projector=options.projector if "projector" in heads else None,
        predictor=options.predictor if "predictor" in heads else None,
        decoder="decoder" in heads,
        classifier=classes if "classifier" in heads else None,
        rotation="rotation" in heads,
    )


def _known(source: Source) -> Known:
    if source.name not in names() and Path(source.name).is_dir():
        # A folder's images may have any size; decoding them would tell nothing.
        return Known(source.image_size, 3, open_labels(source.name).classes)
    images = source.images()
    height, width, channels = images.images.shape[1:]
    return Known(min(height, width), channels, images.classes, images.mean, images.std)


def _taken_from(path: Path, tensors: Tensors) -> tuple[Tensors, str]:
    source = read_checkpoint(path)
    taken = {k: v for k, v in source.tensors.items() if k in tensors}
    for name, array in taken.items():
        if array.shape != tensors[name].shape:
            raise InputError(
                f"{path}: {name} is {array.shape}, the new model has "
                f"{tensors[name].shape}; give init the same --encoder, --width, "
                "--stem and heads"
            )
    if not any(name.startswith("encoder.") for name in taken):
        other = architecture_of(path, source.facts).encoder
        raise InputError(
            f"{path}: its encoder {other} shares no tensor with the new one"
        )
    return taken, source.content
