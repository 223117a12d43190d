"""local-train: what a client does in a round."""

from collections.abc import Iterator
from typing import Any

from furlkit.files.lock import holding
from furlkit.inputs.paths import fill
from furlkit.stages.local_train.options import options_of
from furlkit.stages.local_train.start import Result, existing_result, open_start
from furlkit.stages.local_train.usage import check_usage


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Train the clients in sequence from the global model; yield the results.

    torch is imported only if a client lacks results of an earlier run.
    """
    options = options_of(values)
    check_usage(options)
    start = open_start(options)
    existing = {}
    for number in () if options.chooses or options.dry_run else options.clients:
        with holding(fill(options.output, number)):
            if result := existing_result(start, number):
                existing[number] = result
    if len(existing) == len(options.clients):
        yield from existing.values()
        return
    from furlkit.stages.local_train.train import train_clients  # Imports torch.

    yield from train_clients(start, existing)
