"""partition: assign the images of a dataset to clients."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.catalogue import SCHEMES, divided, recorded
from furlkit.data.partitions.domains import domains_of_clients
from furlkit.data.partitions.groups import split_groups
from furlkit.data.partitions.schemes import SchemeOptions, label_histogram
from furlkit.data.partitions.schemes import split as split_images
from furlkit.data.partitions.sizes import Parts
from furlkit.data.sets.fingerprint import label_fingerprint as hashed
from furlkit.data.sets.groups import recorded_groups
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.source import Source
from furlkit.data.sets.split import drawn_positions
from furlkit.errors import UsageError
from furlkit.files.facts import Provenance
from furlkit.files.partition import PartitionFacts, write_partition
from furlkit.inputs.existing import existing_result
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator


@dataclass(frozen=True)
class PartitionOptions:
    """The dataset, and the scheme of the partition."""

    data: Source
    verify: bool
    images: int | None
    groups: str | None
    scheme: SchemeOptions
    seed: int
    output: Path
    dry_run: bool
    force: bool
    recorded: dict[str, Any]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Divide a dataset's indices among clients, and optionally a public part."""
    own, rest = divided(values, SCHEMES[values["scheme"]].options)
    known = {"own": own, "recorded": recorded("partition", values)}
    if own.get("concentration") is not None:
        known["recorded"].pop("balance", None)  # Only IID clients are balanced.
    options = fill(PartitionOptions, {**rest, **known})
    if options.verify:
        options.data.verify()
    data = options.data.with_groups(options.data.labels(), options.groups)
    parts, public = _drawn(data, options)
    histogram = label_histogram(parts, data.labels, data.classes)
    domains = domains_of_clients(parts, data)
    facts = PartitionFacts(
        options.scheme.scheme, len(parts), data.fingerprint, list(data.class_names),
        None if domains is None else list(data.domain_names),
    )  # fmt: skip
    sizes = [len(part) for part in parts]
    drawn = f"{options.images:,} drawn from " if options.images else ""
    line = (
        f"{options.output}: {len(parts)} clients of {min(sizes):,} to {max(sizes):,} "
        f"images by {options.scheme.scheme}, {len(public):,} public, of {drawn}"
        f"{data.examples:,}"
    )
    result: dict[str, Any] = {
        "clients": len(parts),
        "sizes": sizes,
        "public": len(public),
    }
    if domains is not None:
        held = [data.domain_names[d] if d >= 0 else None for d in domains]
        counts = Counter(filter(None, held)).items()
        line += f"; {', '.join(f'{count} of {name}' for name, count in counts)}"
        result["domains"] = held
    if data.groups is not None:
        result["groups"] = len(np.unique(data.groups))
        line += f"; {result['groups']:,} groups, none divided"
    if not options.dry_run:
        # A split file decides the number of clients, not --clients.
        groups = recorded_groups(options.groups)
        resolved = {**options.recorded, **groups, "clients": len(parts)}
        inputs = {} if data.groups is None else {"groups": hashed(data.groups)}
        provenance = Provenance("partition", resolved, options.seed, inputs)
        if made := existing_result(options, "partition", provenance, facts, result):
            return made
        result["content"] = write_partition(
            options.output, parts, public, histogram, facts, provenance, domains
        )
    return line, result


def _drawn(data: LabelSet, options: PartitionOptions) -> tuple[Parts, np.ndarray]:
    """Indices of every client and of the public part, from all images or --images."""
    rng = numpy_generator(options.seed, "partition", options.scheme.scheme)
    split = split_images if data.groups is None else split_groups
    if options.images is None:
        drawn = split(data, options.scheme, rng)
        return drawn.indices, drawn.public
    if options.scheme.scheme == "file":
        raise UsageError("--images does not apply to --scheme file")
    draw = numpy_generator(options.seed, "partition", "images")
    every = np.arange(data.examples)
    chosen = drawn_positions(data.name, every, options.images, draw)
    drawn = split(data.subset(chosen), options.scheme, rng)
    return [chosen[part] for part in drawn.indices], chosen[drawn.public]
