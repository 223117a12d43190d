"""evaluate negatives: share of negatives with the image's class, by partition."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.errors import InputError
from furlkit.evaluation.negatives import by_equations
from furlkit.files.partition import Partition, read_partition
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill


@dataclass(frozen=True, kw_only=True)
class NegativesOptions:
    """`queue`: rows of a client; `dictionary_size`: rows of the clients together."""

    partition: Path
    output: Path
    negatives: str
    queue: int
    dictionary_size: int | None
    dry_run: bool
    force: bool
    resolved: dict[str, Any]

    def shared(self, clients: int) -> int:
        """Number of rows that each client shares."""
        if self.dictionary_size is None:
            return self.queue
        return -(-self.dictionary_size // clients)


def run(values: dict[str, Any]) -> Result:
    """Count classes by client, and compute the shares of false negatives."""
    known = recorded("evaluate negatives", values)
    options = fill(NegativesOptions, {**values, "resolved": known})
    check_output(options.output, [options.partition])
    partition = read_partition(options.partition)
    _check_labels(partition)
    clients = partition.facts.clients
    origins = {
        "protocol": "negatives",
        "clients": clients,
        "data": {"images": partition.facts.dataset, "partition": partition.content},
        "inputs": by_role("evaluate negatives", partition=partition),
    }
    whose = f"{options.negatives} negatives of {clients} clients"
    if options.dry_run:
        return f"would measure the {whose}", origins
    if document := existing_scores(options, origins):
        return already(_line(options, document, whose), document)
    document = write_document(options, {**origins, **_found(options, partition)})
    return _line(options, document, whose), document


def _line(options: NegativesOptions, document: dict[str, Any], whose: str) -> str:
    ratio, equation = (
        _shown(document[key]) for key in ("false_negative_ratio", "equation")
    )
    line = (
        f"{options.output}: false-negative ratio {ratio} ({equation} by FCL's equation)"
    )
    return f"{line} of the {whose}"


def _found(options: NegativesOptions, partition: Partition) -> dict[str, Any]:
    shared = options.shared(partition.facts.clients)
    given = partition.histogram, options.queue, shared
    measured = load(PROTOCOLS["negatives"].function)
    real, expected = measured(*given)._asdict(), by_equations(*given)._asdict()
    return {
        "false_negative_ratio": real[options.negatives],
        "equation": expected[options.negatives],
        "measured": real,
        "equations": expected,
        "rows": {"own": options.queue, "shared": shared},
    }


def _shown(ratio: float | None) -> str:
    return "none" if ratio is None else f"{ratio:.4g}"


def _check_labels(partition: Partition) -> None:
    if not partition.histogram.sum():
        raise InputError(
            f"{partition.path}: counts no classes: the dataset has no labels; "
            "partition a labelled dataset"
        )
