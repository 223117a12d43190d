"""partition: assign the images of a dataset to clients."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.catalogue import SCHEMES, divided, recorded
from furlkit.data.partitions.domains import domains_of_clients
from furlkit.data.partitions.schemes import SchemeOptions, label_histogram, split
from furlkit.data.sets.source import Source
from furlkit.files.facts import Provenance
from furlkit.files.partition import PartitionFacts, write_partition
from furlkit.inputs.existing import already, made_before
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator


@dataclass(frozen=True)
class Options:
    """The dataset, and how it is divided."""

    data: Source
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
    options = fill(Options, {**rest, **known})
    data = options.data.labels()
    rng = numpy_generator(options.seed, "partition", options.scheme.scheme)
    drawn = split(data, options.scheme, rng)
    parts, public = drawn.indices, drawn.public
    histogram = label_histogram(parts, data.labels, data.classes)
    domains = domains_of_clients(parts, data)
    facts = PartitionFacts(
        options.scheme.scheme, len(parts), data.fingerprint, list(data.class_names),
        None if domains is None else list(data.domain_names),
    )  # fmt: skip
    sizes = [len(part) for part in parts]
    line = (
        f"{options.output}: {len(parts)} clients of {min(sizes):,} to {max(sizes):,} "
        f"images by {options.scheme.scheme}, {len(public):,} public, of {data.examples:,}"
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
    if not options.dry_run:
        # A split file decides the number of clients, whatever --clients says.
        resolved = {**options.recorded, "clients": len(parts)}
        provenance = Provenance("partition", resolved, options.seed)
        content = made_before(options, "partition", provenance, facts)
        if content:
            return already(options.output, content)
        result["content"] = write_partition(
            options.output, parts, public, histogram, facts, provenance, domains
        )
    return line, result
