"""local-train: what a client does in a round."""

from collections.abc import Iterator
from typing import Any

from furlkit.errors import FurlkitError
from furlkit.files.lock import holding
from furlkit.inputs.paths import fill
from furlkit.stages.local_train.options import LocalTrainOptions, options_of
from furlkit.stages.local_train.start import (
    Result,
    Start,
    existing_result,
    open_start,
)
from furlkit.stages.local_train.usage import check_usage


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Train the clients in sequence from the global model; yield the results.

    torch is imported only if a client lacks results of an earlier run.
    """
    options = options_of(values)
    check_usage(options)
    start = _open(options)
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


def _open(options: LocalTrainOptions) -> Start:
    """Open the files; contradictory options of exchanges come before problems of files.

    Exchanges import torch, so their options are checked only if a file is in the way.
    """
    try:
        return open_start(options)
    except FurlkitError:
        from furlkit.exchanges.exchange import make_exchanges

        make_exchanges(options.values)
        raise
