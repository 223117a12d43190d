"""init: the model at the start of round 1."""

from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.catalogue import (
    divided,
    encoders,
    entry_of,
    heads,
    objectives,
    recorded,
)
from furlkit.data.sets.datasets import default_mean_std
from furlkit.data.sets.folder import index_folder
from furlkit.data.sets.ranges import survey
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import AS_STORED, Reading
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import CheckpointFacts
from furlkit.files.clients import EXPECTED, is_name
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.pretrained import Numbers, Pretrained, read_pretrained
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import Existing, Output, already, unchanged
from furlkit.inputs.models import CLASSIFYING
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.description import Architecture
from furlkit.runtime import pinned_option
from furlkit.weights import is_batchnorm_statistic, part_of


@dataclass(frozen=True)
class InitOptions:
    """Options of the network. --data sets the size, channels, classes, mean and std.

    `heads`: heads of the objective and additional heads, with the widths of MLPs.
    `source`: a file of weights; the encoder, and heads with equal names, are copied.
    The source's mean and std, if recorded, take precedence over the data's.
    """

    output: Path
    encoder: str
    encoder_options: dict[str, Any]
    heads: dict[str, tuple[int, ...]]
    projector_norm: str
    data: Source | None
    reading: Reading
    image_size: int | None
    channels: int | None
    classes: int | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    source: Path | None
    run_name: str | None
    isa: str
    seed: int
    dry_run: bool
    force: bool
    recorded: dict[str, Any]


class DataDefaults(NamedTuple):
    """Defaults for the network, derived from the images."""

    image_size: int | None = None
    channels: int | None = None
    classes: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    reading: Reading = AS_STORED


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw the weights of a network and write the global model of round 0."""
    options = _options(values)
    check_output(options.output, [options.source])
    source = read_pretrained(options.source) if options.source else None
    known = _defaults_of(options.data) if options.data else DataDefaults()
    architecture, mean, std = _resolve(options, known, source)
    contents = by_role("init", source=source)
    facts = CheckpointFacts(
        "global", 0, architecture.to_dict(), list(mean), list(std),
        init_seed=options.seed if {*CLASSIFYING} & options.heads.keys() else None,
        reading=_reading(options, known, source).facts() or None,
        privacy=source.privacy if source else None,
    )  # fmt: skip
    provenance = _provenance(options, facts, contents)
    if existing := unchanged(
        options, Output(options.output, "checkpoint", provenance, facts)
    ):
        return already(options.output, _data_of(options.output, facts, existing[0]))
    from furlkit.stages.init.work import make_model  # Imports torch.

    return make_model(options, architecture, source, facts, provenance)


def _data_of(
    output: Path, facts: CheckpointFacts, existing: Existing
) -> dict[str, Any]:
    """Entries of the result of an earlier run; buffers are no parameters."""
    entries = [e for e in Container(output).entries if e.dtype.kind == "f"]
    numbers = {
        e.name: prod(e.shape) for e in entries if not is_batchnorm_statistic(e.name)
    }
    encoder = (n for name, n in numbers.items() if part_of(name) == "encoder")
    return {
        "parameters": sum(numbers.values()), "encoder_parameters": sum(encoder),
        **asdict(facts), **existing.facts, "content": existing.content,
    }  # fmt: skip


def _provenance(
    options: InitOptions, facts: CheckpointFacts, contents: dict[str, str]
) -> Provenance:
    resolved = {
        **options.recorded,
        **pinned_option(options.isa),
        "head": list(options.heads),
        "image-size": facts.architecture["image_size"],
        "channels": facts.architecture["channels"],
        "mean": facts.mean,
        "std": facts.std,
    }
    return Provenance("init", resolved, options.seed, contents)


def _options(values: dict[str, Any]) -> InitOptions:
    encoder = entry_of(encoders(), values["encoder"])
    own, rest = divided(values, encoder.options)
    objective = objectives()[rest.pop("objective")]
    chosen = {*objective.head_names, *rest.pop("more_heads")}
    if rest["projector_norm"] != "hidden" and "projector" not in chosen:
        raise UsageError(
            f"--projector-norm {rest['projector_norm']}: the model has no projector; "
            "give --head projector"
        )
    if rest["run_name"] is not None and not is_name(rest["run_name"]):
        raise UsageError(f"--run-name {rest['run_name']}: expected {EXPECTED}")
    widths = {name: rest.pop(name, head.widths) for name, head in heads().items()}
    widths["clusters"] *= (several := rest.pop("cluster_heads"))
    if several > 1 and "clusters" not in chosen:
        raise UsageError(
            f"--heads {several}: the model has no clusters; give --objective cluster"
        )
    unread = widths.keys() - chosen
    known = {
        "encoder_options": own,
        "heads": {name: width for name, width in widths.items() if name in chosen},
        "recorded": recorded("init", {k: values[k] for k in values.keys() - unread}),
    }
    return fill(InitOptions, {**rest, **known})


def _reading(
    options: InitOptions, known: DataDefaults, source: Pretrained | None
) -> Reading:
    """Return the given window, or the data's, or the window of --from."""
    ours, theirs = options.reading, known.reading
    if options.data and theirs.window and ours.window not in (None, theirs.window):
        raise InputError(
            f"--window {ours.window}: {options.data.name} was packed with --window "
            f"{theirs.window}; leave the option out, or pack the images again"
        )
    found = [each for each in (theirs, ours) if each.facts()]
    if found or source is None:
        return found[0] if found else AS_STORED
    return Reading.from_facts(source.reading, source.path)


def _resolve(
    options: InitOptions, known: DataDefaults, source: Pretrained | None
) -> tuple[Architecture, Numbers, Numbers]:
    size = options.image_size or known.image_size
    channels = options.channels or known.channels
    if options.data and size is None:
        raise UsageError(
            f"--data {options.data.name}: a folder's images may have any size; give "
            "init --image-size"
        )
    if size is None or channels is None:
        raise UsageError("init: give --data, or both --image-size and --channels")
    mean, std = known.mean, known.std
    if len(mean) != channels:
        mean, std = default_mean_std(channels)
    if source and source.normalisation and len(source.normalisation[0]) == channels:
        mean, std = source.normalisation
    mean, std = options.mean or mean, options.std or std
    if not len(mean) == len(std) == channels or min(std) <= 0:
        raise UsageError(
            f"--mean {mean} --std {std}: expected a number for each channel (channels: "
            f"{channels}), and a std above 0"
        )
    widths, classes = dict(options.heads), options.classes or known.classes
    if "classifier" in widths:
        if not classes:
            raise UsageError("init: a classifier needs --classes, or labelled --data")
        widths["classifier"] = (classes,)
    own = dict(options.encoder_options)
    own["projector_norm"] = options.projector_norm
    return Architecture(options.encoder, size, channels, heads=widths, **own), mean, std


def _defaults_of(source: Source) -> DataDefaults:
    if source.is_folder:
        # A folder's images may have any size: only a sample is decoded.
        index = index_folder(Path(source.name))
        reading, channels = survey(index.root, index.paths, source.reading)
        channels = max(channels, 3)  # A network for colour sees grey images too.
        return DataDefaults(
            source.size, channels, index.labels.classes, reading=reading
        )
    images = source.images()
    height, width, channels = images.images.shape[1:]
    side = min(height, width)
    return DataDefaults(
        side, channels, images.classes, images.mean, images.std, images.reading
    )
