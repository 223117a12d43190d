"""partition: which client holds which images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.catalogue import recorded
from furlkit.data.partitions.options import SchemeOptions
from furlkit.data.partitions.schemes import label_histogram, split
from furlkit.data.sets.source import Source
from furlkit.files.facts import Provenance
from furlkit.files.partition import PartitionFacts, write_partition
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator


@dataclass(frozen=True)
class Options:
    """The dataset whose labels are partitioned, and how."""

    data: Source
    scheme: SchemeOptions
    seed: int
    output: Path
    dry_run: bool
    recorded: dict[str, Any]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Partition a dataset's indices among clients, and some to the public."""
    options = fill(Options, {**values, "recorded": recorded("partition", values)})
    data = options.data.labels()
    rng = numpy_generator(options.seed, "partition", options.scheme.scheme)
    drawn = split(data, options.scheme, rng)
    parts, public = drawn.indices, drawn.public
    histogram = label_histogram(parts, data.labels, data.classes)
    facts = PartitionFacts(
        options.scheme.scheme, len(parts), data.fingerprint, list(data.class_names)
    )
    sizes = [len(part) for part in parts]
    line = (
        f"{options.output}: {len(parts)} clients of {min(sizes):,} to {max(sizes):,} "
        f"images by {options.scheme.scheme}, {len(public):,} public, of {data.examples:,}"
    )
    result = {"clients": len(parts), "sizes": sizes, "public": len(public)}
    if not options.dry_run:
        made = Provenance(
            # How many clients there are may be a file's to say.
            "partition",
            {**options.recorded, "clients": len(parts)},
            options.seed,
        )
        header = write_partition(options.output, parts, public, histogram, facts, made)
        result["content"] = header.content
    return line, result
