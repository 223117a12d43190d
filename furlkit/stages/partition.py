"""partition: which client holds which images."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from furlkit.data.partitions.options import SchemeOptions
from furlkit.data.partitions.schemes import label_histogram, options_read, split
from furlkit.data.sets.source import Source
from furlkit.files.facts import Provenance
from furlkit.files.partition import PartitionFacts, write_partition
from furlkit.randomness import numpy_generator


@dataclass(frozen=True)
class Options:
    """The dataset whose labels are dealt, and how."""

    data: Source
    scheme: SchemeOptions
    seed: int
    output: Path
    dry_run: bool = False


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Deal a dataset's indices to clients, and some to the public."""
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
        made = Provenance("partition", _words(options.scheme, len(parts)), options.seed)
        header = write_partition(options.output, parts, public, histogram, facts, made)
        result["content"] = header.content
    return line, result


def _words(scheme: SchemeOptions, clients: int) -> dict[str, Any]:
    # A path means nothing on another machine; what the file said is in the indices,
    # and how many clients there are is the file's to say.
    given = replace(scheme, split_file=None, clients=clients)
    words = asdict(given)
    read = options_read(scheme.scheme)
    return {k: v for k, v in words.items() if k in read and v is not None}
